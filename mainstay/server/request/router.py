"""One table of routes: which paths there are, who may ask for them, and what answers."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from mainstay.http.messages import Answer, Request
from mainstay.server.auth.authorization import AccessAttributes, Authorizers
from mainstay.server.request.context import ApiCall


class Route(Protocol):
    def resolve(self, call: ApiCall) -> Answer | None:
        """Find out what a request is about. An answer if that is nothing that is served."""

    def authorize(self, call: ApiCall) -> None:
        """Raise `StatusError` (403) if the user may not do this."""

    def handle(self, call: ApiCall) -> Answer | Awaitable[Answer]: ...


class PageRoute:
    """A route of pages that are not about objects."""

    def __init__(self, answer: Callable[[Request], Answer | Awaitable[Answer]], authorizers: Authorizers) -> None:
        self._answer = answer
        self._authorizers = authorizers

    def resolve(self, call: ApiCall) -> Answer | None:
        return None

    def authorize(self, call: ApiCall) -> None:
        call.access_reason = self._authorizers.require(call.user, find_page_access(call))

    def handle(self, call: ApiCall) -> Answer | Awaitable[Answer]:
        return self._answer(call.request)


def find_page_access(call: ApiCall) -> AccessAttributes:
    """What a request for a page asks for."""
    return AccessAttributes(call.request.method.lower(), path=call.request.path)


class Router:
    """Exact paths come first, then resources, then prefixes in the order in which they were added, then the rest."""

    def __init__(
        self,
        resources: Route,
        pages: Iterable[tuple[Sequence[str], Route]],
        prefixes: Sequence[tuple[str, Route]],
        rest: Route,
    ) -> None:
        self._resources = resources
        self._pages = {path: route for paths, route in pages for path in paths}
        self._prefixes = prefixes
        self._rest = rest

    def find_route(self, path: str) -> Route:
        if is_resource_path(path):
            return self._resources
        page = self._pages.get(path)
        if page is not None:
            return page
        return next((route for prefix, route in self._prefixes if path.startswith(prefix)), self._rest)


def is_resource_path(path: str) -> bool:
    """Whether a path is one of objects: below `/api/VERSION/` or `/apis/GROUP/VERSION/`."""
    if path.startswith("/api/"):
        return path.count("/") > 2
    return path.startswith("/apis/") and path.count("/") > 3
