"""Who is asking, and may they? The words for that, and who is asked.

An `Authorizer` allows something, or has no opinion. Several are asked in order (authorizers.py puts them together), and
what none of them allows is refused. Resources, pages and reviews ask the same ones.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from msgspec import Struct

from mainstay.api.errors import StatusError, StatusReason, object_details, qualified
from mainstay.api.system_users import find_node
from mainstay.server.request.target import RequestTarget, Verb

SERVERS: Final = "system:mainstay:servers"
"""The group of API servers, as agents and their peers know them."""
MASTERS: Final = "system:masters"
NODES: Final = "system:nodes"
BOOTSTRAPPERS: Final = "system:bootstrappers"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
MONITORING: Final = "system:monitoring"
_STREAMS: Final = frozenset({"exec", "attach", "portforward"})
"""Of pods. To use them takes the right to create them, whatever the HTTP method: a WebSocket begins with a GET."""
_USER_TEXT_MAX: Final = 1_024
_ASKED_TEXT_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...]
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """What else is known of them, by name, such as the pod that a service account's token is bound to."""

    @property
    def is_master(self) -> bool:
        return MASTERS in self.groups

    def info(self) -> dict[str, Any]:
        """As reviews and the audit log show it."""
        shown: dict[str, Any] = {"username": self.name}
        if self.uid:
            shown["uid"] = self.uid
        shown["groups"] = list(self.groups)
        if self.extra:
            shown["extra"] = {name: list(values) for name, values in self.extra}
        return shown


ANONYMOUS: Final = User("system:anonymous", (UNAUTHENTICATED,))


def add_authenticated(user: User) -> User:
    """The user in the group that all known users are in."""
    if user.name == ANONYMOUS.name or AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))


def can_be_remembered(user: User, asked: Iterable[str]) -> bool:
    """Whether what a user asks for is short enough to be a key of something remembered: clients choose the texts."""
    size = len(user.name) + sum(map(len, user.groups))
    return size <= _USER_TEXT_MAX and sum(map(len, asked)) <= _ASKED_TEXT_MAX


class AccessAttributes(Struct, frozen=True):
    """What a user would like to do, in the words of an access review: with a resource, or else with a path."""

    verb: str
    """Of a path: the HTTP method in lower case."""
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    selector: str = ""
    """Of a list or watch: its field selector."""
    path: str = ""
    """Of a page that is no resource, such as `/metrics`. The fields of a resource are empty then."""

    @classmethod
    def of(cls, target: RequestTarget) -> "AccessAttributes":
        kind, namespace, verb = target.kind, target.namespace, target.verb
        if kind.plural == "namespaces" and not kind.group:
            namespace = target.name  # What a user may do in a namespace goes for the namespace itself.
        elif target.subresource in _STREAMS and kind.plural == "pods" and not kind.group:
            verb = Verb.CREATE
        return cls(verb, kind.group, kind.plural, namespace, target.name, target.subresource)

    def __str__(self) -> str:
        """As refusals say it."""
        if self.path:
            return f'{self.verb} path "{self.path}"'
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        where = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        return f'{self.verb} resource "{resource}" in API group "{self.group}" {where}'


class AccessVerdict(Struct, frozen=True):
    """What an authorizer says: allowed, or nothing. If none of them allows something, it is refused."""

    allowed: bool
    reason: str = ""
    """Why it is allowed, or what would have to be so for it to be."""
    error: str = ""
    """What kept the authorizer from looking at all that there is."""


NO_OPINION: Final = AccessVerdict(False)
ALLOWED: Final = AccessVerdict(True)


class UserRules(Struct, frozen=True):
    """What a user may do in a namespace, as SelfSubjectRulesReview shows it."""

    resources: tuple[dict[str, list[str]], ...] = ()
    paths: tuple[dict[str, list[str]], ...] = ()
    incomplete: str = ""
    """Why there may be more that the user is allowed. Empty: this is all."""


class Authorizer(Protocol):
    def decide(self, user: User, action: AccessAttributes) -> AccessVerdict:
        """Called for every request: it does not wait, and is fast."""

    def find_rules(self, user: User, namespace: str) -> UserRules: ...


class Authorizers:
    """Implements `Authorizer`: several of them, asked in order. The first that allows something decides."""

    def __init__(self, authorizers: Sequence[Authorizer]) -> None:
        self._authorizers = tuple(authorizers)

    def decide(self, user: User, action: AccessAttributes) -> AccessVerdict:
        refused = NO_OPINION
        for authorizer in self._authorizers:
            verdict = authorizer.decide(user, action)
            if verdict.allowed:
                return verdict
            if verdict is not NO_OPINION:
                refused = verdict if refused is NO_OPINION else _joined(refused, verdict)
        return refused

    def find_rules(self, user: User, namespace: str) -> UserRules:
        found = [authorizer.find_rules(user, namespace) for authorizer in self._authorizers]
        return UserRules(
            tuple(rule for each in found for rule in each.resources),
            tuple(rule for each in found for rule in each.paths),
            ", ".join(each.incomplete for each in found if each.incomplete),
        )

    def require(self, user: User, action: AccessAttributes) -> str:
        """Why the user may do this. Raises `StatusError` (403) if not."""
        verdict = self.decide(user, action)
        if not verdict.allowed:
            raise forbidden(user, action, verdict.reason)
        return verdict.reason


class MastersAuthorizer:
    """Implements `Authorizer`: members of `system:masters` have full access, whatever the roles say."""

    def decide(self, user: User, action: AccessAttributes) -> AccessVerdict:
        return ALLOWED if MASTERS in user.groups else NO_OPINION

    def find_rules(self, user: User, namespace: str) -> UserRules:
        if MASTERS not in user.groups:
            return UserRules()
        return UserRules(
            ({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},), ({"verbs": ["*"], "nonResourceURLs": ["*"]},)
        )


def forbidden(user: User, action: AccessAttributes, reason: str = "") -> StatusError:
    """The refusal, in the words of Kubernetes."""
    why = f": {reason}" if reason else ""
    if action.path:
        return StatusError(403, StatusReason.FORBIDDEN, f'forbidden: User "{user.name}" cannot {action}{why}', {})
    shown = f' "{action.name}"' if action.name else ""
    return StatusError(
        403,
        StatusReason.FORBIDDEN,
        f'{qualified(action.resource, action.group)}{shown} is forbidden: User "{user.name}" cannot {action}{why}',
        object_details(action.resource, action.group, action.name),
    )


def _joined(first: AccessVerdict, second: AccessVerdict) -> AccessVerdict:
    return AccessVerdict(
        False,
        ", ".join(reason for reason in (first.reason, second.reason) if reason),
        ", ".join(error for error in (first.error, second.error) if error),
    )


def agent_in(user: User) -> str:
    """The node whose agent this user is; empty for all other users."""
    return find_node(user.name) if NODES in user.groups else ""
