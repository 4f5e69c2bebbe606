"""The request chain: what every request goes through, in order.

    observe        an id for audit and trace, metrics, the audit log, refusals for the journal    observer.py
    find a route   which row of the table of routes has this path                                 router.py, routes.py
    authenticate   who it is: a certificate, a token, or anonymous; whom they act as              auth/authentication.py
    resolve        what it is about: a verb on a kind, a namespace, a name                        target.py
    authorize      may this user do that                                                          auth/authorization.py
    classify       which flow it belongs to; 429 if there is no room for it even to wait          flow/control.py
    -------------- up to here by the head alone; a refusal is sent without reading the body       http/arrival.py
    read the body  if it did not come with the head
    enter          take seats of its priority level, or wait for them in a fair queue             flow/control.py
    handle         the handler of the route; of a kind or subresource, that of the table          handlers.py
    represent      in the form that the client accepts: part of handling                          representation.py

A stage that has the answer returns it, and the rest is left out; one that refuses raises `StatusError`. Further
authorizers belong into authorize.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from mainstay.http.messages import Answer
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.auth.authorization import Authorizer
from mainstay.server.flow.control import FlowControl
from mainstay.server.request.context import ApiCall
from mainstay.server.request.router import Route, Router

BODY_SHARE_OTHERS: Final = 0.5
"""How much of the room for bodies those may take who are not part of the system."""

Stage = Callable[[ApiCall], Answer | Awaitable[Answer] | None]


class RequestChain:
    """`before` are stages that come before all others."""

    def __init__(
        self,
        router: Router,
        authenticator: Authenticator,
        authorizer: Authorizer,
        flow: FlowControl,
        before: Sequence[Stage] = (),
    ) -> None:
        self._router = router
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._flow = flow
        self._before = before

    def run(self, call: ApiCall) -> Answer | Awaitable[Answer]:
        """Answer a request, and note in it what was found out. Raises `StatusError`."""
        for first in self._before:
            if (answer := first(call)) is not None:
                return answer
        route = self._router.find_route(call.request.path)
        call.user = self._authenticator.authenticate(call.request, self._authorizer)
        if (answer := route.resolve(call)) is not None:
            return answer
        route.authorize(call)
        self._flow.classify(call)
        if call.request.arriving is not None:
            self._flow.require_room(call)
        elif self._flow.enter(call):
            return route.handle(call)
        return self._handle_later(call, route)

    async def _handle_later(self, call: ApiCall, route: Route) -> Answer:
        is_running, arriving = False, call.request.arriving
        if arriving is not None:
            await arriving.read(1.0 if call.is_system else BODY_SHARE_OTHERS, call.owner, call.body_bytes_max)
            is_running = self._flow.enter(call)
        if not is_running:
            await self._flow.wait(call)
        answer = route.handle(call)
        return await answer if isinstance(answer, Awaitable) else answer
