"""Evaluates admission policies: the last look at a write that its object is valid for, before it is committed.

Each API server follows policies and bindings by its own feed, as watches do. So a policy holds on a server from the
revision that this server has reached, which it publishes (published_state.py). Parameters and namespaces are read from
the store in the course of the write.

What a policy has refused is named in the answer, in the audit log and in the journal: the policy with its uid and
revision, the binding, and the expression. Policies see the writes of clients, by whichever path; not what the server
writes of its own accord, nor bindings, evictions and tokens.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from mainstay.api import labels
from mainstay.api.causes import ADMISSION_POLICY_VIOLATED
from mainstay.api.errors import StatusError, StatusReason, forbidden
from mainstay.api.kind import Kind, Object
from mainstay.api.kind_names import VALIDATING_ADMISSION_POLICIES
from mainstay.env import tasks
from mainstay.journal.record import AppliedPolicy
from mainstay.server.decisions.write_notes import WriteRequest
from mainstay.server.policies.evaluation import (
    PolicyVerdict,
    PolicyViolation,
    describe_request,
    evaluate,
    show_object,
)
from mainstay.server.policies.match_rules import PolicyWrite
from mainstay.server.policies.policy_set import BINDINGS, POLICIES, BoundPolicy, PolicySet
from mainstay.server.request.options import AdmissionNotes
from mainstay.server.storage.keyspace import build_key, build_prefix, namespace_key
from mainstay.server.storage.stored import read
from mainstay.server.watch.feed import Feed
from mainstay.server.watch.follower import PrefixFollower
from mainstay.store.interface import Entry, KeyChange, Store

PARAMETERS_MAX: Final = 100
"""Objects that one binding may select as parameters: a policy is evaluated with each."""
_FAILURES: Final = "validation.policy.admission.k8s.io/validation_failure"
_CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}


class AdmissionPolicies:
    """`start` it before anything is served. `kinds` has all that are served: those of parameters are found there."""

    def __init__(self, store: Store, feed: Feed) -> None:
        self.known = PolicySet()
        self._store = store
        self._followers = tuple(
            (prefix, PrefixFollower(store, feed, prefix, self._take, partial(self._reset, prefix)))
            for prefix in (POLICIES, BINDINGS)
        )
        self.kinds: Iterable[Kind] = ()

    async def start(self) -> None:
        for prefix, follower in self._followers:
            self._reset(prefix, await follower.start())

    async def stop(self) -> None:
        for _, follower in self._followers:
            await follower.stop()

    async def review(
        self, write: PolicyWrite, asked: WriteRequest, namespace: Entry | None = None, *, is_dry_run: bool
    ) -> None:
        """Raises `StatusError` if a policy denies it. `namespace` is the stored one, if the caller has read it."""
        kind = write.kind
        bound = self.known.find(kind.group, kind.plural)
        if not bound:
            return
        place = await self._find_namespace(write, namespace)
        matched = [
            each for each in bound if each[0].match.matches(write, place) and each[1].match.matches(write, place)
        ]
        if not matched:
            return
        values = {
            "object": show_object(kind, write.new),
            "oldObject": show_object(kind, write.old),
            "request": describe_request(write, asked.call.user, is_dry_run=is_dry_run),
            "namespaceObject": place if kind.namespaced else None,
        }
        notes = asked.call.notes = asked.call.notes or AdmissionNotes()
        outcome = _Outcome(write, notes)
        for policy, binding in matched:
            async for verdict in self._evaluate((policy, binding), write, values):
                outcome.add((policy, binding), verdict)
        outcome.finish()

    async def _evaluate(self, bound: BoundPolicy, write: PolicyWrite, values: Mapping[str, Any]) -> Any:
        policy, binding = bound
        if policy.spec.get("paramKind") is None or binding.parameters is None:
            yield evaluate(policy.spec, policy.fails_closed, {**values, "params": None})
            return
        try:
            found = await self._find_parameters(policy.spec["paramKind"], binding.parameters, write)
        except _NoParameters as error:
            if error.is_allowed or not (error.is_refused or policy.fails_closed):
                return
            yield PolicyVerdict((PolicyViolation(str(error), "Invalid", "", -1),))
            return
        for parameters in found:
            yield evaluate(policy.spec, policy.fails_closed, {**values, "params": parameters})
            await tasks.turns(1)

    async def _find_parameters(
        self, wanted: Mapping[str, Any], reference: Mapping[str, Any], write: PolicyWrite
    ) -> Sequence[Object]:
        """Raises `_NoParameters`."""
        kind = self._find_kind(wanted)
        namespace = (reference.get("namespace") or write.namespace) if kind.namespaced else ""
        if kind.namespaced and not namespace:
            raise _NoParameters(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
        if name := reference.get("name"):
            entry = await self._store.get(build_key(kind, namespace, name))
            found = [] if entry is None else [entry]
        else:
            found = await self._select(kind, namespace, reference)
        if not found:
            action = reference.get("parameterNotFoundAction")
            text = "no params found for policy binding with `Deny` parameterNotFoundAction"
            raise _NoParameters(text, is_allowed=action == "Allow", is_refused=True)
        return [show_object(kind, read(kind, each)) or {} for each in found]

    async def _select(self, kind: Kind, namespace: str, reference: Mapping[str, Any]) -> list[Entry]:
        selector = labels.from_object(reference.get("selector"))
        page = await self._store.range(build_prefix(kind, namespace), limit=10 * PARAMETERS_MAX)
        found = [each for each in page.entries if selector.matches(read(kind, each)["metadata"].get("labels") or {})]
        if page.remaining or len(found) > PARAMETERS_MAX:
            raise _NoParameters(f"more than {PARAMETERS_MAX} parameters: select fewer")
        return found

    def _find_kind(self, wanted: Mapping[str, Any]) -> Kind:
        for kind in self.kinds:
            if kind.kind == wanted.get("kind") and kind.group_version == wanted.get("apiVersion") and kind.is_kept:
                return kind
        shown = f"{wanted.get('apiVersion')}, Kind={wanted.get('kind')}"
        raise _NoParameters(f"failed to find resource referenced by paramKind: '{shown}'")

    async def _find_namespace(self, write: PolicyWrite, namespace: Entry | None) -> Object | None:
        """What a namespaceSelector is about."""
        if write.kind.kind == "Namespace" and write.kind.group == "":
            return write.new or write.old
        if not write.kind.namespaced:
            return None
        entry = namespace or await self._store.get(namespace_key(write.namespace))
        return None if entry is None else {"apiVersion": "v1", "kind": "Namespace", **msgspec.json.decode(entry.value)}

    def _reset(self, prefix: str, entries: Sequence[Entry]) -> None:
        self.known.clear(prefix)
        for entry in entries:
            self.known.learn(entry)

    def _take(self, change: KeyChange) -> None:
        if change.entry is None:
            self.known.forget(change.key)
        else:
            self.known.learn(change.entry)


class _NoParameters(Exception):
    def __init__(self, text: str, *, is_allowed: bool = False, is_refused: bool = False) -> None:
        super().__init__(text)
        self.is_allowed = is_allowed
        self.is_refused = is_refused


class _Outcome:
    """What all policies together say about a write."""

    def __init__(self, write: PolicyWrite, notes: AdmissionNotes) -> None:
        self._write = write
        self._notes = notes
        self._denied: list[tuple[BoundPolicy, PolicyViolation]] = []
        self._audited: list[dict[str, Any]] = []
        self._annotations: dict[str, list[str]] = {}

    def add(self, bound: BoundPolicy, verdict: PolicyVerdict) -> None:
        policy, binding = bound
        for key, value in verdict.annotations:
            values = self._annotations.setdefault(f"{policy.name}/{key}", [])
            if value not in values:
                values.append(value)
        for each in verdict.violations:
            if "Deny" in binding.actions:
                self._denied.append((bound, each))
            if "Warn" in binding.actions:
                self._notes.warn(
                    f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}':"
                    f" {each.message}"
                )
            if "Audit" in binding.actions:
                self._audited.append(
                    {
                        "message": each.message,
                        "policy": policy.name,
                        "binding": binding.name,
                        "expressionIndex": each.index,
                        "validationActions": list(binding.actions),
                    }
                )

    def finish(self) -> None:
        """Raises `StatusError` if a policy denies the write: the first one is named."""
        audit = self._notes.audit
        audit.update({key: ", ".join(values) for key, values in self._annotations.items()})
        if self._audited:
            audit[_FAILURES] = msgspec.json.encode(self._audited).decode()
        if self._denied:
            raise self._deny(*self._denied[0])

    def _deny(self, bound: BoundPolicy, violation: PolicyViolation) -> StatusError:
        policy, binding = bound
        self._notes.policies = tuple(_list_applied(each for each, _ in self._denied))
        self._notes.expression = violation.expression
        text = (
            f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}' denied request:"
            f" {violation.message}"
        )
        kind = self._write.kind
        cause = {"reason": ADMISSION_POLICY_VIOLATED, "message": text}
        error = forbidden(kind.plural, kind.group, self._write.name, text, [cause])
        return StatusError(_CODES[violation.reason], StatusReason(violation.reason), error.message, error.details)


def _list_applied(bound: Iterable[BoundPolicy]) -> Iterator[AppliedPolicy]:
    """Each policy once, in the version that applied."""
    seen: set[str] = set()
    for policy, _ in bound:
        if policy.name not in seen:
            seen.add(policy.name)
            yield AppliedPolicy(VALIDATING_ADMISSION_POLICIES.text, policy.name, policy.uid, policy.revision)
