"""A candidate policy against a journal: integrity first, then decision by decision, then run forward.

1. *Integrity.* The recorded policies decide every recorded placement again. If one does not come out as recorded, the
   record, the rebuilding or the deciding is wrong, and whatever follows is not to be trusted.
2. *Per decision.* The candidate decides each of them on exactly its recorded view. It says how many decisions differ,
   and why, and nothing about what they would lead to: the next view is the recorded one again.
3. *Run forward.* Both policies over the same arrivals and ends, each with its own placements (forward.py).
"""

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS
from mainstay.env.invariants import BrokenInvariant
from mainstay.explain.placements import is_placement
from mainstay.explain.rebuild import RebuiltObjects
from mainstay.explain.replay import CannotReplay, Same, Summary, compare
from mainstay.journal.interface import Journal
from mainstay.journal.record import DecisionRecord, Ending, Outcome
from mainstay.loop.record import Decided
from mainstay.scheduler.comparison.candidate import CandidateChoice, NotApplied, build_candidate
from mainstay.scheduler.comparison.differences import Difference, PlacementChange, find_difference
from mainstay.scheduler.comparison.fold import DecisionPoint, fold_decisions
from mainstay.scheduler.comparison.forward import LEFT_OUT, ForwardFigures, PodArrival, run_forward
from mainstay.scheduler.comparison.history import load_history
from mainstay.scheduler.reasons import Decision
from mainstay.scheduler.why.placement import build_decided, read_node

EXAMPLES_MAX: Final = 5
"""Of each difference and reason."""

Progress = Callable[[int], None]
"""Called now and then with the number of decisions that are done."""
_PROGRESS_EVERY: Final = 1_000
_FAILED: Final = "InternalError"


@dataclass(frozen=True, slots=True)
class DifferenceExample:
    decision: str
    namespace: str
    pod: str
    before: str
    """The recorded node; empty: none."""
    after: str


@dataclass(slots=True)
class PolicyComparison:
    candidate: str
    has_scope: bool
    replaced: tuple[str, ...] = ()
    """Active policies whose place the candidate takes."""
    kept: dict[str, int] = field(default_factory=dict)
    """By policy, the decisions that it keeps although they are in the scope of the candidate: it is more specific."""
    integrity: Summary = field(default_factory=Summary)
    counts: dict[tuple[PlacementChange, str], int] = field(default_factory=dict)
    """By change and reason, the decisions."""
    examples: dict[tuple[PlacementChange, str], list[DifferenceExample]] = field(default_factory=dict)
    forward: tuple[ForwardFigures, ForwardFigures] | None = None
    """By the recorded policies, and with the candidate. None: no pod arrived."""

    @property
    def compared(self) -> int:
        return sum(self.counts.values())

    @property
    def applied(self) -> int:
        """Decisions that would go by the candidate, or by another policy because of it."""
        return sum(count for (_, reason), count in self.counts.items() if reason not in set(NotApplied))

    @property
    def different(self) -> int:
        return sum(count for (change, _), count in self.counts.items() if change.is_difference)

    def add(self, record: DecisionRecord, difference: Difference) -> None:
        key = difference.change, difference.reason
        self.counts[key] = self.counts.get(key, 0) + 1
        listed = self.examples.setdefault(key, [])
        if difference.change.is_difference and len(listed) < EXAMPLES_MAX:
            subject = record.subject
            listed.append(
                DifferenceExample(record.id, subject.namespace, subject.name, read_node(record), difference.node)
            )

    def as_object(self) -> dict[str, Any]:
        """For JSON and YAML."""
        found: dict[str, Any] = {
            "candidate": {"name": self.candidate, "hasScope": self.has_scope, "replaces": list(self.replaced)},
            "moreSpecific": [{"policy": name, "decisions": count} for name, count in sorted(self.kept.items())],
            "integrity": {
                "replayed": self.integrity.replayed,
                "identical": sum(self.integrity.same.values()),
                "different": len(self.integrity.differences),
                "agreement": self.integrity.agreement,
                "differences": [
                    {"id": record.id, "field": each.field, "recorded": each.recorded, "now": each.now}
                    for record, each in self.integrity.differences
                ],
                "notReplayable": _by_reason(self.integrity),
            },
            "perDecision": {
                "compared": self.compared,
                "applied": self.applied,
                "different": self.different,
                "results": [
                    {
                        "result": str(change),
                        "reason": reason,
                        "decisions": self.counts[change, reason],
                        "examples": [
                            {
                                "decision": each.decision,
                                "namespace": each.namespace,
                                "pod": each.pod,
                                "recordedNode": each.before,
                                "candidateNode": each.after,
                            }
                            for each in self.examples[change, reason]
                        ],
                    }
                    for change, reason in sorted(self.counts)
                ],
            },
        }
        if self.forward is not None:
            recorded, candidate = self.forward
            found["runForward"] = {
                "recordedPolicies": _figures(recorded),
                "candidate": _figures(candidate),
                "leavesOut": list(LEFT_OUT),
            }
        return found


