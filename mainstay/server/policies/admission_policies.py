"""Follows admission policies, and evaluates those that validate: the last look at a write that its object is valid for,
before it is committed. Those that mutate have had their turn before (mutating_policies.py).

Each API server follows policies and bindings by its own feed, as watches do. So a policy holds on a server from the
revision that this server has reached, which it publishes (published_state.py). Parameters and namespaces are read from
the store in the course of the write.

What a policy has refused is named in the answer, in the audit log and in the journal: the policy with its uid and
revision, the binding, and the expression. Policies see the writes of clients, by whichever path; not what the server
writes of its own accord, nor bindings, evictions and tokens.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec

from mainstay.api.causes import ADMISSION_POLICY_VIOLATED
from mainstay.api.errors import StatusError, StatusReason, forbidden
from mainstay.api.kind_names import (
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from mainstay.env import tasks
from mainstay.server.decisions.write_notes import WriteRequest
from mainstay.server.policies.evaluation import PolicyVerdict, evaluate
from mainstay.server.policies.expressions import DEFAULT_REASON, PolicyViolation
from mainstay.server.policies.match_rules import PolicyWrite
from mainstay.server.policies.mutating_policies import MutatingPolicies
from mainstay.server.policies.policy_inputs import NoParameters, PolicyInputs, build_values
from mainstay.server.policies.policy_set import BoundPolicy, PolicySet, list_applied
from mainstay.server.request.options import AdmissionNotes
from mainstay.server.watch.feed import Feed
from mainstay.server.watch.follower import PrefixFollower
from mainstay.store.interface import Entry, KeyChange, Store

_FAILURES: Final = "validation.policy.admission.k8s.io/validation_failure"
_CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}


class AdmissionPolicies:
    """`start` it before anything is served."""

    def __init__(self, store: Store, feed: Feed) -> None:
        self.known = PolicySet(VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS)
        self.inputs = PolicyInputs(store)
        mutating = PolicySet(MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS)
        self.mutating = MutatingPolicies(mutating, self.inputs)
        self._followers = tuple(
            (known, prefix, PrefixFollower(store, feed, prefix, partial(_take, known), partial(_reset, known, prefix)))
            for known in (self.known, mutating)
            for prefix in (known.policies_prefix, known.bindings_prefix)
        )

    async def start(self) -> None:
        for known, prefix, follower in self._followers:
            _reset(known, prefix, await follower.start())

    async def stop(self) -> None:
        for _, _, follower in self._followers:
            await follower.stop()

    def list_revisions(self) -> dict[str, int]:
        """The revision of each policy and binding that the server has seen, by `plural/name`."""
        return {**self.mutating.known.list_revisions(), **self.known.list_revisions()}

    async def review(
        self, write: PolicyWrite, asked: WriteRequest, namespace: Entry | None = None, *, is_dry_run: bool
    ) -> None:
        """Raises `StatusError` if a policy denies it. `namespace` is the stored one, if the caller has read it."""
        kind = write.kind
        bound = self.known.find(kind.group, kind.plural)
        if not bound:
            return
        place = await self.inputs.find_namespace(write, namespace)
        matched = [
            each for each in bound if each[0].match.matches(write, place) and each[1].match.matches(write, place)
        ]
        if not matched:
            return
        values = build_values(write, asked.call.user, place, is_dry_run=is_dry_run)
        notes = asked.call.notes = asked.call.notes or AdmissionNotes()
        outcome = _Outcome(write, notes)
        for each in matched:
            policy, _ = each
            try:
                for parameters in await self.inputs.find_parameters(each, write):
                    outcome.add(each, evaluate(policy.spec, policy.fails_closed, {**values, "params": parameters}))
                    await tasks.turns(1)
            except NoParameters as error:
                outcome.add(each, PolicyVerdict((PolicyViolation(str(error), DEFAULT_REASON, "", -1),)))
        outcome.finish()


def _reset(known: PolicySet, prefix: str, entries: Sequence[Entry]) -> None:
    known.clear(prefix)
    for entry in entries:
        known.learn(entry)


def _take(known: PolicySet, change: KeyChange) -> None:
    if change.entry is None:
        known.forget(change.key)
    else:
        known.learn(change.entry)


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
        self._notes.policies = tuple(list_applied(each for each, _ in self._denied))
        self._notes.expression = violation.expression
        text = (
            f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}' denied request:"
            f" {violation.message}"
        )
        kind = self._write.kind
        cause = {"reason": ADMISSION_POLICY_VIOLATED, "message": text}
        error = forbidden(kind.plural, kind.group, self._write.name, text, [cause])
        return StatusError(_CODES[violation.reason], StatusReason(violation.reason), error.message, error.details)
