"""A placement replayed: what the scheduler knew, every filter's verdict on every node, and all scores.

What it knew is its view, which the journal has, and its memory: which pods it took to be where, before any view showed
that, and which ghosts it had been told of. No record holds that memory. It is the fold of the scheduler's own records
before this one (scheduler/record.py): a pod counts on its node after the decision that put it there, until a refusal
of it was heard, or the view shows what became of it. Each record says how far back that goes, and how many should come
out; when they do not, something is missing, and `missing` says what.

    found = await scheduling(journal, record)
    placement = explained(found)
    placement.verdicts["node-a1"]      every filter, passed or not, and why not
    placement.scores["node-a1"]        the points of each score

The same functions decide as in production, on columns that are made from the objects alone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from mainstay.api.causes import BindingCause
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import NODES, PLACEMENT_POLICIES, PODS, RESERVATIONS, ZONE_QUOTAS
from mainstay.api.object_key import ObjectKey
from mainstay.api.pod_resources import is_over
from mainstay.explain.rebuild import CannotRebuild, Rebuilt, RebuiltObjects, require_replayable
from mainstay.journal.coverage import Gap
from mainstay.journal.interface import Journal
from mainstay.journal.record import DecisionRecord, Ending, Outcome, RecordedAction, WhyNot
from mainstay.loop.decider import Decider, Schedule
from mainstay.loop.record import Decided
from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.decide import decide, decide_without
from mainstay.scheduler.filters import table as filtering
from mainstay.scheduler.messages import render_message, render_summary
from mainstay.scheduler.pod_class import pod_to_place
from mainstay.scheduler.policy import DEFAULT, Policy, parse_policy
from mainstay.scheduler.policy_class import class_under
from mainstay.scheduler.reasons import Decision, Placed, Refusal, RefusalReason
from mainstay.scheduler.record import FORGOTTEN, Remembered, UnconfirmedCharges
from mainstay.scheduler.scores.parts import score_parts
from mainstay.scheduler.what_if import Objects, build_columns

FOLDED_MAX: Final = 20_000
"""Numbers that are looked up for one decision."""
EARLIER_MAX: Final = 1_000
"""How many earlier decisions are copied for those that rest on them."""
TOLD_WITHIN: Final = 100
"""In how many numbers after a decision it may be told what had been sent before it."""
LOST_REVISIONS_MAX: Final = 20_000
"""How far behind a view placements are looked for that were not recorded."""
NO_OTHER_NODE: Final = "NoOtherNode"

_NODE: Final = "node="
_KEEPS: Final = (str(BindingCause.ALREADY_BOUND), "Unknown", "")
"""How a binding may be answered so that its pod is still taken to be there."""

_remembered = msgspec.msgpack.Decoder(Remembered).decode
decode_unconfirmed = msgspec.msgpack.Decoder(UnconfirmedCharges).decode


@dataclass(frozen=True, slots=True)
class Scheduling:
    """All that one placement was decided from."""

    objects: Objects
    pod: Object
    policy: Policy = DEFAULT
    seed: str = ""
    left_out: tuple[str, ...] = ()
    """Nodes where the server had just refused this pod."""
    gaps: tuple[Gap, ...] = ()
    missing: tuple[str, ...] = ()
    """What the scheduler knew and the journal does not tell. Empty, and without gaps: this is all of it."""


@dataclass(frozen=True, slots=True)
class FilterVerdict:
    """What one filter says of one node. One that refuses for several reasons says several of them."""

    filter: str
    """By the name that Kubernetes has for it."""
    reason: RefusalReason | None = None
    """None: the node passes."""
    detail: str = ""
    wanted: int | None = None
    free: int | None = None

    @property
    def passes(self) -> bool:
        return self.reason is None


@dataclass(frozen=True, slots=True)
class ExplainedPlacement:
    """A decision about a pod, with all that speaks for and against every node."""

    decision: Decision | None
    """None: no node but those that were left out could take it."""
    verdicts: dict[str, tuple[FilterVerdict, ...]]
    """By node: every filter, in the order in which they are told."""
    scores: dict[str, dict[str, int]]
    """By node that can take the pod, then by score: its points, weighed."""
    refusals: tuple[Refusal, ...]
    """The same as `verdicts` by reason: all that any filter refuses."""
    left_out: tuple[str, ...] = ()

    @property
    def chosen(self) -> str:
        return self.decision.node if isinstance(self.decision, Placed) else ""

    @property
    def totals(self) -> dict[str, int]:
        return {node: sum(parts.values()) for node, parts in self.scores.items()}

    @property
    def alternatives(self) -> tuple[tuple[str, int], ...]:
        """The other nodes that can take the pod, the best first, each with its points."""
        others = [(node, points) for node, points in self.totals.items() if node != self.chosen]
        return tuple(sorted(others, key=lambda each: (-each[1], each[0])))

    @property
    def refused(self) -> dict[str, tuple[FilterVerdict, ...]]:
        """The nodes that cannot take it, each with the verdicts against it."""
        against = {node: tuple(each for each in said if not each.passes) for node, said in self.verdicts.items()}
        return {node: said for node, said in against.items() if said}


async def scheduling(journal: Journal, record: DecisionRecord, past: RebuiltObjects | None = None) -> Scheduling:
    """What a placement was decided from. Raises `CannotRebuild`, `JournalUnreachable`."""
    if record.subject.kind != PODS.text:
        raise CannotRebuild(WhyNot.READ_OUTSIDE, f"{record.id} is not a decision about a pod")
    require_replayable(record)
    if not record.view:
        raise CannotRebuild(WhyNot.VIEW_NOT_NAMED, "its record does not name its view")
    past = past or RebuiltObjects(journal)
    remembered = read_memory(record)
    vector = {seen.kind: seen.revision for seen in record.view}
    await past.objects(vector)
    gaps: dict[Gap, None] = {}
    found: dict[KindName, tuple[Object, ...]] = {}
    for kind in (NODES, PODS, RESERVATIONS, ZONE_QUOTAS):
        if kind.text in vector:
            objects, missing = await past.all(kind, vector[kind.text])
            found[kind] = tuple(objects)
            gaps |= dict.fromkeys(missing)
    fold = _Fold(past, record, remembered, vector, found[PODS], found[NODES])
    await fold.run()
    pod = await find_pod(past, record, vector[PODS.text])
    policy, missing = await find_policy(past, record)
    gaps |= dict.fromkeys(missing)
    return Scheduling(
        Objects(
            found[NODES],
            found[PODS],
            found.get(RESERVATIONS, ()),
            found.get(ZONE_QUOTAS, ()),
            tuple(fold.assumed.values()),
            tuple(sorted(fold.ghosts.items())),
        ),
        pod,
        policy,
        record.seed,
        remembered.left_out,
        tuple(gaps),
        tuple(fold.missing),
    )


def explained_decision(scheduling: Scheduling) -> Decision | None:
    """Decide again, and no more than that. None: no node but those that were left out can take it."""
    return _decided(Vectors(build_columns(scheduling.objects)), scheduling)


def choose_by(scheduling: Scheduling, placement_policy: Object) -> str:
    """The node that another policy would choose from the same. Empty: none."""
    decision = explained_decision(replace(scheduling, policy=parse_policy(placement_policy)))
    return decision.node if isinstance(decision, Placed) else ""


async def rebuild_placement(past: RebuiltObjects, record: DecisionRecord, decider: Decider) -> Rebuilt:
    """What a placement is replayed from. Its memory is what the server had said of the nodes that were left out, of
    which there is only the record's own message."""
    found = await scheduling(past.journal, record, past)
    if found.missing and not found.gaps:
        raise CannotRebuild(WhyNot.MEMORY_NOT_KEPT, "; ".join(found.missing))
    return Rebuilt(found, record.outcome.message, found.gaps)


