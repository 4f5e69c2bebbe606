"""What would happen if this were applied: where pods would go, who would wait and why, what would be removed, and what
quotas would say.

    plan = await planned(moment, rooms, proposals)
    plan.verdict, plan.workloads, plan.quotas, plan.notes

The cluster as it is, and the cluster with the proposals (admission.py), both go on in memory until nothing happens any
more (projection.py). What is different in the end is what the proposals would do; so what is under way anyway is not
taken for their effect. Nothing is written anywhere.

Where there is too little for all, who comes first may be a matter of moments: of who is heard first, of how soon a pod
ends, of the uid by which equally good nodes are told apart. So the same is run several times, with other such moments
(`VARIANTS`); a workload for which it comes out differently says between what (`running_least`, `running_most`).

True for as long as no other writer changes anything. `notes` says what is not modelled.
"""

from collections.abc import Container, Mapping, Sequence
from datetime import timedelta
from typing import Final

from mainstay.api.holds import HoldScope, in_force
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import (
    COMPONENT_STATES,
    HOLDS,
    NODES,
    PLACEMENT_POLICIES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
)
from mainstay.api.unenforced_search import find_runner, find_unenforced
from mainstay.explain.moment import Moment
from mainstay.explain.plan.admission import Proposal
from mainstay.explain.plan.projection import KINDS, Expansion, Variant, Workloads
from mainstay.explain.plan.quotas import ProjectedQuota, QuotaBook, kinds_behind, read_limit, uses
from mainstay.explain.plan.report import SEED, PlanReport
from mainstay.explain.plan.values import ObjectPlan, PlanAnswer, WorkloadPlan
from mainstay.explain.registry import PlacementPlan, Rooms
from mainstay.explain.why.answer import Verdict

VARIANTS: Final = (
    Variant(seed=SEED),
    Variant(seed="plan-2", is_one_by_one=True, ends_after=timedelta(seconds=2)),
    Variant(seed="plan-3", takes_turns=True, ends_after=timedelta(seconds=8)),
    Variant(seed="plan-4", takes_turns=True),
    Variant(seed="plan-5", is_one_by_one=True),
    Variant(seed="plan-6", is_backwards=True),
)
"""The first one is what is told."""
OTHERS_MAX: Final = 20

_KNOWN_GROUPS: Final = ("k8s.io", PLACEMENT_POLICIES.group)


async def planned(moment: Moment, rooms: Rooms, proposals: Sequence[Proposal], notes: Sequence[str] = ()) -> PlanAnswer:
    """What would happen. `notes` are said with it. Raises `JournalUnreachable`."""
    state = await _State.of(moment, rooms, proposals)
    before = state.expansion(VARIANTS[0])
    before.settle()
    runs = [_run(state, proposals, variant) for variant in VARIANTS]
    after, objects = runs[0]
    report = PlanReport(before, after, [other for other, _ in runs])
    workloads = [
        report.workload(proposal)
        for proposal, made in zip(proposals, objects, strict=True)
        if state.is_workload(proposal) and made.action != "refused"
    ]
    others = report.others(proposals)
    quotas = uses(state.quotas(), after.quotas, state.new_limits(proposals))
    told = [
        *notes,
        *_notes(proposals, state, after),
        *(note for proposal in proposals for note in proposal.note.splitlines()),
    ]
    verdict = _verdict(objects, workloads, after.is_settled and not moment.gaps)
    return PlanAnswer(
        verdict=verdict,
        sentence=_sentence(objects, workloads, after.is_settled),
        revision=moment.revision,
        at=moment.at,
        objects=tuple(objects),
        workloads=tuple(workloads),
        quotas=tuple(each for each in quotas if each.is_changed),
        others=tuple(others[:OTHERS_MAX]),
        others_count=len(others),
        notes=tuple(dict.fromkeys(told)),
    )


def _run(state: "_State", proposals: Sequence[Proposal], variant: Variant) -> tuple[Expansion, list[ObjectPlan]]:
    """The cluster with the proposals, when nothing happens any more; and what became of each proposal."""
    after = state.expansion(variant)
    after.react()
    objects = []
    for proposal in reversed(proposals) if variant.is_backwards else proposals:
        objects.append(_apply(after, state, proposal))
        if variant.is_one_by_one:
            after.react()
    after.settle()
    return after, objects


# The state.


