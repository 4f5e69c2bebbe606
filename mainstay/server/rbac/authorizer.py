"""The authorizer that evaluates roles. Answers are remembered until a role or binding changes.

An answer depends on the verb, the resource and the namespace, and seldom on the name of the object. So it is remembered
without the name, and rules with resourceNames leave a small table by name behind. Everything is forgotten with every
change of a role or binding, and when too much is remembered: namespaces and paths in requests are chosen by clients.
So long ones are not remembered at all, nor are refused paths; and other refusals are few, and apart from the rest, so
that who may do nothing cannot make the answers for others go.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from mainstay.server.auth.authorization import (
    NO_OPINION,
    AccessAttributes,
    AccessVerdict,
    User,
    UserRules,
    can_be_remembered,
)
from mainstay.server.rbac.roles import Granted, RoleIndex, describe_missing_role

REMEMBERED_MAX: Final = 50_000
REFUSALS_MAX: Final = 4_096


class _Answer(Struct, frozen=True):
    verdict: AccessVerdict
    """For objects that no rule names."""
    by_name: dict[str, AccessVerdict] | None = None


_UserKey = tuple[str, tuple[str, ...]]
"""Name and groups."""
_AskedKey = tuple[str, ...]


class RbacAuthorizer:
    """Implements `Authorizer` (auth/authorization.py)."""

    def __init__(self, index: RoleIndex) -> None:
        self._index = index
        index.on_change = self.forget
        self._users: dict[_UserKey, dict[_AskedKey, _Answer]] = {}
        self._remembered = 0
        self._refusals: dict[tuple[_UserKey, _AskedKey], _Answer] = {}

    def forget(self) -> None:
        """Roles or bindings have changed."""
        self._refusals.clear()
        if self._remembered:
            self._users = {}
            self._remembered = 0

    def decide(self, user: User, action: AccessAttributes) -> AccessVerdict:
        who = (user.name, user.groups)
        answers = self._users.get(who)
        if action.path:
            key: _AskedKey = (action.verb, action.path)
        else:
            key = (action.verb, action.group, action.resource, action.subresource, action.namespace)
        answer = None if answers is None else answers.get(key)
        if answer is None:
            answer = self._refusals.get((who, key))
        if answer is None:
            answer = self._find_answer(user, action)
            if can_be_remembered(user, key):
                self._remember(who, key, answer, is_path=bool(action.path))
        if answer.by_name is None:
            return answer.verdict
        return answer.by_name.get(action.name, answer.verdict)

    def _remember(self, who: _UserKey, key: _AskedKey, answer: _Answer, *, is_path: bool) -> None:
        if answer.verdict.allowed or answer.by_name is not None:
            if self._remembered >= REMEMBERED_MAX:
                self.forget()
            self._users.setdefault(who, {})[key] = answer
            self._remembered += 1
        elif not is_path:
            if len(self._refusals) >= REFUSALS_MAX:
                self._refusals.clear()
            self._refusals[who, key] = answer

    def find_rules(self, user: User, namespace: str) -> UserRules:
        granted = self._index.find_granted(user, namespace)
        rules = dict.fromkeys(rule for each in granted for rule in each.rules or ())
        return UserRules(
            tuple(rule.as_object() for rule in rules if rule.resources),
            tuple(rule.as_object() for rule in rules if rule.paths),
            _describe_missing(granted),
        )

    def _find_answer(self, user: User, action: AccessAttributes) -> _Answer:
        by_name: dict[str, AccessVerdict] = {}
        granted = self._index.find_granted(user, action.namespace)
        for each in granted:
            for rule in each.rules or ():
                if action.path:
                    if rule.allows_path(action.verb, action.path):
                        return _Answer(_allow(each))
                elif rule.allows_resource(action.verb, action.group, action.resource, action.subresource):
                    if not rule.names:
                        return _Answer(_allow(each))
                    for name in rule.names:
                        by_name.setdefault(name, _allow(each))
        missing = _describe_missing(granted)
        return _Answer(AccessVerdict(False, f"RBAC: {missing}") if missing else NO_OPINION, by_name or None)


def _allow(granted: Granted) -> AccessVerdict:
    return AccessVerdict(True, granted.binding.describe(granted.subject))


def _describe_missing(granted: Iterable[Granted]) -> str:
    """Which roles do not exist that a user is bound to."""
    roles = dict.fromkeys(each.binding.role for each in granted if each.rules is None)
    texts = [describe_missing_role(role) for role in roles]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""
