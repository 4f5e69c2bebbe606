"""All that a decision about one rollout is made from, and the four forms that such a decision has.

say      a phase, a reason and fields of the status
hold     the same, and nothing is done until something changes
stall    users have to resolve something: the condition `Stalled` says so
write    one write to one of the two policies, on condition that it is still as it was seen
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import PLACEMENT_POLICIES
from mainstay.api.object_key import ObjectKey
from mainstay.api.pod_state import is_leaving
from mainstay.api.policy_rollout import ParsedRollout, RolloutPhase, RolloutReason, read_phase
from mainstay.controllers.policy_rollout.gate import GateSignals
from mainstay.controllers.policy_rollout.status import build_conditions, build_gate_conditions
from mainstay.controllers.policy_rollout.switch import SwitchStep, read_fields
from mainstay.controllers.progress.controller import difference
from mainstay.loop.decision import DONE, Decision, GiveUp, Patch, Tell, WakeAt
from mainstay.loop.freshness import Freshness
from mainstay.loop.view import View

LOOK_EVERY: Final = timedelta(seconds=5)
"""While a gate is asked, or another rollout waited for."""
NO_FIELDS: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class RolloutCase:
    view: View
    rollout: Object
    asked: ParsedRollout
    status: Mapping[str, Any]
    policies: Mapping[str, Object] = field(default_factory=dict)
    """By name."""

    @property
    def phase(self) -> RolloutPhase:
        return read_phase(self.rollout)

    @property
    def now(self) -> datetime:
        return self.view.now

    @property
    def has_previous(self) -> bool:
        return bool(self.status.get("previous"))

    def find_claimed(self, role: str) -> Object | None:
        """The policy that was claimed as `policy` or `previous`; None if it is gone, or another one has its name."""
        claimed = self.status.get(role) or {}
        found = self.policies.get(str(claimed.get("name") or ""))
        if found is None or found["metadata"].get("uid") != claimed.get("uid") or is_leaving(found):
            return None
        return found

    def say(
        self,
        phase: RolloutPhase,
        reason: RolloutReason,
        message: str,
        fields: Mapping[str, Any] = NO_FIELDS,
        *,
        moves: bool = True,
        signals: GateSignals | None = None,
    ) -> Decision:
        """`moves`: it needs nothing from users, and looks again at once."""
        status = {
            "observedGeneration": self.rollout["metadata"].get("generation", 0),
            "phase": str(phase),
            "reason": str(reason),
            **fields,
        }
        gate = build_gate_conditions(phase, reason, signals)
        conditions = (*build_conditions(phase, reason, message, moves=moves), *gate)
        events: tuple[Tell, ...] = ()
        if phase is not self.phase:
            events = (Tell(str(reason), message, is_warning=phase is RolloutPhase.ROLLING_BACK),)
        # A rollout is not woken by what it writes into its own status.
        result = WakeAt(self.now, reason) if moves else DONE
        return Decision((), result, status, conditions, reasons=(f"{reason}: {message}",), events=events)

    def wait(self, reason: RolloutReason, message: str, fields: Mapping[str, Any] = NO_FIELDS) -> Decision:
        """As `hold`, for what wakes no rollout: it looks again after a while."""
        return replace(self.hold(reason, message, fields), result=WakeAt(self.now + LOOK_EVERY, reason))

    def hold(self, reason: RolloutReason, message: str, fields: Mapping[str, Any] = NO_FIELDS) -> Decision:
        return self.say(self.phase, reason, message, fields, moves=False)

    def stall(self, reason: RolloutReason, message: str) -> Decision:
        return replace(self.hold(reason, message), result=GiveUp(reason, message))

    def write(self, reason: RolloutReason, write: SwitchStep, message: str) -> Decision:
        metadata = write.policy["metadata"]
        body = {"spec": difference(read_fields(write.policy), write.fields)}
        key, version = ObjectKey("", metadata["name"]), str(metadata["resourceVersion"])
        # To go on, what users ask for now is read first; to go back, only the policy must be as it was seen.
        is_back = self.phase is RolloutPhase.ROLLING_BACK
        freshness = Freshness.SEEN_VERSION if is_back else Freshness.FRESH_READ
        patch = Patch(PLACEMENT_POLICIES, key, metadata["uid"], body, resource_version=version, freshness=freshness)
        said = self.say(self.phase, reason, message)
        return replace(said, actions=(patch,), events=(Tell(str(reason), f"{write.about}: {message}", after=patch),))