def _decide_again(found: Scheduling, left_out: str) -> Sequence[Decided]:
    metadata = found.pod["metadata"]
    try:
        decision = explained_decision(found)
    except Exception as error:  # noqa: BLE001 - as the cycle does: a bug is part of what happened
        return (Decided(outcome=Outcome(Ending.RETRY, "InternalError", f"{type(error).__name__}: {error}")),)
    return (build_decided(decision, metadata["namespace"], metadata["name"], left_out),)


def build_decided(decision: Decision | None, namespace: str, pod: str, left_out: str) -> Decided:
    """A decision in the form in which it is compared with its record. `left_out` is what the server had said of the
    nodes that were left out."""
    if isinstance(decision, Placed):
        action = RecordedAction("bind", PODS.text, namespace, pod, "binding")
        return Decided((action,), (f"{_NODE}{decision.node}", f"score={decision.score}"))
    if decision is None:
        return Decided(outcome=Outcome(Ending.RETRY, NO_OTHER_NODE, left_out))
    outcome = Outcome(Ending.RETRY, "Unschedulable", render_message(decision))
    return Decided(reasons=render_summary(decision), outcome=outcome)


PLACEMENTS: Final = Decider("scheduler", Schedule.PER_KEY, (), str, _decide_again)
"""How schedulers decide, whatever their names are."""


