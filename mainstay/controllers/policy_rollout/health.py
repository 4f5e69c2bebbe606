"""How the pods that go by the candidate compare with those that do not: a stated test, with exact arithmetic.

Every signal is a share: so many of so many pods wait, were bound late, were disrupted; so many of so many decisions
were refused at the commit. A signal *regresses* if both hold:

- the share of the candidate is more than `maxIncreasePercent` points above that of the baseline, and
- Fisher's exact test, one-sided, finds it unlikely to be chance: if the candidate made no difference, a split at least
  as uneven would be seen with a probability of at most `significancePercent`, divided by the number of signals that
  are tested (Bonferroni), since one of many is easily unlucky.

With fewer than `minSamples` pods on either side nothing is tested: no regression is found, and no gate passes. The
shadow stage has no second cohort. There the same decisions are made twice, and two shares have an upper bound.

What it does not promise: that a candidate which passes is as good. With 20 pods on each side, a share that doubles from
10 to 20 percent is not found. More samples find smaller differences.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import comb
from typing import Final

from mainstay.api.policy_rollout import GateRules

SIZE_MAX: Final = 400
"""Larger cohorts are scaled down: by then every share that matters is found, and the arithmetic stays quick."""
NEAR_ZERO: Final = Fraction(1, 10_000)
_NO_DECISIONS: Final = "schedulers have counted no decision of one side since the stage took effect"


@dataclass(frozen=True, slots=True)
class CohortFigures:
    """What was counted about one side. A pod is judged when it is as old as binding may take, bound or not."""

    pods: int = 0
    """Those that are judged."""
    pending: Mapping[str, int] = field(default_factory=dict)
    """By reason, those of them that have no node."""
    late: int = 0
    """Bound later than is accepted, or still pending."""
    disrupted: int = 0
    """Evicted or preempted."""
    decided: int = 0
    conflicts: int = 0
    refused: int = 0
    undecided: int = 0
    """Old enough to be judged, but no scheduler has decided about them."""
    is_counted: bool = False
    """Whether schedulers count decisions for this side. For pods under no PlacementPolicy they do not."""


@dataclass(frozen=True, slots=True)
class ShadowFigures:
    """Decisions that schedulers also made by the candidate."""

    shadowed: int = 0
    different: int = 0
    unplaced: int = 0
    """The candidate had no node where the policy in force had one."""


@dataclass(frozen=True, slots=True)
class SignalTest:
    """One signal: k of n, on both sides."""

    signal: str
    candidate: tuple[int, int]
    baseline: tuple[int, int]
    p_value: Fraction
    is_regression: bool


@dataclass(frozen=True, slots=True)
class CohortVerdict:
    """`regressions` are of signals with enough samples, and of objectives (objectives.py)."""

    tests: tuple[SignalTest, ...] = ()
    missing: str = ""
    """Which samples are too few, in words; empty if there are enough."""
    regressions: tuple[str, ...] = ()
    """In words, each."""

    @property
    def is_healthy(self) -> bool:
        return not self.missing and not self.regressions


def compare_cohorts(candidate: CohortFigures, baseline: CohortFigures, rules: GateRules) -> CohortVerdict:
    for name, cohort in (("the candidate", candidate), ("the baseline", baseline)):
        if cohort.pods < rules.min_samples:
            return CohortVerdict(missing=f"{cohort.pods} of {rules.min_samples} pods under {name} can be judged")
    signals = list_signals(candidate, baseline)
    tests = tuple(_test(name, ours, theirs, len(signals), rules) for name, (ours, theirs) in signals.items())
    is_counted = candidate.is_counted and baseline.is_counted
    missing = _NO_DECISIONS if is_counted and "conflicts" not in signals else ""
    undecided = candidate.undecided + baseline.undecided
    if undecided:
        missing = f"schedulers have not decided about {undecided} of the pods yet"
    return CohortVerdict(tests, missing, tuple(describe_test(each) for each in tests if each.is_regression))


def judge_shadow(figures: ShadowFigures, rules: GateRules) -> CohortVerdict:
    if figures.shadowed < rules.min_samples:
        return CohortVerdict(missing=f"{figures.shadowed} of {rules.min_samples} decisions were made in the shadow")
    found = []
    for count, most, words in (
        (figures.different, rules.max_shadow_different_percent, "choose another node than"),
        (figures.unplaced, rules.max_shadow_unplaced_percent, "find no node, unlike"),
    ):
        if count * 100 > most * figures.shadowed:
            text = f"{count} of {figures.shadowed} decisions in the shadow {words} the policy in force; "
            found.append(f"{text}at most {most} % may")
    return CohortVerdict(regressions=tuple(found))


def list_signals(
    candidate: CohortFigures, baseline: CohortFigures
) -> dict[str, tuple[tuple[int, int], tuple[int, int]]]:
    """What is compared, by name: k of n of the candidate, and of the baseline."""

    def of_pods(ours: int, theirs: int) -> tuple[tuple[int, int], tuple[int, int]]:
        return (ours, candidate.pods), (theirs, baseline.pods)

    found = {"pending": of_pods(sum(candidate.pending.values()), sum(baseline.pending.values()))}
    for reason in sorted({*candidate.pending, *baseline.pending}):
        found[f"pending/{reason}"] = of_pods(candidate.pending.get(reason, 0), baseline.pending.get(reason, 0))
    found["late"] = of_pods(candidate.late, baseline.late)
    found["disrupted"] = of_pods(candidate.disrupted, baseline.disrupted)
    if candidate.decided and baseline.decided:
        ours, theirs = candidate.decided, baseline.decided
        found["conflicts"] = (min(candidate.conflicts, ours), ours), (min(baseline.conflicts, theirs), theirs)
        found["refused"] = (min(candidate.refused, ours), ours), (min(baseline.refused, theirs), theirs)
    return found


def describe_test(test: SignalTest) -> str:
    (ours, of_ours), (theirs, of_theirs) = test.candidate, test.baseline
    return (
        f"{test.signal}: {ours} of {of_ours} under the candidate, {theirs} of {of_theirs} under the baseline "
        f"(p {describe_p(test.p_value)})"
    )


def describe_p(p_value: Fraction) -> str:
    return "< 0.0001" if p_value < NEAR_ZERO else f"{round(p_value * 10_000) / 10_000:.4f}"


def _test(name: str, ours: tuple[int, int], theirs: tuple[int, int], tests: int, rules: GateRules) -> SignalTest:
    p_value = compute_p_value(ours, theirs)
    (count, size), (before, of) = ours, theirs
    is_larger = (count * of - before * size) * 100 > rules.max_increase_percent * size * of
    is_unlikely = p_value * tests * 100 <= rules.significance_percent
    return SignalTest(name, ours, theirs, p_value, is_larger and is_unlikely)


def compute_p_value(candidate: tuple[int, int], baseline: tuple[int, int]) -> Fraction:
    """Fisher's exact test, one-sided: how likely the candidate has at least so many, if both were alike."""
    (ours, size), (theirs, of) = _scale(*candidate), _scale(*baseline)
    total = ours + theirs
    ways = sum(comb(size, count) * comb(of, total - count) for count in range(ours, min(size, total) + 1))
    return Fraction(ways, comb(size + of, total))


def _scale(count: int, size: int) -> tuple[int, int]:
    return (count, size) if size <= SIZE_MAX else (count * SIZE_MAX // size, SIZE_MAX)
