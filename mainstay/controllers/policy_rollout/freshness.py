"""Whether every component that must know a policy has seen it, and has said so lately. (SPEC W8)

Components publish in their ComponentState how far each of their caches is (`revisions`), and schedulers which revision
of each policy they go by. A stage is known to a component when each kind that it follows has reached the revision of
the stage's write: not only the policy itself, because what the health of the canary is judged by comes from pods and
nodes, too. Whatever is missing, old, or dated in the future holds the gate: `find_stale` names it.

A component that is gone holds the gate as well, by its old state. Nothing here can tell it from one that is cut off and
still decides by the previous policy; a person can, and deletes its ComponentState.

What it does not promise: that a component which has said so keeps up afterwards. The gate asks again each time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from mainstay.api.component_roles import ComponentRole
from mainstay.api.feature_gates import SHADOW_PLACEMENT
from mainstay.api.kind import Object
from mainstay.api.kind_names import NODES, PLACEMENT_POLICIES, PODS, VALIDATING_ADMISSION_POLICIES
from mainstay.api.pod_state import parse_time_or_none

SKEW_MAX: Final = timedelta(seconds=5)
"""So far ahead of ours may the clock of a component be."""
FOLLOWED: Final[Mapping[ComponentRole, tuple[str, ...]]] = {
    ComponentRole.API_SERVER: (VALIDATING_ADMISSION_POLICIES.text,),
    ComponentRole.SCHEDULER: (NODES.text, PLACEMENT_POLICIES.text, PODS.text),
    ComponentRole.CONTROLLERS: (),
}
"""What a component of this role follows at least. One that does not say so has just started. What a process with
controllers follows depends on which of them it runs; it names each kind from its start, at revision 0."""


@dataclass(frozen=True, slots=True)
class PolicyActivation:
    """A stage that took effect."""

    policy: str
    uid: str
    revision: int
    is_shadow: bool


@dataclass(frozen=True, slots=True)
class StaleSignal:
    """Why the gate cannot trust a component."""

    component: str
    kind: str
    """Which of the kinds that it follows is behind; empty if it is about the component as a whole."""
    message: str


def find_stale(
    states: Iterable[Object], activation: PolicyActivation, now: datetime, freshness: timedelta
) -> tuple[StaleSignal, ...]:
    """All that a gate waits for, sorted by component; empty if every component is known to have seen the stage."""
    by_role: dict[ComponentRole, list[Object]] = {role: [] for role in ComponentRole}
    for state in states:
        role = read_role(state)
        if role is not None:
            by_role[role].append(state)
    found: list[StaleSignal] = []
    for role, components in by_role.items():
        if not components:
            found.append(StaleSignal("", "", f"no component of role {role} publishes a ComponentState"))
        for each in sorted(components, key=lambda state: str(state["metadata"]["name"])):
            found.extend(_find_in(each, role, activation, now, freshness))
    return tuple(found)


def read_role(state: Object) -> ComponentRole | None:
    role = (state.get("status") or {}).get("role")
    return ComponentRole(role) if role in list(ComponentRole) else None


def _find_in(
    state: Object, role: ComponentRole, activation: PolicyActivation, now: datetime, freshness: timedelta
) -> Sequence[StaleSignal]:
    name, status = str(state["metadata"]["name"]), state["status"]
    observed = parse_time_or_none(status.get("observedAt"))
    if observed is None or observed < now - freshness:
        said = "has not published its state" if observed is None else f"published its state at {status['observedAt']}"
        text = (
            f"{name} {said}, and the gate needs one of the last {freshness.total_seconds():.0f} s; if this process no "
            f"longer exists: kubectl delete componentstate {name}"
        )
        return [StaleSignal(name, "", text)]
    if observed > now + SKEW_MAX:
        text = f"{name} published its state at {status['observedAt']}, which is in the future: check its clock"
        return [StaleSignal(name, "", text)]
    revisions: Mapping[str, Any] = status.get("revisions") or {}
    if not revisions:
        return [StaleSignal(name, "", f"{name} has not published which kinds it follows: it has just started")]
    found = []
    for kind in sorted({*revisions, *FOLLOWED[role]}):
        reached = int(revisions.get(kind) or 0)
        if reached < activation.revision:
            text = f"{name} has observed {kind} up to revision {reached}, the stage is at {activation.revision}"
            found.append(StaleSignal(name, kind, text))
    if not found and role is ComponentRole.SCHEDULER and _read_known(status, activation) < activation.revision:
        kind = PLACEMENT_POLICIES.text
        text = f"{name} does not decide by revision {activation.revision} of PlacementPolicy {activation.policy} yet"
        if activation.is_shadow:
            text += f" in shadow; its feature gate {SHADOW_PLACEMENT.name} must be on"
        found.append(StaleSignal(name, kind, text))
    return found


def _read_known(status: Mapping[str, Any], activation: PolicyActivation) -> int:
    """The revision of the policy that a scheduler says it decides by, or decides by in the shadow."""
    if not activation.is_shadow:
        return int((status.get("policies") or {}).get(activation.policy) or 0)
    figures = find_figures(status, activation.policy, activation.uid)
    return int(figures.get("revision") or 0)


def find_figures(status: Mapping[str, Any], policy: str, uid: str) -> Mapping[str, Any]:
    """What a scheduler has counted for a policy; empty if nothing."""
    for each in status.get("policyFigures") or ():
        if (each.get("policy"), each.get("uid")) == (policy, uid):
            found: Mapping[str, Any] = each
            return found
    return {}