def explained(scheduling: Scheduling) -> ExplainedPlacement:
    """Decide again, with everything that was looked at on the way."""
    columns = build_columns(scheduling.objects)
    vectors, pod = Vectors(columns), pod_to_place(scheduling.pod)
    decision = _decided(vectors, scheduling)
    pod_class = class_under(pod, scheduling.policy)
    refusals = filtering.refusals(columns, pod_class)
    verdicts = _verdicts(columns.ring.names, refusals)
    scores = score_parts(vectors, pod_class, scheduling.policy)
    return ExplainedPlacement(decision, verdicts, scores, refusals, scheduling.left_out)


def _decided(vectors: Vectors, scheduling: Scheduling) -> Decision | None:
    pod, policy, seed = pod_to_place(scheduling.pod), scheduling.policy, scheduling.seed
    if scheduling.left_out:
        return decide_without(vectors, pod, policy, seed, scheduling.left_out)
    return decide(vectors, pod, policy, seed)


def _verdicts(nodes: Iterable[str], refusals: Sequence[Refusal]) -> dict[str, tuple[FilterVerdict, ...]]:
    against: dict[str, dict[str, list[FilterVerdict]]] = {}
    for refusal in refusals:
        free = refusal.free or (None,) * len(refusal.nodes)
        for node, left in zip(refusal.nodes, free, strict=True):
            verdict = FilterVerdict(refusal.plugin, refusal.reason, refusal.detail, refusal.wanted, left)
            against.setdefault(node, {}).setdefault(refusal.plugin, []).append(verdict)
    names = [str(each.PLUGIN) for each in filtering.ALL]
    return {
        node: tuple(verdict for name in names for verdict in against.get(node, {}).get(name) or (FilterVerdict(name),))
        for node in sorted(nodes)
    }


# What the scheduler remembered.


def rests_on(decisions: Iterable[DecisionRecord]) -> list[str]:
    """The earlier decisions of schedulers that these rest on, by their ids: the latest of them, some of which may not
    have been."""
    since: dict[str, int] = {}
    first: dict[str, int] = {}
    for each in decisions:
        cycle, _, text = each.id.rpartition(".")
        if not cycle or not text.isdigit() or each.subject.kind != PODS.text:
            continue
        memory = read_memory(each)
        if memory.assumed >= 0:
            since[cycle] = min(since.get(cycle, memory.since), memory.since)
            first[cycle] = min(first.get(cycle, memory.number), memory.number)
    return [
        f"{cycle}.{number}"
        for cycle in sorted(since)
        for number in range(max(since[cycle], first[cycle] - EARLIER_MAX), first[cycle])
    ]


