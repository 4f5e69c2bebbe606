"""What is the smallest change that lets a pod run? Each answer was verified: the scheduler's own `decide` says yes.

    for cure in find_cures(objects, pod, policy, seed):
        print(cure.sentence)        # uncordon n3: then n3 can take it
        print(cure.command)         # kubectl uncordon n3

The refusals of the decision say what is in the way on each node (blockers.py), and only what is named there is
tried (steps.py, room.py): so it takes some dozen decisions, not thousands. Where one change is enough,
only such are shown; else two together, then three. The smallest comes first: waiting, then what changes one field, then
what others lose something by.

Not known here: whether one may do it, and what else depends on it. A cure is true for the view it was found in. What
is said of a ResourceQuota, which refuses pods before the scheduler sees them, is in explain/cures/quota.py.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.labels import Operator
from mainstay.api.node_terms import parse_requirements
from mainstay.api.taints import parse_tolerations
from mainstay.api.well_known_labels import HOSTNAME, ZONE_LABEL
from mainstay.explain.cures.values import WAITS, CureKind, TriedCure
from mainstay.scheduler.policy import Policy
from mainstay.scheduler.reasons import Unschedulable
from mainstay.scheduler.what_if import Objects
from mainstay.scheduler.why.cures.blockers import Blocked, Obstacle, blocked_nodes
from mainstay.scheduler.why.cures.room import NEW_NODE, NODES_LOOKED_AT, PODS_MAX, Room
from mainstay.scheduler.why.cures.steps import CureStep, Steps
from mainstay.scheduler.why.cures.trial import Trial, TrialOutcome

CURES_MAX: Final = 6
"""As many are shown."""
STEPS_MAX: Final = 3
"""So many changes at once. More than that is another cluster."""
NODES_NAMED_MAX: Final = 3

_TARGETS: Final = 3  # Nodes that are tried of those that lack the same.
_GROUPS: Final = 6  # Sets of obstacles that are tried, of one size.
_OPTIONS: Final = 3  # Against each obstacle, when several have to be overcome.
_STEP_MORE: Final = 100  # One change more is always larger.


def find_cures(
    objects: Objects, pod: Object, policy: Policy, seed: str, siblings: Sequence[Object] = ()
) -> tuple[TriedCure, ...]:
    """The smallest changes by which a pod would get a node; nothing if it gets one as things are.

    `objects.pods` should have all pods, those without a node too: who is scaled down loses these first. `siblings` wait
    for the same: each cure says for how many it is enough.
    """
    trial = Trial(objects, pod, policy, seed, siblings=siblings)
    decision = trial.decision()
    if not isinstance(decision, Unschedulable):
        return ()
    return _Search(trial, decision).found()


class _Search:
    def __init__(self, trial: Trial, decision: Unschedulable) -> None:
        self._trial = trial
        self._pod = trial.pod
        objects = trial.objects
        nodes = {node["metadata"]["name"]: node for node in objects.nodes}
        tolerations = parse_tolerations(self._pod["spec"])
        self._blocked = blocked_nodes(decision.refusals, nodes, tolerations)
        self._steps = Steps(objects, self._pod)
        self._room = Room(objects, self._pod)

    def found(self) -> tuple[TriedCure, ...]:
        found: list[TriedCure] = []
        for size in range(1, STEPS_MAX + 1):
            for steps in self._candidates(size):
                cure = self._tried(steps)
                if cure is not None:
                    found.append(cure)
            if found:
                break
        found += self._by_a_node()
        return _smallest(found)

    # What to try.

    def _candidates(self, size: int) -> Iterator[tuple[CureStep, ...]]:
        groups: dict[tuple[Obstacle, ...], list[Blocked]] = {}
        for blocked in self._blocked:
            obstacles = tuple(sorted(blocked.obstacles))
            if len(obstacles) == size and Obstacle.NOT_NAMED not in obstacles:
                groups.setdefault(obstacles, []).append(blocked)
        most_first = sorted(groups, key=lambda each: (-len(groups[each]), each))
        for obstacles in most_first[:_GROUPS]:
            for blocked in self._targets(obstacles, groups[obstacles]):
                options = [list(self._options(obstacle, blocked)) for obstacle in obstacles]
                if size > 1:
                    options = [each[:_OPTIONS] for each in options]
                yield from itertools.product(*options)

    def _targets(self, obstacles: tuple[Obstacle, ...], nodes: list[Blocked]) -> list[Blocked]:
        """Those that lack least; and, where room is made by removing pods, those where the fewest have to go."""
        nearest = sorted(nodes, key=lambda each: (each.missing, len(each.taints), each.node))
        found = nearest[:_TARGETS]
        if Obstacle.NO_ROOM in obstacles or Obstacle.PORT_TAKEN in obstacles:
            looked_at = [(self._room.pods_to_remove(each), each.node, each) for each in nearest[:NODES_LOOKED_AT]]
            fewest, _, best = min(looked_at)
            if fewest <= PODS_MAX and best not in found:
                found.append(best)
            found += [each for each in self._soon(nearest) if each not in found]
        return found

    def _soon(self, nodes: list[Blocked]) -> list[Blocked]:
        """Where a pod is about to leave."""
        names = frozenset(
            [
                *(name for name, ghosts in self._trial.objects.unconfirmed if ghosts),
                *(each["spec"].get("nodeName") for each in self._trial.objects.reservations),
                *(
                    (each.get("spec") or {}).get("nodeName")
                    for each in self._trial.objects.pods
                    if each["metadata"].get("deletionTimestamp")
                ),
            ]
        )
        return [each for each in nodes if each.node in names][:_TARGETS]

    def _options(self, obstacle: Obstacle, blocked: Blocked) -> Iterable[CureStep]:
        if obstacle in (Obstacle.NO_ROOM, Obstacle.PORT_TAKEN):
            return self._room.steps(blocked)
        if obstacle is Obstacle.NO_QUOTA:
            return itertools.chain(self._steps.against(obstacle, blocked), self._room.less(blocked))
        return self._steps.against(obstacle, blocked)

    def _by_a_node(self) -> list[TriedCure]:
        """One more node is always an answer, and the largest."""
        for step in self._room.new_nodes(_labels_of_new(self._pod)):
            cure = self._tried((step,))
            if cure is not None and cure.node == NEW_NODE:
                return [cure]
        return []

    # Trying.

    def _tried(self, steps: Sequence[CureStep]) -> TriedCure | None:
        edits = [edit for step in steps for edit in step.edits]
        replacements = [pod for step in steps for pod in step.replacements]
        outcome = self._trial.outcome(edits, replacements)
        if not outcome.node:
            return None
        changes = tuple(step.change for step in steps)
        commands = [step.command for step in steps if step.command]
        return TriedCure(
            changes=changes,
            sentence=_sentence(steps, outcome),
            nodes=outcome.nodes,
            node=outcome.node,
            command=" && ".join(dict.fromkeys(commands)),
            is_wait=all(change in WAITS for change in changes),
            until=max(step.until for step in steps),
            cost=sum(step.cost for step in steps) + _STEP_MORE * (len(steps) - 1),
            enough_for=outcome.enough_for,
        )


def _smallest(found: list[TriedCure]) -> tuple[TriedCure, ...]:
    """One of each kind: of the same change on several nodes, the smallest."""
    best: dict[tuple[CureKind, ...], TriedCure] = {}
    for cure in sorted(found, key=lambda each: (each.cost, -len(each.nodes), each.sentence)):
        best.setdefault(tuple(sorted(cure.changes)), cure)
    return tuple(best.values())[:CURES_MAX]


def _sentence(steps: Sequence[CureStep], outcome: TrialOutcome) -> str:
    said = f"{' and '.join(step.text for step in steps)}: then {_where(outcome)}"
    if outcome.others:
        placed = sorted(set(outcome.others))
        more = f" and {len(placed) - NODES_NAMED_MAX} more" if len(placed) > NODES_NAMED_MAX else ""
        what = "1 replacement fits" if len(outcome.others) == 1 else f"{len(outcome.others)} replacements fit"
        said += f", and {what} on {', '.join(placed[:NODES_NAMED_MAX])}{more}"
    return said


def _where(outcome: TrialOutcome) -> str:
    nodes = outcome.nodes
    if nodes == (NEW_NODE,):
        return "it fits there"
    if len(nodes) == 1:
        return f"{nodes[0]} can take it"
    shown = ", ".join(nodes[:NODES_NAMED_MAX])
    more = f" and {len(nodes) - NODES_NAMED_MAX} more" if len(nodes) > NODES_NAMED_MAX else ""
    return f"{len(nodes)} nodes can take it ({shown}{more})"


def _labels_of_new(pod: Object) -> dict[str, str]:
    """What a node has to be labelled with so that a pod may go there."""
    requirements = parse_requirements(pod["spec"])
    wanted = [*requirements.selector.requirements, *(requirements.terms[0].labels if requirements.terms else ())]
    found: dict[str, str] = {}
    for each in wanted:
        if each.operator in (Operator.IN, Operator.EQUALS, Operator.DOUBLE_EQUALS):
            found[each.key] = each.values[0]
        elif each.operator is Operator.EXISTS:
            found.setdefault(each.key, "true")
        elif each.operator in (Operator.GREATER, Operator.LESS):
            found[each.key] = str(int(each.values[0]) + (1 if each.operator is Operator.GREATER else -1))
    for constraint in pod["spec"].get("topologySpreadConstraints") or ():
        # The zone is found by trial.
        key = constraint["topologyKey"]
        if key not in (HOSTNAME, ZONE_LABEL) and constraint.get("whenUnsatisfiable") != "ScheduleAnyway":
            found.setdefault(key, "new")
    return found
