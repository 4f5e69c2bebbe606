"""Pod Security admission: refuses pods that their namespace does not allow, and warns about templates of such pods.

What a namespace asks for is in its labels (api/pod_security.py). They are read from the stored namespace in the course
of each write, and a pod is committed on condition that its namespace has not changed since (writes.py). So a label
holds from the moment in which it is committed, whichever API server a pod comes in by.

Pods are refused (403). What makes pods is not refused: its author is warned. A label that makes no sense is refused
(422). A namespace that becomes stricter keeps its pods, and the answer names those that violate it.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec

from mainstay.api.causes import POD_SECURITY_VIOLATED
from mainstay.api.errors import forbidden, invalid
from mainstay.api.kind import Kind, Object
from mainstay.api.pod_security import (
    PREFIX,
    TEMPLATE_PATHS,
    NamespaceSecurity,
    SecurityPolicy,
    describe,
    evaluate,
    find_template,
    parse_labels,
    summarize,
)
from mainstay.api.pod_security_checks import SecurityLevel, Violation
from mainstay.env import Clock, tasks
from mainstay.server.request.options import AdmissionNotes
from mainstay.server.storage.keyspace import namespace_key
from mainstay.server.storage.strategies import is_pod
from mainstay.store.interface import Entry, Store

PODS_CHECKED_MAX: Final = 3000
CHECK_TIME_MAX: Final = timedelta(seconds=1)
"""How many pods a stricter namespace is compared with at most, and for how long. As in Kubernetes."""

_KNOWN_MAX: Final = 1000
_PAGE: Final = 50  # Between two pages other requests have their turn.
_ENFORCED: Final = f"{PREFIX}enforce-policy"
_MARK: Final = PREFIX.encode()
_PODS: Final = "core/pods/"
_CONTAINER_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")


class PodSecurity:
    def __init__(self, store: Store, clock: Clock, default: SecurityLevel) -> None:
        """`default` is what namespaces without the label `enforce` enforce."""
        self._store = store
        self._clock = clock
        self._level = default
        self._default = parse_labels({}, default)
        self._known: dict[str, tuple[int, NamespaceSecurity]] = {}
        """Of namespaces with labels: the revision, and what it asks for."""

    def concerns(self, kind: Kind) -> bool:
        return is_pod(kind) or (kind.group, kind.plural) in TEMPLATE_PATHS

    async def find_namespace(self, name: str) -> Entry | None:
        return await self._store.get(namespace_key(name))

    def review(
        self, kind: Kind, new: Object, old: Object | None, namespace: Entry | None, notes: AdmissionNotes
    ) -> None:
        """Look at a pod, or at what makes pods, in a namespace. Raises `StatusError` (403)."""
        wanted = self._default if namespace is None else self._read(namespace)
        if not is_pod(kind):
            template = find_template(kind.group, kind.plural, new) if wanted.advises_templates else None
            if template is not None:
                _advise(wanted, template.get("metadata") or {}, template.get("spec") or {}, notes, {})
            return
        spec = new["spec"]
        if old is not None and not _is_significant(spec, old["spec"]):
            return
        found = evaluate(wanted.enforce, new["metadata"], spec)
        notes.audit[_ENFORCED] = wanted.shown
        if wanted.advises_pods:
            _advise(wanted, new["metadata"], spec, notes, {wanted.shown: found})
        if found:
            text = f'violates PodSecurity "{wanted.shown}": {describe(found)}'
            cause = {"reason": POD_SECURITY_VIOLATED, "message": text, "field": "spec"}
            raise forbidden(kind.plural, kind.group, new["metadata"].get("name", ""), text, [cause])

    def _read(self, namespace: Entry) -> NamespaceSecurity:
        if _MARK not in namespace.value:
            return self._default
        known = self._known.get(namespace.key)
        if known is None or known[0] != namespace.revision:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            labels = msgspec.json.decode(namespace.value)["metadata"].get("labels") or {}
            known = self._known[namespace.key] = (namespace.revision, parse_labels(labels, self._level))
        return known[1]

    async def review_namespace(self, kind: Kind, new: Object, old: Object | None, notes: AdmissionNotes) -> None:
        """Look at the labels of a namespace, and warn about pods that violate new ones. Raises `StatusError` (422)."""
        metadata = new["metadata"]
        labels, before = metadata.get("labels") or {}, (old or new)["metadata"].get("labels") or {}
        if old is not None and labels == before:
            return
        wanted = parse_labels(labels, self._level)
        was = parse_labels(before, self._level)
        if wanted.problems and (old is None or wanted.problems != was.problems):
            raise invalid(kind.kind, kind.group, metadata["name"], wanted.problems)
        if old is None or wanted.enforce == was.enforce:
            return
        if wanted.enforce.minor == was.enforce.minor and not wanted.enforce.is_stricter_than(was.enforce):
            return
        if wanted.enforce.level is not SecurityLevel.PRIVILEGED:
            await self._compare_pods(metadata["name"], wanted.enforce, notes)

    async def _compare_pods(self, namespace: str, policy: SecurityPolicy, notes: AdmissionNotes) -> None:
        until_ns = self._clock.monotonic_ns() + int(CHECK_TIME_MAX.total_seconds() * 1e9)
        prefix = f"{_PODS}{namespace}/"
        first: dict[str, str] = {}
        counted: dict[str, int] = {}
        checked = 0
        page = await self._store.range(prefix, limit=_PAGE)
        while True:
            for entry in page.entries:
                pod = msgspec.json.decode(entry.value)
                if found := evaluate(policy, pod["metadata"], pod["spec"]):
                    reasons = summarize(found)
                    first.setdefault(reasons, pod["metadata"]["name"])
                    counted[reasons] = counted.get(reasons, 0) + 1
            checked += len(page.entries)
            if not page.remaining or checked >= PODS_CHECKED_MAX or self._clock.monotonic_ns() > until_ns:
                break
            await tasks.turns(1)
            page = await self._store.range(prefix, limit=_PAGE, after=page.entries[-1].key)
        if page.remaining:
            total = checked + page.remaining
            notes.warn(
                f"new PodSecurity enforce level only checked against the first {checked} of {total} existing pods"
            )
        if counted:
            notes.warn(f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{policy}"')
        others = {2: " (and 1 other pod)"}
        for text in sorted(
            f"{first[reasons]}{others.get(count) or (f' (and {count - 1} other pods)' if count > 2 else '')}: {reasons}"
            for reasons, count in counted.items()
        ):
            notes.warn(text)


def _advise(
    wanted: NamespaceSecurity,
    metadata: Mapping[str, Any],
    spec: Object,
    notes: AdmissionNotes,
    enforced: Mapping[str, list[Violation]],
) -> None:
    """Note what is to be audited, and what the user is to be warned about. `enforced` is what is known already."""

    def find(policy: SecurityPolicy) -> list[Violation]:
        known = enforced.get(str(policy))
        return evaluate(policy, metadata, spec) if known is None else known

    if wanted.problems:
        listed = ", ".join(f"{each.field}: {each.message}" for each in wanted.problems)
        notes.audit[f"{PREFIX}error"] = f"Failed to parse policy: {listed}"
    if found := find(wanted.audit):
        notes.audit[f"{PREFIX}audit-violations"] = f'would violate PodSecurity "{wanted.audit}": {describe(found)}'
    if not any(enforced.values()) and (found := find(wanted.warn)):
        notes.warn(f'would violate PodSecurity "{wanted.warn}": {describe(found)}')


def _is_significant(new: Object, old: Object) -> bool:
    """Whether a change of a pod can matter: only images of containers can change, and containers can be added."""
    for name in _CONTAINER_LISTS:
        images = [(each.get("name"), each.get("image")) for each in new.get(name) or ()]
        if images != [(each.get("name"), each.get("image")) for each in old.get(name) or ()]:
            return True
    return False
