"""Who serves what: the table of handlers for kinds and subresources, filled by the rooms of the server.

A kind declares which subresources it has and which verbs they take (api/kind.py); here is who answers. An entry is for
one kind, or for all. The server does not start unless everything that a built-in kind declares has a handler.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct

from mainstay.api.kind import ANY_SUBRESOURCE, Kind
from mainstay.api.kind_name import KindName
from mainstay.http.messages import Answer, Request, Response
from mainstay.server.auth.authorization import User
from mainstay.server.request.context import ApiCall
from mainstay.server.request.representation import ResponseForm
from mainstay.server.request.target import Options, RequestTarget, Verb
from mainstay.server.storage.write_context import NO_CONTEXT, WriteContext

READS: Final = (Verb.GET, Verb.LIST, Verb.WATCH)


class ResourceCall(Struct, gc=False):
    """A request that is about objects, and allowed."""

    call: ApiCall
    request: Request
    target: RequestTarget
    options: Options
    form: ResponseForm
    context: WriteContext = NO_CONTEXT
    """Of a write: what goes with it into its transaction."""

    @property
    def user(self) -> User:
        return self.call.user


Answering = Callable[[ResourceCall], Awaitable[Answer]]
"""Raises `StatusError`, and what stores raise."""
AnsweringNow = Callable[[ResourceCall], Response | None]
"""Answers without a task, which would cost as much as all the rest. None: this one takes longer."""


class Handler(Struct, frozen=True):
    answer: Answering
    answer_now: AnsweringNow | None = None
    has_small_body: bool = False
    """Whether it reads the body by `Bodies.decode_small`: then a longer one is refused by the head of the request."""


class HandlerTable:
    def __init__(self) -> None:
        self._own: dict[tuple[str, str, str], dict[Verb, Handler]] = {}
        self._shared: dict[str, dict[Verb, Handler]] = {}

    def add(self, resource: KindName | None, subresource: str, handlers: Mapping[Verb, Handler]) -> None:
        """`resource` is None for all kinds that have no handlers of their own there."""
        if resource is None:
            self._shared.setdefault(subresource, {}).update(handlers)
        else:
            self._own.setdefault((resource.group, resource.plural, subresource), {}).update(handlers)

    def find(self, target: RequestTarget) -> Handler | None:
        kind = target.kind
        handlers = self._own.get((kind.group, kind.plural, target.subresource))
        if handlers is None and target.subresource:
            handlers = self._own.get((kind.group, kind.plural, ANY_SUBRESOURCE))
        if handlers is None:
            handlers = self._shared.get(target.subresource)
        return None if handlers is None else handlers.get(target.verb)

    def find_unserved(self, kinds: Iterable[Kind]) -> list[str]:
        """What these kinds declare and nothing here serves."""
        declared = [
            RequestTarget(Verb(verb), kind, "", "", subresource)
            for kind in kinds
            for subresource, verbs in (("", kind.verbs), *((each.name, each.verbs) for each in kind.subresources))
            for verb in verbs
        ]
        return [
            f"{target.verb} {target.kind.plural}/{target.subresource}"
            for target in declared
            if self.find(target) is None
        ]


def serve(verbs: Iterable[Verb], answer: Answering, *, has_small_body: bool = False) -> dict[Verb, Handler]:
    """The same handler for several verbs."""
    return dict.fromkeys(verbs, Handler(answer, has_small_body=has_small_body))
