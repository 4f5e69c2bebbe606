"""Lets mutating policies change an object on its way in, before it is validated.

Policies run in the order of their names and those of their bindings. One with `reinvocationPolicy: IfNeeded` runs once
more if a later one has changed the object; no policy runs more than twice, so that a write is decided in a bounded time
whatever policies do to each other. What matches is looked at with the object as it is when a policy's turn comes.

The policies that have changed an object are named, with uid and revision, in the record of the write, in the audit log,
and in the refusal if what they made of it is not valid.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from mainstay.api.causes import ADMISSION_POLICY_VIOLATED
from mainstay.api.errors import StatusError, StatusReason, forbidden
from mainstay.api.field_sets import FieldSet, compare_fields, ordered, union
from mainstay.api.field_shapes import find_shape
from mainstay.api.kind import Object
from mainstay.env import tasks
from mainstay.journal.record import AppliedPolicy
from mainstay.server.decisions.write_notes import WriteRequest
from mainstay.server.policies.expressions import DEFAULT_REASON, ExpressionFailed, PolicyViolation
from mainstay.server.policies.match_rules import PolicyWrite
from mainstay.server.policies.mutation import Conform, conform_builtin, mutate
from mainstay.server.policies.policy_inputs import NoParameters, PolicyInputs, build_values
from mainstay.server.policies.policy_set import BoundPolicy, PolicySet, list_applied
from mainstay.server.request.options import AdmissionNotes

FIELDS_BYTES_MAX: Final = 8_192
"""Of the fields that one policy has changed, in the record of a write."""


class MutatingPolicies:
    """`conform` has to know custom kinds: it is set before anything is served."""

    def __init__(self, known: PolicySet, inputs: PolicyInputs) -> None:
        self.known = known
        self._inputs = inputs
        self.conform: Conform = conform_builtin

    async def mutate(self, write: PolicyWrite, asked: WriteRequest, *, is_dry_run: bool) -> Object:
        """What the policies make of `write.new`: the same if they leave it alone. Raises `StatusError` for a policy
        that fails, unless it says that failures are ignored."""
        assert write.new is not None, write
        notes = asked.call.notes = asked.call.notes or AdmissionNotes()
        notes.mutations, notes.mutated = (), ()
        bound = self.known.find(write.kind.group, write.kind.plural)
        place = await self._inputs.find_namespace(write, None)
        run = MutationRun(self._inputs, self.conform, write, place, asked, is_dry_run=is_dry_run)
        await run.go_through(bound)
        await run.go_through([each for each in bound if _name(each) in run.reinvoked])
        if run.changed_by:
            notes.mutations = tuple(list_applied(run.changed_by))
            notes.mutated = tuple(_encode_fields(run.fields[each.name]) for each in notes.mutations)
        return run.object


class MutationRun:
    """All policies, for one write."""

    def __init__(
        self,
        inputs: PolicyInputs,
        conform: Conform,
        write: PolicyWrite,
        namespace: Object | None,
        asked: WriteRequest,
        *,
        is_dry_run: bool,
    ) -> None:
        self._inputs = inputs
        self._conform = conform
        self._write = write
        self._namespace = namespace
        self._asked = asked
        self._is_dry_run = is_dry_run
        self._invoked: set[tuple[str, str]] = set()
        """Those that have run and may run again."""
        self.reinvoked: set[tuple[str, str]] = set()
        """Of these, those whose object was changed since."""
        self.changed_by: list[BoundPolicy] = []
        self.fields: dict[str, FieldSet] = {}
        """By policy, what it has changed."""
        self.object: Object = write.new or {}

    async def go_through(self, bound: Sequence[BoundPolicy]) -> None:
        for each in bound:
            policy, binding = each
            write = replace(self._write, new=self.object)
            place = self.object if self._namespace is self._write.new else self._namespace
            if not (policy.match.matches(write, place) and binding.match.matches(write, place)):
                continue
            changed = await self._invoke(each, write, place)
            if changed is not self.object:
                fields, _ = compare_fields(self.object, changed, find_shape(write.kind.message))
                self.fields[policy.name] = union(self.fields.get(policy.name, {}), fields)
                self.object = changed
                self.changed_by.append(each)
                self.reinvoked |= self._invoked
            if policy.spec.get("reinvocationPolicy") == "IfNeeded":
                self._invoked.add(_name(each))

    async def _invoke(self, bound: BoundPolicy, write: PolicyWrite, namespace: Object | None) -> Object:
        """What one policy makes of the object, with all its parameters; all of it or nothing."""
        policy, _ = bound
        values = build_values(write, self._asked.call.user, namespace, is_dry_run=self._is_dry_run)
        shown = values["object"]
        try:
            for parameters in await self._inputs.find_parameters(bound, write):
                values["params"] = parameters
                values["object"] = mutate(policy.spec, write.kind, self._conform, values)
                await tasks.turns(1)
        except NoParameters as error:
            violation = PolicyViolation(str(error), DEFAULT_REASON, "", -1)
        except ExpressionFailed as failed:
            if not policy.fails_closed:
                return self.object
            violation = failed.violation
        else:
            return self.object if values["object"] is shown else values["object"]
        raise self._refuse(bound, violation)

    def _refuse(self, bound: BoundPolicy, violation: PolicyViolation) -> StatusError:
        policy, binding = bound
        notes = self._asked.call.notes = self._asked.call.notes or AdmissionNotes()
        notes.policies = tuple(list_applied([bound]))
        notes.expression = violation.expression
        text = (
            f"MutatingAdmissionPolicy '{policy.name}' with binding '{binding.name}' denied request: {violation.message}"
        )
        kind = self._write.kind
        error = forbidden(kind.plural, kind.group, self._write.name, text, [_cause(text)])
        return StatusError(422, StatusReason.INVALID, error.message, error.details)


def blame_mutations(error: StatusError, mutations: Sequence[AppliedPolicy]) -> StatusError:
    """A refusal of an object that policies have changed: it names them, for the user has not sent what is wrong."""
    names = ", ".join(f"'{each.name}'" for each in mutations)
    text = f"the object was changed by MutatingAdmissionPolicy {names} before it was validated"
    details = {**(error.details or {})}
    details["causes"] = [_cause(text), *(details.get("causes") or ())]
    return StatusError(error.code, error.reason, f"{error.message} ({text})", details)


def _encode_fields(fields: FieldSet) -> bytes:
    found = msgspec.json.encode(ordered(fields))
    return found if len(found) <= FIELDS_BYTES_MAX else b""


def _cause(text: str) -> dict[str, str]:
    return {"reason": ADMISSION_POLICY_VIOLATED, "message": text}


def _name(bound: BoundPolicy) -> tuple[str, str]:
    return bound[0].name, bound[1].name