class _State:
    def __init__(
        self,
        moment: Moment,
        workloads: Workloads,
        placements: PlacementPlan,
        objects: Mapping[KindName, list[Object]],
        counted: Mapping[KindName, list[Object]],
    ) -> None:
        self.moment = moment
        self.objects = objects
        self._workloads = workloads
        self._placements = placements
        self._counted = counted
        self._priorities = {each["metadata"]["name"]: int(each.get("value") or 0) for each in objects[PRIORITY_CLASSES]}
        self._default = next(
            (each["metadata"]["name"] for each in objects[PRIORITY_CLASSES] if each.get("globalDefault")), ""
        )

    @classmethod
    async def of(cls, moment: Moment, rooms: Rooms, proposals: Sequence[Proposal]) -> "_State":
        workloads = rooms.plans()
        kinds = (*workloads, *KINDS, RESOURCE_QUOTAS, PRIORITY_CLASSES, PLACEMENT_POLICIES, COMPONENT_STATES)
        await moment.load(kinds)
        objects = {kind: await moment.all(kind) for kind in kinds}
        # What a quota that is only planned limits has to be counted.
        new = [proposal.object for proposal in proposals if proposal.kind == RESOURCE_QUOTAS and not proposal.refusal]
        counted: dict[KindName, list[Object]] = {}
        for group, plural in kinds_behind(new):
            kind = KindName(group, "v1", "", plural, True)
            counted[kind] = await moment.all(kind)
        return cls(moment, workloads, await rooms.placement_plan().placement_plan(moment), objects, counted)

    def is_workload(self, proposal: Proposal) -> bool:
        return proposal.kind == PODS or proposal.kind in self._workloads

    def quotas(self) -> QuotaBook:
        return QuotaBook(read_limit(quota) for quota in self.objects[RESOURCE_QUOTAS])

    def limit(self, quota: Object) -> ProjectedQuota:
        """What a planned quota limits, and what is used of it before anything is made."""
        objects = [((kind.group, kind.plural), obj) for kind, found in self._counted.items() for obj in found]
        return read_limit(quota, objects)

    def new_limits(self, proposals: Sequence[Proposal]) -> list[ProjectedQuota]:
        planned = [each.object for each in proposals if each.kind == RESOURCE_QUOTAS and not each.refusal]
        return [self.limit(quota) for quota in planned]

    def expansion(self, variant: Variant) -> Expansion:
        return Expansion(
            self._workloads,
            self._placements.model(variant.seed),
            self.objects,
            self.moment.at,
            quotas=self.quotas(),
            priorities=self._priorities,
            default_priority=self._default,
            variant=variant,
        )


def _apply(after: Expansion, state: _State, proposal: Proposal) -> ObjectPlan:
    refusal = proposal.refusal
    if not refusal and proposal.is_change:
        if proposal.kind == RESOURCE_QUOTAS:
            after.quotas.put(state.limit(proposal.object))
        elif proposal.kind == PRIORITY_CLASSES:
            after.know_priority(proposal.name, int(proposal.object.get("value") or 0))
        said = after.put(proposal.kind, proposal.object, proposal.before)
        refusal = f'{proposal.kind} "{proposal.name}" is forbidden: {said}' if said else ""
    action = "created" if proposal.before is None else "configured" if proposal.is_change else "unchanged"
    return ObjectPlan(
        kind=proposal.kind.kind,
        namespace=proposal.namespace,
        name=proposal.name,
        where=proposal.where,
        action="refused" if refusal else action,
        refusal=refusal,
    )


def _verdict(objects: Sequence[ObjectPlan], workloads: Sequence[WorkloadPlan], is_complete: bool) -> Verdict:
    if any(each.action == "refused" for each in objects) or any(each.refused for each in workloads):
        return Verdict.BLOCKED
    waits = [wait for each in workloads for wait in each.waits]
    if any(wait.is_blocked for wait in waits):
        return Verdict.BLOCKED
    if waits or any(each.running < each.wanted or each.old for each in workloads):
        return Verdict.WAITING
    return Verdict.SATISFIED if is_complete else Verdict.INCOMPLETE


def _sentence(objects: Sequence[ObjectPlan], workloads: Sequence[WorkloadPlan], is_settled: bool) -> str:
    refused = sum(1 for each in objects if each.action == "refused")
    wanted, running = sum(each.wanted for each in workloads), sum(each.running for each in workloads)
    parts = []
    if refused:
        parts.append(f"{refused} of {len(objects)} objects would be rejected")
    if workloads:
        parts.append(f"{running} of {wanted} pods would run" if running != wanted else f"all {wanted} pods would run")
    waiting = sum(each.waiting for each in workloads)
    if waiting:
        parts.append(f"{waiting} would stay pending")
    kept_out = sum(part.count for each in workloads for part in each.refused)
    if kept_out:
        parts.append(f"{kept_out} would not be created")
    if sum(each.old for each in workloads):
        parts.append("a rollout would not complete")
    if not parts:
        changed = sum(1 for each in objects if each.action != "unchanged")
        parts.append(f"{changed} of {len(objects)} objects would change" if changed else "nothing would change")
    said = "; ".join(parts)
    return f"{said[0].upper()}{said[1:]}." if is_settled else f"{said[0].upper()}{said[1:]}, as far as simulated."


def _list_unenforced(proposal: Proposal, runners: Container[str]) -> list[str]:
    """What of a proposal nothing would act on."""
    kind = proposal.kind
    found = find_unenforced(kind.group, kind.plural, proposal.object, runners)
    return [f"{kind.kind.lower()}/{proposal.name}: {each}" for each in found]


def _notes(proposals: Sequence[Proposal], state: _State, after: Expansion) -> list[str]:
    """What is not modelled, as far as it matters here; and what is in the way of all of it."""
    found = []
    if any(state.is_workload(proposal) for proposal in proposals):
        found.append(
            "Pods are assumed to become ready a moment after they have a node: "
            "images, probes, crashes and completions are not modelled."
        )
    runners = {find_runner(node) for node in state.objects[NODES]}
    for proposal in proposals:
        if not proposal.refusal:
            found += _list_unenforced(proposal, runners)
    if any("." in each.kind.group and not each.kind.group.endswith(_KNOWN_GROUPS) for each in proposals):
        found.append("The effects of other controllers on custom objects are not modelled.")
    for held in in_force(state.objects[HOLDS], state.moment.at):
        if held.what is HoldScope.CONTROLLER:
            found.append(f"{held.target} is paused (Hold {held.name}): {held.words}. Until then it changes nothing.")
    if not after.is_settled:
        found.append("It did not settle within half an hour of simulated time, or within the step limit.")
    if state.moment.gaps:
        found.append("The journal has gaps: some objects may be missing.")
    return found
