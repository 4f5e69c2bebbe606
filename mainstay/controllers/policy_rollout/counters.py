"""What schedulers have counted for the two policies of a rollout, since its stage took effect.

A scheduler counts by policy from the moment that it learns of a revision of it (`policyFigures` in its ComponentState).
For the candidate, that is the write of the stage. The revision of the previous policy is older, perhaps by weeks: so
what its counters said when the stage took effect is noted in the rollout's status and subtracted. A scheduler that has
restarted since then has begun at 0, with another `since`, and nothing is subtracted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstay.api.component_roles import ComponentRole
from mainstay.api.kind import Object
from mainstay.controllers.policy_rollout.freshness import find_figures, read_role
from mainstay.controllers.policy_rollout.health import ShadowFigures

_COUNTERS: Final = ("decided", "conflicts", "refusedAtCommit")


@dataclass(frozen=True, slots=True)
class DecisionCounters:
    decided: int = 0
    conflicts: int = 0
    refused: int = 0


def note_counters(states: Iterable[Object], policy: Object | None) -> list[Object]:
    """What each scheduler has counted for a policy so far, for the status."""
    noted = []
    for component, figures in _find_all(states, policy):
        counted = {name: int(figures.get(name) or 0) for name in _COUNTERS}
        noted.append({"component": component, "since": str(figures.get("since") or ""), **counted})
    return sorted(noted, key=lambda each: str(each["component"]))


def count_decisions(
    states: Iterable[Object], policy: Object, noted: Sequence[Mapping[str, Any]] = ()
) -> DecisionCounters:
    """What all schedulers together have counted for a policy since `noted` was."""
    before = {(each["component"], each["since"]): each for each in noted}
    found = dict.fromkeys(_COUNTERS, 0)
    for component, figures in _find_all(states, policy):
        start = before.get((component, str(figures.get("since") or "")), {})
        for name in _COUNTERS:
            found[name] += max(int(figures.get(name) or 0) - int(start.get(name) or 0), 0)
    return DecisionCounters(found["decided"], found["conflicts"], found["refusedAtCommit"])


def count_shadow(states: Iterable[Object], candidate: Object) -> ShadowFigures:
    shadowed = different = unplaced = 0
    for _, figures in _find_all(states, candidate):
        shadowed += int(figures.get("shadowed") or 0)
        different += int(figures.get("shadowDifferent") or 0)
        unplaced += int(figures.get("shadowUnplaced") or 0)
    return ShadowFigures(shadowed, different, unplaced)


def _find_all(states: Iterable[Object], policy: Object | None) -> list[tuple[str, Mapping[str, Any]]]:
    """By scheduler, the figures of a policy in the revision that it has now."""
    if policy is None:
        return []
    metadata, found = policy["metadata"], []
    for state in states:
        if read_role(state) is ComponentRole.SCHEDULER:
            figures = find_figures(state["status"], metadata["name"], metadata["uid"])
            if figures and int(figures.get("revision") or 0) >= int(metadata["resourceVersion"]):
                found.append((str(state["metadata"]["name"]), figures))
    return found
