"""One table of routes: which paths there are, who may ask for them, and what answers."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from mainstay.api.errors import StatusError, StatusReason
from mainstay.http.messages import Answer, Request
from mainstay.server.auth.authorization import AUTHENTICATED, MONITORING, User
from mainstay.server.request.context import ApiCall


class Route(Protocol):
    @property
    def is_public(self) -> bool:
        """Whether not even a wrong token is refused."""

    def resolve(self, call: ApiCall) -> Answer | None:
        """Find out what a request is about. An answer if that is nothing that is served."""

    def authorize(self, call: ApiCall) -> None:
        """Raise `StatusError` (403) if the user may not do this."""

    def handle(self, call: ApiCall) -> Answer | Awaitable[Answer]: ...


class PageRoute:
    """A route of pages that are not about objects."""

    def __init__(
        self, answer: Callable[[Request], Answer | Awaitable[Answer]], may: Callable[[User], bool] | None = None
    ) -> None:
        """`may` says whether a user may read it. None: it is public."""
        self._answer = answer
        self._may = may
        self.is_public = may is None

    def resolve(self, call: ApiCall) -> Answer | None:
        return None

    def authorize(self, call: ApiCall) -> None:
        if self._may is not None and not self._may(call.user):
            raise forbidden_path(call)

    def handle(self, call: ApiCall) -> Answer | Awaitable[Answer]:
        return self._answer(call.request)


def is_authenticated(user: User) -> bool:
    return AUTHENTICATED in user.groups or user.is_master


def may_monitor(user: User) -> bool:
    return user.is_master or MONITORING in user.groups


def forbidden_path(call: ApiCall) -> StatusError:
    method, path = call.request.method.lower(), call.request.path
    return StatusError(
        403, StatusReason.FORBIDDEN, f'forbidden: User "{call.user.name}" cannot {method} path "{path}"', {}
    )


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
