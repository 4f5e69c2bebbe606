"""The route of everything below `/api/` and `/apis/`: what a request is about, may they, and which handler answers.

Agents write only about what is theirs (auth/node_restriction.py): that takes a look at the store, so it is part of
handling a write. What a write brings along besides its object (its lineage, its term, its operation id) is read here
once, for all handlers.
"""

from collections.abc import Awaitable
from typing import Final

from mainstay.api.errors import StatusError, StatusReason
from mainstay.env import Clock
from mainstay.http.messages import Answer
from mainstay.server.auth import authorization
from mainstay.server.auth.node_restriction import require_own
from mainstay.server.decisions.write_notes import WriteNotes, WriteRequest
from mainstay.server.request.answers import no_page
from mainstay.server.request.context import ApiCall
from mainstay.server.request.handlers import READS, Answering, HandlerTable, ResourceCall
from mainstay.server.request.representation import negotiate_form
from mainstay.server.request.served_kinds import Registry
from mainstay.server.request.target import NoSuchPath, Options, RequestTarget, method_not_allowed, parse_target
from mainstay.server.storage.write_context import read_write_context
from mainstay.store.errors import OutcomeUnknown, StorageFull, StoreError
from mainstay.store.interface import Store


class ResourceRoute:
    """Implements `Route` (router.py)."""

    is_public: Final = False

    def __init__(
        self, registry: Registry, handlers: HandlerTable, store: Store, clock: Clock, notes: WriteNotes | None
    ) -> None:
        self._registry = registry
        self._handlers = handlers
        self._store = store
        self._clock = clock
        self._notes = notes

    def resolve(self, call: ApiCall) -> Answer | None:
        request = call.request
        options = call.options = Options(request.query)
        try:
            call.target = parse_target(request.method, request.path, options, self._registry)
        except NoSuchPath:
            return no_page()
        return None

    def authorize(self, call: ApiCall) -> None:
        authorization.require(call.user, _target(call))
        call.is_allowed = True

    def handle(self, call: ApiCall) -> Answer | Awaitable[Answer]:
        target = _target(call)
        handler = self._handlers.find(target)
        if handler is None:
            raise method_not_allowed()
        request = call.request
        form = negotiate_form(request.headers.get("accept"))
        asked = ResourceCall(call, request, target, call.options, form)
        if handler.answer_now is not None:
            try:
                answer = handler.answer_now(asked)
            except StoreError as error:
                raise _translate(error) from error
            if answer is not None:
                return answer
        return self._answer(handler.answer, asked)

    async def _answer(self, answer: Answering, asked: ResourceCall) -> Answer:
        try:
            if asked.target.verb not in READS:
                await self._prepare_write(asked)
            return await answer(asked)
        except StoreError as error:
            raise _translate(error) from error

    async def _prepare_write(self, asked: ResourceCall) -> None:
        call, target = asked.call, asked.target
        if node := authorization.agent_in(call.user):
            await require_own(self._store, node, call.request, target)
        noted = WriteRequest(self._notes, call, target, asked.options.get("fieldManager"))
        asked.context = read_write_context(call.request, call.user, self._clock, noted)


def _target(call: ApiCall) -> RequestTarget:
    if call.target is None:
        raise AssertionError("a request for a resource has a target once it is resolved")
    return call.target


def _translate(error: StoreError) -> StatusError:
    match error:
        case OutcomeUnknown():
            text = f"the outcome is unknown, it may or may not have happened: {error}"
            return StatusError(504, StatusReason.TIMEOUT, text)
        case StorageFull():
            return StatusError(507, StatusReason.INTERNAL_ERROR, str(error))
        case _:
            return StatusError(503, StatusReason.SERVICE_UNAVAILABLE, str(error), retry_after_s=1)