async def compare_policy(
    journal: Journal,
    wanted: Container[str],
    placement_policy: Object,
    progress: Progress = lambda _: None,
) -> PolicyComparison:
    """Compare a valid PlacementPolicy with what was decided. `wanted` are the ids of the decisions to compare; the
    journal's others are read for what they depend on. Raises `JournalUnreachable`."""
    history, past = await load_history(journal), RebuiltObjects(journal)
    choice = CandidateChoice(history, build_candidate(placement_policy))
    found = PolicyComparison(choice.name, choice.has_scope)
    records = (await journal.decisions(limit=1 << 40)).records
    arrivals: dict[str, PodArrival] = {}
    done = 0
    async for record, point in fold_decisions(history, records):
        if record.id not in wanted:
            continue
        done += 1
        if done % _PROGRESS_EVERY == 0:
            progress(done)
        if isinstance(point, CannotReplay):
            found.integrity.add(record, point)
            continue
        decision, decided = decide_again(record, point)
        answer = compare(record, decided)
        found.integrity.add(record, answer)
        if not isinstance(answer, Same) or record.outcome.reason == _FAILED:
            continue
        candidate = await choice.choose(record, point.pod, past)
        found.add(record, find_difference(point, decision, candidate))
        if candidate is NotApplied.MORE_SPECIFIC_POLICY and record.policies:
            name = record.policies[0].name
            found.kept[name] = found.kept.get(name, 0) + 1
        if record.subject.uid not in arrivals:
            seen = next(each.revision for each in record.view if each.kind == PODS.text)
            after = point.policy if isinstance(candidate, NotApplied) else candidate
            arrivals[record.subject.uid] = PodArrival(
                seen, (record.now, record.id), point.pod, point.policy, after, record.seed
            )
    found.replaced = tuple(sorted(choice.replaced))
    if arrivals:
        found.forward = await run_forward(history, list(arrivals.values()))
    return found


def decide_again(record: DecisionRecord, point: DecisionPoint) -> tuple[Decision | None, Decided]:
    """What the recorded policy decides, as a value and in the form of a record."""
    subject = record.subject
    try:
        decision = point.decide(point.policy)
    except BrokenInvariant:
        raise  # What this process shares is wrong: no answer of the comparison could be relied on.
    except Exception as error:  # noqa: BLE001 - as the cycle does: a bug is part of what happened
        return None, Decided(outcome=Outcome(Ending.RETRY, _FAILED, f"{type(error).__name__}: {error}"))
    return decision, build_decided(decision, subject.namespace, subject.name, record.outcome.message)


def _by_reason(summary: Summary) -> dict[str, int]:
    found: dict[str, int] = {}
    for (_, why), count in summary.cannot.items():
        found[str(why)] = found.get(str(why), 0) + count
    return dict(sorted(found.items()))


def _figures(figures: ForwardFigures) -> dict[str, Any]:
    return {
        "podsArrived": figures.arrived,
        "podsPlaced": figures.placed,
        "pendingAtEnd": figures.pending_end,
        "pendingMost": figures.pending_most,
        "pendingMean": round(figures.pending_mean, 3),
        "resources": {
            name: {
                "balanceStandardDeviation": round(each.deviation, 3),
                "balanceSpread": round(each.spread, 3),
                "fragmentation": None if each.fragmentation is None else round(each.fragmentation, 3),
            }
            for name, each in figures.resources.items()
        },
    }


def find_placements(records: Iterable[DecisionRecord]) -> list[DecisionRecord]:
    """The decisions about pods that schedulers made, among these."""
    return [each for each in records if is_placement(each)]
