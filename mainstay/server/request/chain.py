"""The request chain: what every request goes through, in order.

    observe        an id for audit and trace, metrics, the audit log, refusals for the journal    observer.py
    find a route   which row of the table of routes has this path                                 router.py, routes.py
    authenticate   who it is: a certificate, a token, or anonymous. Not on public routes          auth/authentication.py
    resolve        what it is about: a verb on a kind, a namespace, a name                        target.py
    authorize      may this user do that                                                          auth/authorization.py
    handle         the handler of the route; of a kind or subresource, that of the table          handlers.py
    represent      in the form that the client accepts: part of handling                          representation.py

`STAGES` is the part of it that works on a route. A stage that has the answer returns it, and the rest is left out; one
that refuses raises `StatusError`. What limits how many requests of a user are under way (fairness) belongs between
authenticate and resolve; further authorizers belong into authorize.
"""

from collections.abc import Awaitable, Callable, Sequence

from mainstay.http.messages import Answer
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.request.context import ApiCall
from mainstay.server.request.router import Route, Router

Stage = Callable[[ApiCall], Answer | Awaitable[Answer] | None]


class RequestChain:
    """`before` are stages that come before all others."""

    def __init__(self, router: Router, authenticator: Authenticator, before: Sequence[Stage] = ()) -> None:
        self._router = router
        self._authenticator = authenticator
        self._before = before

    def run(self, call: ApiCall) -> Answer | Awaitable[Answer]:
        """Answer a request, and note in it what was found out. Raises `StatusError`."""
        for first in self._before:
            if (answer := first(call)) is not None:
                return answer
        route = self._router.find_route(call.request.path)
        for stage in STAGES:
            answer = stage(self, call, route)
            if answer is not None:
                return answer
        raise AssertionError(f"no stage has answered {call.request.path}")

    def authenticate(self, call: ApiCall, route: Route) -> None:
        if not route.is_public:
            call.user = self._authenticator.authenticate(call.request)

    def resolve(self, call: ApiCall, route: Route) -> Answer | None:
        return route.resolve(call)

    def authorize(self, call: ApiCall, route: Route) -> None:
        route.authorize(call)

    def handle(self, call: ApiCall, route: Route) -> Answer | Awaitable[Answer]:
        return route.handle(call)


RouteStage = Callable[[RequestChain, ApiCall, Route], Answer | Awaitable[Answer] | None]
STAGES: Sequence[RouteStage] = (
    RequestChain.authenticate,
    RequestChain.resolve,
    RequestChain.authorize,
    RequestChain.handle,
)