@dataclass(slots=True)
class _Fold:
    """The scheduler's records before one of them, put together."""

    past: RebuiltObjects
    record: DecisionRecord
    remembered: Remembered
    vector: dict[str, int]
    pods: tuple[Object, ...]
    nodes: tuple[Object, ...]
    assumed: dict[str, tuple[Object, str]] = field(default_factory=dict)
    """By uid: the pod, and its node."""
    ghosts: dict[str, tuple[Object, ...]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    async def run(self) -> None:
        memory, (cycle, _, _) = self.remembered, self.record.id.rpartition(".")
        if memory.assumed < 0:
            self.missing.append("the record does not contain the assumed pods")
            return
        if memory.number - memory.since > FOLDED_MAX:
            self.missing.append(f"it would take reading {memory.number - memory.since} earlier decisions and answers")
            return
        waiting = {pod["metadata"]["uid"]: pod for pod in self.pods if _waits(pod)}
        known: dict[int, DecisionRecord] = {}
        for number in range(memory.since, memory.number):
            earlier = await self.past.journal.decision(f"{cycle}.{number}")
            if earlier is not None:
                known[number] = earlier
                await self._take(earlier, number, waiting)
        if len(self.assumed) < memory.assumed:
            await self._take_unrecorded(cycle, known, waiting)
        if len(self.assumed) != memory.assumed:
            self.missing.append(
                f"{len(self.assumed)} of {memory.assumed} assumed pods are known: "
                "bindings without an answer when a scheduler exits are never recorded"
            )
        if len(self.ghosts) != memory.unconfirmed:
            self.missing.append(f"{len(self.ghosts)} of {memory.unconfirmed} nodes with force-deleted pods are known")

    async def _take(self, earlier: DecisionRecord, number: int, waiting: dict[str, Object]) -> None:
        if earlier.subject.kind == NODES.text:
            await self._take_ghosts(earlier)
            return
        uid = earlier.subject.uid
        if earlier.outcome.reason == FORGOTTEN:
            self.assumed.pop(uid, None)
            return
        node = read_node(earlier)
        if not node or uid not in waiting:
            return
        if is_given_up(earlier) and read_memory(earlier).answered < self.remembered.number:
            return
        self.assumed[uid] = await self._as_decided(earlier, waiting[uid]), node

    async def _as_decided(self, earlier: DecisionRecord, now: Object) -> Object:
        """The pod in the version that was decided about, which is what it is taken to be."""
        return await self._at(now, earlier.looked_at[0].revision) if earlier.looked_at else now

    async def _at(self, pod: Object, revision: int) -> Object:
        """The same pod in another version."""
        metadata = pod["metadata"]
        if metadata["resourceVersion"] == str(revision):
            return pod
        states, _ = await self.past.objects({PODS.text: revision})
        stored = states[PODS.text].get(ObjectKey(metadata["namespace"], metadata["name"]))
        return pod if stored is None else stored.decoded()

    async def _take_ghosts(self, first: DecisionRecord) -> None:
        node, part = first.subject.name, decode_unconfirmed(first.memory.inline)
        self.ghosts.pop(node, None)
        found = list(part.found)
        while len(found) < part.count:
            more = await self.past.journal.decision(f"{first.id}.{len(found)}")
            if more is None:
                self.missing.append(f"not all ghosts of {node} are known")
                break
            found += decode_unconfirmed(more.memory.inline).found
        then = {seen.kind: seen.revision for seen in first.view}[NODES.text]
        were, _ = await self.past.objects({NODES.text: then})
        was = were[NODES.text].get(ObjectKey("", node))
        now = next((each for each in self.nodes if each["metadata"]["name"] == node), None)
        is_same = was is not None and now is not None and was.decoded()["metadata"]["uid"] == now["metadata"]["uid"]
        if found and is_same:
            self.ghosts[node] = tuple(found)

    async def _take_unrecorded(self, cycle: str, known: dict[int, DecisionRecord], waiting: dict[str, Object]) -> None:
        """Placements that the scheduler did not live to record: those that its refusals tell of, and those that came
        true, because the write carries the decision."""
        for number in range(self.remembered.since, self.remembered.number + TOLD_WITHIN):
            told = known.get(number) or await self.past.journal.decision(f"{cycle}.{number}")
            for sent in () if told is None else read_memory(told).sent:
                is_ours = self.remembered.since <= sent.number < self.remembered.number and sent.number not in known
                if is_ours and sent.uid in waiting and sent.uid not in self.assumed:
                    pod = await self._at(waiting[sent.uid], sent.revision)
                    self.assumed[sent.uid] = pod, sent.node
        if len(self.assumed) >= self.remembered.assumed:
            return
        seen = self.vector[PODS.text]
        later = await self.past.journal.changes(kind=PODS.text, after=seen, until=seen + LOST_REVISIONS_MAX)
        for change in later.records:
            named, _, text = change.decision.rpartition(".")
            if named != cycle or not text.isdigit() or change.value is None:
                continue
            number = int(text)
            if self.remembered.since <= number < self.remembered.number and number not in known:
                pod = msgspec.json.decode(change.value, type=Object)
                uid, node = pod["metadata"]["uid"], (pod.get("spec") or {}).get("nodeName")
                if uid in waiting and node:
                    self.assumed.setdefault(uid, (waiting[uid], node))


def read_memory(record: DecisionRecord) -> Remembered:
    """What a record about a pod says of its scheduler's memory."""
    try:
        return _remembered(record.memory.inline)
    except msgspec.MsgspecError:
        # A summary: what it was about and how it ended, and the number is in its name.
        text = record.id.rpartition(".")[2]
        number = int(text) if text.isdigit() else 0
        return Remembered(number, number)


def read_node(record: DecisionRecord) -> str:
    """The node that was chosen; empty: none was."""
    return next((each.removeprefix(_NODE) for each in record.reasons if each.startswith(_NODE)), "")


def is_given_up(record: DecisionRecord) -> bool:
    """Whether the answer to a binding was that the pod is not there: from then on it is not assumed any more."""
    return record.outcome.ending is not Ending.DONE and record.outcome.reason not in _KEEPS


def _waits(pod: Object) -> bool:
    return not (pod.get("spec") or {}).get("nodeName") and not is_over(pod)


async def find_pod(past: RebuiltObjects, record: DecisionRecord, seen: int) -> Object:
    """The pod that a record is about, in the version that was decided about. Raises `CannotRebuild`."""
    subject = record.subject
    revision = record.looked_at[0].revision if record.looked_at else seen
    for at in dict.fromkeys((seen, revision)):
        states, _ = await past.objects({PODS.text: at})
        stored = states[PODS.text].get(ObjectKey(subject.namespace, subject.name))
        if stored is not None and (stored.revision == revision or at == revision):
            return {"apiVersion": "v1", "kind": "Pod", **stored.decoded()}
    where = f"{subject.namespace}/{subject.name}"
    raise CannotRebuild(WhyNot.HISTORY_MISSING, f"the journal does not have the pod {where} as of revision {revision}")


async def find_policy(past: RebuiltObjects, record: DecisionRecord) -> tuple[Policy, tuple[Gap, ...]]:
    """What the decision went by. Raises `CannotRebuild`."""
    for named in record.policies:
        if named.kind != PLACEMENT_POLICIES.text:
            continue
        # Most policies are older than what is left of the journal, but the view still has the version.
        seen = next((each.revision for each in record.view if each.kind == named.kind), named.revision)
        for at in dict.fromkeys((seen, named.revision)):
            states, gaps = await past.objects({named.kind: at})
            stored = states[named.kind].get(ObjectKey("", named.name))
            if stored is not None and (stored.revision == named.revision or at == named.revision):
                return parse_policy(stored.decoded()), gaps
        raise CannotRebuild(
            WhyNot.HISTORY_MISSING, f"the journal does not have the policy {named.name} as of {named.revision}"
        )
    return DEFAULT, ()
