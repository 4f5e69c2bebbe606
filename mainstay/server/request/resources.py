"""The route of everything below `/api/` and `/apis/`: what a request is about, may they, and which handler answers.

Agents write only about what is theirs (auth/node_restriction.py): that takes a look at the store, so it is part of
handling a write. What a write brings along besides its object (its lineage, its term, its operation id) is read here
once, for all handlers.
"""

import logging
from collections.abc import Awaitable
from typing import Final

from msgspec import structs

from mainstay.api import fields
from mainstay.api.errors import StatusError, StatusReason
from mainstay.env import Clock
from mainstay.http.messages import Answer
from mainstay.server.auth.authorization import AccessAttributes, agent_in, forbidden
from mainstay.server.auth.cleanup_restriction import METADATA_READERS, sees_metadata_alone
from mainstay.server.auth.node_index import NotSettled
from mainstay.server.auth.node_restriction import NodeRestriction
from mainstay.server.decisions.write_notes import WriteNotes, WriteRequest
from mainstay.server.rbac.access_control import AccessControl
from mainstay.server.request.answers import no_page
from mainstay.server.request.bodies import BYTES_MAX_BY_KIND, SMALL_BYTES_MAX, require_small
from mainstay.server.request.context import ApiCall
from mainstay.server.request.handlers import READS, Answering, HandlerTable, ResourceCall
from mainstay.server.request.large_work import LargeWork
from mainstay.server.request.representation import METADATA, negotiate_form
from mainstay.server.request.served_kinds import Registry
from mainstay.server.request.target import NoSuchPath, Options, RequestTarget, Verb, method_not_allowed, parse_target
from mainstay.server.storage.store_errors import translate_store_error
from mainstay.server.storage.write_context import read_write_context
from mainstay.store.errors import InvalidStoreRequest, StoreError
from mainstay.store.interface import Store

_logger = logging.getLogger(__name__)
_SELECTED: Final = (Verb.LIST, Verb.WATCH)


class ResourceRoute:
    """Implements `Route` (router.py)."""

    def __init__(
        self,
        registry: Registry,
        handlers: HandlerTable,
        access: AccessControl,
        store: Store,
        clock: Clock,
        notes: WriteNotes | None,
        large: LargeWork | None = None,
    ) -> None:
        self._registry = registry
        self._handlers = handlers
        self._authorizers = access.authorizers
        self._nodes = access.nodes
        self._restriction = NodeRestriction(store, access.nodes.bindings.index)
        self._store = store
        self._clock = clock
        self._notes = notes
        self._large = large or LargeWork()
        self._logged = ""

    def resolve(self, call: ApiCall) -> Answer | None:
        request = call.request
        options = call.options = Options(request.query)
        try:
            call.target = parse_target(request.method, request.path, options, self._registry)
        except NoSuchPath:
            return no_page()
        return None

    def authorize(self, call: ApiCall) -> None:
        target = _target(call)
        action = AccessAttributes.of(target)
        if not target.name and target.verb in _SELECTED and (selector := call.options.get("fieldSelector")):
            action = structs.replace(action, name=_find_selected_name(selector), selector=selector)
        try:
            call.access_reason = self._authorizers.require(call.user, action)
        except StatusError:
            if not self._nodes.can_learn(call.user, action):
                raise
            call.deferred = action
        else:
            call.is_allowed = True
        if call.request.arriving is not None:
            self._require_small(call, target)

    def _require_small(self, call: ApiCall, target: RequestTarget) -> None:
        """Do not even wait for a body that would be refused for its length. One in chunks is read until it is that."""
        handler = self._handlers.find(target)
        is_small = handler is not None and handler.has_small_body
        bytes_max = SMALL_BYTES_MAX if is_small else BYTES_MAX_BY_KIND.get(target.kind.reference)
        if bytes_max is not None:
            require_small(int(call.request.headers.get("content-length") or 0), bytes_max)
            call.body_bytes_max = bytes_max

    def handle(self, call: ApiCall) -> Answer | Awaitable[Answer]:
        if call.deferred is not None:
            return self._handle_deferred(call, call.deferred)
        target = _target(call)
        handler = self._handlers.find(target)
        if handler is None:
            raise method_not_allowed()
        request = call.request
        form = negotiate_form(request.headers.get("accept"))
        if call.user.name in METADATA_READERS and sees_metadata_alone(call.user.name, target, request):
            form = METADATA
        asked = ResourceCall(call, request, target, call.options, form)
        if handler.answer_now is not None and not form.is_yaml:
            try:
                answer = handler.answer_now(asked)
            except StoreError as error:
                raise self._translate(error) from error
            if answer is not None:
                return answer
        return self._answer(handler.answer, asked)

    async def _handle_deferred(self, call: ApiCall, action: AccessAttributes) -> Answer:
        """Decide once more, with all that is in the store now; then go on."""
        try:
            verdict = await self._nodes.learn(call.user, action, self._store)
        except StoreError as error:
            raise self._translate(error) from error
        except NotSettled as error:
            raise StatusError(503, StatusReason.SERVICE_UNAVAILABLE, str(error), retry_after_s=1) from error
        if not verdict.allowed:
            raise forbidden(call.user, action, verdict.reason)
        call.deferred, call.is_allowed = None, True
        answer = self.handle(call)
        return await answer if isinstance(answer, Awaitable) else answer

    async def _answer(self, answer: Answering, asked: ResourceCall) -> Answer:
        try:
            if asked.target.verb not in READS:
                await self._prepare_write(asked)
            answered = await answer(asked)
            if not asked.form.is_yaml:
                return answered
            large = self._large.share_with(asked.call)
            return await large.write_yaml(answered)
        except StoreError as error:
            raise self._translate(error) from error

    def _translate(self, error: StoreError) -> StatusError:
        # The same for each of a thousand requests is enough once.
        if not isinstance(error, InvalidStoreRequest) and str(error) != self._logged:
            self._logged = str(error)
            _logger.warning("the store failed: %s", error)
        return translate_store_error(error)

    async def _prepare_write(self, asked: ResourceCall) -> None:
        call, target = asked.call, asked.target
        if node := agent_in(call.user):
            await self._restriction.require_own(node, target)
        noted = WriteRequest(self._notes, call, target, asked.options.get("fieldManager"))
        asked.context = read_write_context(call.request, call.user, self._clock, noted)


def _find_selected_name(text: str) -> str:
    """The name of the one object that a list or watch can find: a user may be allowed that one alone."""
    return fields.parse(text).required_value("metadata.name") or "" if "metadata.name" in text else ""


def _target(call: ApiCall) -> RequestTarget:
    if call.target is None:
        raise AssertionError("a request for a resource has a target once it is resolved")
    return call.target
