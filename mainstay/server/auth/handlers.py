"""Handlers of tokens of service accounts, and of reviews: questions about users and what they may do."""

from mainstay.api import kind_names, times
from mainstay.api.kinds import REVIEWS
from mainstay.env import Clock
from mainstay.http.messages import Answer
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.auth.authorization import Authorizers, agent_in
from mainstay.server.auth.node_restriction import NodeRestriction
from mainstay.server.auth.reviews import Reviews
from mainstay.server.request.answers import answer_json
from mainstay.server.request.bodies import Bodies
from mainstay.server.request.handlers import HandlerTable, ResourceCall, serve
from mainstay.server.request.options import WriteParameters
from mainstay.server.request.target import Verb


class AuthHandlers:
    def __init__(
        self,
        authenticator: Authenticator,
        authorizers: Authorizers,
        restriction: NodeRestriction,
        bodies: Bodies,
        clock: Clock,
    ) -> None:
        self._authenticator = authenticator
        self._reviews = Reviews(authenticator, authorizers)
        self._restriction = restriction
        self._bodies = bodies
        self._clock = clock

    def add_to(self, table: HandlerTable) -> None:
        table.add(kind_names.SERVICE_ACCOUNTS, "token", serve((Verb.CREATE,), self.issue_token, has_small_body=True))
        for kind in REVIEWS:
            if kind.kind != "Binding":  # Posted like a review, and served by placement/handlers.py.
                table.add(kind.reference, "", serve((Verb.CREATE,), self.review, has_small_body=True))

    async def issue_token(self, asked: ResourceCall) -> Answer:
        WriteParameters.of(asked.options, "CreateOptions", "")
        target, body = asked.target, self._bodies.decode_subresource(asked.request, asked.target)
        if node := agent_in(asked.user):
            await self._restriction.require_token_for_pod(node, target, body)
        return answer_json(201, await self._authenticator.issue(target.namespace, target.name, body))

    async def review(self, asked: ResourceCall) -> Answer:
        kind = asked.target.kind
        review = self._bodies.decode_small(asked.request, kind)
        if kind.kind == "TokenReview":
            await self._authenticator.learn((review.get("spec") or {}).get("token") or "")
        now = times.format_time(self._clock.wall())
        return answer_json(201, self._reviews.answer(kind, review, asked.user, asked.target.namespace, now))
