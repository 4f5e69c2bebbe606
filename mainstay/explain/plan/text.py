"""A plan in words, for a terminal. What comes first is what matters: the verdict, then each workload."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mainstay.explain.cures.values import TriedCure
from mainstay.explain.plan.quotas import QuotaUse
from mainstay.explain.plan.values import SIBLINGS_MAX, ObjectPlan, PlanAnswer, WaitingPods, WorkloadPlan

_NODES_MAX: Final = 6
_CURES_MAX: Final = 2
_STEPS_MAX: Final = 6
_PODS_MAX: Final = 5


def render_plan(plan: PlanAnswer, *, wide: bool = False) -> str:
    lines = [plan.sentence]
    workloads = {(each.kind, each.namespace, each.name): each for each in plan.workloads}
    for obj in plan.objects:
        lines.append(_object(obj))
        workload = workloads.get((obj.kind, obj.namespace, obj.name))
        if workload is not None:
            lines += [f"  {line}" for line in _workload(workload, wide)]
    for (namespace, name), uses in _by_quota(plan.quotas).items():
        lines.append(f"quota {namespace}/{name}: {', '.join(map(_use, uses))}")
    if plan.others:
        lines.append(f"others: {plan.others_count}")
        shown = plan.others if wide else plan.others[:_PODS_MAX]
        lines += [f"  pod {each.pod} {each.text}" for each in shown]
        if plan.others_count > len(shown):
            lines.append(f"  and {plan.others_count - len(shown)} more")
    lines += [f"note: {note}" for note in plan.notes]
    return "\n".join(lines)


def _object(obj: ObjectPlan) -> str:
    place = f" in {obj.namespace}" if obj.namespace else ""
    said = f"{obj.kind.lower()}/{obj.name}{place}"
    if obj.action == "refused":
        return f"{said} would be rejected: {obj.refusal}"
    return f"{said} is unchanged" if obj.action == "unchanged" else f"{said} would be {obj.action}"


def _workload(plan: WorkloadPlan, wide: bool) -> Iterable[str]:
    if plan.running:
        there = f", {plan.kept} of them already exist" if plan.kept else ""
        zones = f"; by zone: {_counts(plan.zones, wide)}" if plan.zones else ""
        yield f"{plan.running} of {plan.wanted} would run{there}: {_counts(plan.nodes, wide)}{zones}"
    elif plan.wanted == 0:
        yield "0 replicas desired"
    if not plan.is_certain:
        between = f"between {plan.running_least} and {plan.running_most}"
        yield f"not certain: {between} would run, depending on which pods come first"
    for wait in plan.waits:
        yield from _wait(wait, wide)
    for refused in plan.refused:
        yield f"{refused.count} would not be created: {refused.text}"
        yield from _cures(refused.cures, wide, 1)
    if plan.old:
        yield f"{plan.old} of earlier templates would stay: the rollout would not complete"
    for removed in plan.removed:
        names = f" ({', '.join(removed.pods)})" if wide else ""
        yield f"{len(removed.pods)} would be deleted on {_counts(removed.nodes, wide)}: {removed.why}{names}"
    yield from _steps(plan, wide)
    yield from plan.notes


def _wait(wait: WaitingPods, wide: bool) -> Iterable[str]:
    yield f"{wait.count} would stay pending: {wait.text}"
    if wide:
        yield f"  {wait.message}"
    yield from _cures(wait.cures, wide, min(wait.count, SIBLINGS_MAX + 1))


def _cures(cures: Sequence[TriedCure], wide: bool, tried: int) -> Iterable[str]:
    """`tried`: with how many pods it was verified."""
    for cure in cures if wide else cures[:_CURES_MAX]:
        some = f" (enough for {cure.enough_for} of {tried})" if cure.enough_for < tried else ""
        yield f"  cure: {cure.sentence}{some}"
        if cure.command:
            yield f"    {cure.command}"


def _steps(plan: WorkloadPlan, wide: bool) -> Iterable[str]:
    if len(plan.steps) < 2:
        return
    yield f"in {len(plan.steps)} steps, about {plan.steps[-1].after_s:.0f} s if pods start at once"
    shown = plan.steps if wide else plan.steps[:0]
    for step in shown:
        yield f"  +{step.after_s:.0f} s  {step.text}"


def _counts(counts: Mapping[str, int], wide: bool) -> str:
    most_first = sorted(counts, key=lambda name: (-counts[name], name))
    shown = most_first if wide else most_first[:_NODES_MAX]
    listed = ", ".join(f"{name} {counts[name]}" for name in shown)
    return f"{listed} and {len(counts) - len(shown)} more" if len(counts) > len(shown) else listed


def _by_quota(uses: Iterable[QuotaUse]) -> dict[tuple[str, str], list[QuotaUse]]:
    found: dict[tuple[str, str], list[QuotaUse]] = {}
    for use in uses:
        found.setdefault((use.namespace, use.quota), []).append(use)
    return found


def _use(use: QuotaUse) -> str:
    hard = use.hard_after if use.hard_before in ("", use.hard_after) else f"{use.hard_before} → {use.hard_after}"
    full = " (full)" if use.is_full else ""
    new = "" if use.hard_before else " (new)"
    return f"{use.resource} {use.used_before} → {use.used_after} of {hard}{new}{full}"
