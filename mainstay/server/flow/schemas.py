"""FlowSchemas: which priority level a request belongs to, and which flow of it.

The schemas are asked in the order of their precedence, and by name where that is equal; the first that matches is the
one. What was found for a user, a verb and a resource is remembered, so that a request costs one lookup.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.server.auth.authorization import User, can_be_remembered
from mainstay.server.flow.counts import FlowCounts
from mainstay.server.flow.fair_queues import hash_flow
from mainstay.server.flow.scheduler import FlowLevel
from mainstay.server.flow.seats import LevelSettings

REMEMBERED_MAX: Final = 4_096
"""Answers to "which flow is this", each for a user, verb, resource and namespace."""
SYSTEM_PRECEDENCE_MAX: Final = 1_000
"""Schemas of components of the cluster come before that, as Kubernetes numbers them."""

SCHEMA_HEADER: Final = "X-Kubernetes-PF-FlowSchema-UID"
LEVEL_HEADER: Final = "X-Kubernetes-PF-PriorityLevel-UID"
_ANY: Final = "*"
_ACCOUNT: Final = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class FlowAttributes:
    """What a request is, as schemas ask for it."""

    verb: str
    group: str
    resource: str
    """With its subresource, after a slash. Empty for a path."""
    namespace: str
    path: str = ""


class FlowMatch:
    """The flow of a request: what a schema has made of it."""

    __slots__ = ("counts", "flow", "headers", "is_system", "level")

    def __init__(self, schema: "CompiledSchema", level: FlowLevel, distinguisher: str, counts: FlowCounts) -> None:
        self.level = level
        self.counts = counts
        self.flow = hash_flow(schema.name, distinguisher)
        self.headers = ((SCHEMA_HEADER, schema.uid), (LEVEL_HEADER, level.settings.uid))
        self.is_system = schema.precedence < SYSTEM_PRECEDENCE_MAX


class CompiledSchema:
    """A FlowSchema, ready to be asked."""

    def __init__(self, schema: Object) -> None:
        metadata, spec = schema["metadata"], schema.get("spec") or {}
        self.name: str = metadata.get("name") or ""
        self.uid: str = metadata.get("uid") or ""
        self.level: str = (spec.get("priorityLevelConfiguration") or {}).get("name") or ""
        self.precedence: int = spec.get("matchingPrecedence") or SYSTEM_PRECEDENCE_MAX
        self.distinguisher: str = (spec.get("distinguisherMethod") or {}).get("type") or ""
        self._rules = [_compile_rule(rule) for rule in spec.get("rules") or ()]

    def matches(self, user: User, asked: FlowAttributes) -> bool:
        return any(is_subject(user) and is_asked(asked) for is_subject, is_asked in self._rules)

    def find_distinguisher(self, user: User, asked: FlowAttributes) -> str:
        match self.distinguisher:
            case "ByUser":
                return user.name
            case "ByNamespace":
                return asked.namespace
            case _:
                return ""


class SchemaTable:
    """All schemas whose levels there are."""

    def __init__(
        self,
        schemas: Iterable[CompiledSchema],
        levels: Mapping[str, FlowLevel],
        rest: CompiledSchema,
        before: "SchemaTable | None" = None,
    ) -> None:
        """`rest` takes what no other schema matches. `before` is the table whose counts go on."""
        ordered = sorted(schemas, key=lambda schema: (schema.precedence, schema.name))
        self._schemas = [(schema, levels[schema.level]) for schema in ordered if schema.level in levels]
        self._rest = rest, levels[rest.level]
        self.remembered: dict[tuple[Any, ...], FlowMatch] = {}
        """What was found before, by what the caller says of a request."""
        known: dict[tuple[str, str], FlowCounts] = {} if before is None else before._counts
        self._counts: dict[tuple[str, str], FlowCounts] = {
            (schema.name, schema.level): known.get((schema.name, schema.level)) or FlowCounts(schema.level, schema.name)
            for schema, _ in (*self._schemas, self._rest)
        }

    @property
    def counts(self) -> list[FlowCounts]:
        return list(self._counts.values())

    def find(self, key: tuple[Any, ...], user: User, asked: FlowAttributes) -> FlowMatch:
        """The flow of a request. Remembered under this key, unless that is long."""
        schema, level = next((each for each in self._schemas if each[0].matches(user, asked)), self._rest)
        distinguisher = schema.find_distinguisher(user, asked)
        found = FlowMatch(schema, level, distinguisher, self._counts[schema.name, schema.level])
        if can_be_remembered(user, (asked.verb, asked.group, asked.resource, asked.namespace, asked.path)):
            if len(self.remembered) >= REMEMBERED_MAX:
                self.remembered.clear()
            self.remembered[key] = found
        return found


def parse_level(level: Object) -> LevelSettings:
    """The settings of a PriorityLevelConfiguration."""
    metadata, spec = level["metadata"], level.get("spec") or {}
    is_exempt = spec.get("type") == "Exempt"
    part = spec.get("exempt" if is_exempt else "limited") or {}
    queuing = (part.get("limitResponse") or {}).get("queuing") or {}
    return LevelSettings(
        name=metadata.get("name") or "",
        uid=metadata.get("uid") or "",
        is_exempt=is_exempt,
        shares=part.get("nominalConcurrencyShares") or 0,
        lendable_percent=part.get("lendablePercent") or 0,
        borrowing_percent=part.get("borrowingLimitPercent"),
        queues=queuing.get("queues") or 0,
        hand_size=queuing.get("handSize") or 0,
        length_max=queuing.get("queueLengthLimit") or 0,
    )


_IsSubject = Callable[[User], bool]
_IsAsked = Callable[[FlowAttributes], bool]


def _compile_rule(rule: Object) -> tuple[_IsSubject, _IsAsked]:
    subjects = [_compile_subject(subject) for subject in rule.get("subjects") or ()]
    resources = [_compile_resources(each) for each in rule.get("resourceRules") or ()]
    paths = [_compile_paths(each) for each in rule.get("nonResourceRules") or ()]

    def is_asked(asked: FlowAttributes) -> bool:
        return any(each(asked) for each in (resources if asked.resource else paths))

    return lambda user: any(each(user) for each in subjects), is_asked


def _compile_subject(subject: Object) -> _IsSubject:
    match subject.get("kind"):
        case "Group":
            group: str = (subject.get("group") or {}).get("name") or ""
            return lambda user: group == _ANY or group in user.groups
        case "User":
            name: str = (subject.get("user") or {}).get("name") or ""
            return lambda user: name in (_ANY, user.name)
        case "ServiceAccount":
            account = subject.get("serviceAccount") or {}
            start = f"{_ACCOUNT}{account.get('namespace') or ''}:"
            if account.get("name") == _ANY:
                return lambda user: user.name.startswith(start)
            full = start + (account.get("name") or "")
            return lambda user: user.name == full
        case _:
            return lambda user: False


def _compile_resources(rule: Object) -> _IsAsked:
    verbs, groups = _any_or_set(rule.get("verbs")), _any_or_set(rule.get("apiGroups"))
    resources, namespaces = _any_or_set(rule.get("resources")), _any_or_set(rule.get("namespaces"))
    is_cluster_scope = bool(rule.get("clusterScope"))

    def matches(asked: FlowAttributes) -> bool:
        return (
            _has(verbs, asked.verb)
            and _has(groups, asked.group)
            and _has(resources, asked.resource)
            and (_has(namespaces, asked.namespace) if asked.namespace else is_cluster_scope)
        )

    return matches


def _compile_paths(rule: Object) -> _IsAsked:
    verbs = _any_or_set(rule.get("verbs"))
    paths: Sequence[str] = rule.get("nonResourceURLs") or ()
    exact = frozenset(paths)
    starts = tuple(path[:-1] for path in paths if path.endswith("*"))
    return lambda asked: _has(verbs, asked.verb) and (asked.path in exact or asked.path.startswith(starts))


def _any_or_set(values: Sequence[str] | None) -> frozenset[str] | None:
    """None for any value."""
    return None if values and _ANY in values else frozenset(values or ())


def _has(values: frozenset[str] | None, value: str) -> bool:
    return values is None or value in values
