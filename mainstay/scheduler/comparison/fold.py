"""Every placement of a journal with what its scheduler knew, in one pass: the columns are kept up to date change by
change, as the scheduler's own are, and are not rebuilt for each decision.

    async for record, found in fold_decisions(history, records):
        match found:
            case DecisionPoint(): decide(found.vectors, found.pod, …)      until the next one is taken
            case CannotReplay(): why not

A scheduler's cycle numbers its decisions and the answers to them in one sequence (scheduler/record.py). Each cycle is
folded by itself: before a decision, the view is advanced to its revisions, and the pods whose bindings were rejected
before its number are released; after it, its pod is assumed on the node that the *record* names. So every decision is
made on exactly its recorded view, whatever was decided here about those before it.

A record says how many pods were assumed, and how many nodes had unconfirmed charges. If that does not come out,
something is missing in the journal, and the decision is not replayable. It is never guessed: placements that no record
tells of are added only if other records, or the writes themselves, name them, and then must come to the right number.

scheduler/why/placement.py does the same for a single decision, from nothing. It is the reference for this one: slower
by the size of the cluster, and simpler.
"""

import heapq
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from mainstay.api.kind_names import NODES, PODS
from mainstay.api.object_key import ObjectKey
from mainstay.explain.placements import is_placement
from mainstay.explain.rebuild import WHY_NOT, CannotRebuild, RebuiltObjects, require_replayable
from mainstay.explain.replay import CannotReplay
from mainstay.journal.record import AppliedPolicy, ChangeRecord, DecisionRecord, WhyNot
from mainstay.scheduler.cache.charge import build_unconfirmed_charge
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.comparison.history import (
    PlacementHistory,
    ViewCursor,
    change_columns,
    decode_object,
    decode_pod_state,
)
from mainstay.scheduler.decide import decide, decide_without
from mainstay.scheduler.pod_class import PodToPlace, pod_to_place
from mainstay.scheduler.policy import Policy
from mainstay.scheduler.reasons import Decision
from mainstay.scheduler.record import FORGOTTEN, Remembered, Sent
from mainstay.scheduler.why.placement import (
    LOST_REVISIONS_MAX,
    TOLD_WITHIN,
    decode_unconfirmed,
    find_pod,
    find_policy,
    is_given_up,
    read_memory,
    read_node,
)

RECOUNTED_MAX: Final = 1_000_000
"""Earlier records of a cycle that are looked at again because a number did not come out, in all."""


@dataclass(frozen=True, slots=True)
class DecisionPoint:
    """What one decision was made from. The vectors are those of this moment: use them before the next is taken."""

    vectors: Vectors
    pod: PodToPlace
    policy: Policy
    seed: str
    left_out: tuple[str, ...]
    """Nodes where the server had just rejected this pod."""

    def decide(self, policy: Policy) -> Decision | None:
        """Decide by a policy, as the scheduler does. None: no node but those that were left out can take the pod."""
        if self.left_out:
            return decide_without(self.vectors, self.pod, policy, self.seed, self.left_out)
        return decide(self.vectors, self.pod, policy, self.seed)


Found = DecisionPoint | CannotReplay


async def fold_decisions(
    history: PlacementHistory, records: Iterable[DecisionRecord]
) -> AsyncIterator[tuple[DecisionRecord, Found]]:
    """All placements among these records, which are all that the journal has: cycle by cycle, in the order in which
    each cycle decided. Raises `JournalUnreachable`."""
    past = RebuiltObjects(history.journal)
    cycles = _group_cycles(records)
    known = {each.id for cycle in cycles.values() for _, each in cycle}
    unrecorded = _find_unrecorded(history, cycles, known)
    for cycle, numbered in cycles.items():
        fold = _CycleFold(history, past, numbered, unrecorded.get(cycle, []))
        async for record, found in fold.run():
            yield record, found


def _group_cycles(records: Iterable[DecisionRecord]) -> dict[str, list[tuple[int, DecisionRecord]]]:
    """By cycle, the records of its sequence with their numbers, in order."""
    listed = list(records)
    cycles: dict[str, list[tuple[int, DecisionRecord]]] = {}
    for record in listed:
        cycle, _, text = record.id.rpartition(".")
        if text.isdigit() and is_placement(record):
            cycles.setdefault(cycle, []).append((int(text), record))
    for record in listed:
        cycle, _, text = record.id.rpartition(".")
        # Summaries and unconfirmed charges. Further parts of the latter have two numbers, and are found by the first.
        if cycle in cycles and text.isdigit() and not is_placement(record):
            cycles[cycle].append((int(text), record))
    for numbered in cycles.values():
        numbered.sort(key=lambda each: each[0])
    return cycles


def _find_unrecorded(
    history: PlacementHistory, cycles: Iterable[str], known: set[str]
) -> dict[str, list[tuple[int, ChangeRecord]]]:
    """By cycle, the bindings that came true and whose decision is in no record, with its number: a scheduler that ends
    before the answer comes does not record it, but the write carries it."""
    wanted = set(cycles)
    found: dict[str, list[tuple[int, ChangeRecord]]] = {}
    for change in history.changes[PODS.text]:
        if change.decision and change.value is not None and change.decision not in known:
            cycle, _, text = change.decision.rpartition(".")
            if cycle in wanted and text.isdigit():
                found.setdefault(cycle, []).append((int(text), change))
    return found


@dataclass(slots=True)
class _Waiting:
    """A pod without a node, as the view has it."""

    key: ObjectKey
    revision: int
    value: bytes
    placing: PodToPlace | None = None

    def place(self) -> PodToPlace:
        """The pod, taken apart. Only those that are decided about are."""
        if self.placing is None:
            self.placing = pod_to_place(decode_object(self.value))
        return self.placing


class _CycleFold:
    def __init__(
        self,
        history: PlacementHistory,
        past: RebuiltObjects,
        numbered: Sequence[tuple[int, DecisionRecord]],
        unrecorded: Sequence[tuple[int, ChangeRecord]],
    ) -> None:
        self._history = history
        self._past = past
        self._numbered = numbered
        self._numbers = [number for number, _ in numbered]
        self._unrecorded = unrecorded
        known = set(self._numbers)
        self._sent: list[tuple[int, Sent]] = []
        """What records tell of placements that have none, with the number of the record."""
        for number, record in numbered:
            if record.subject.kind == PODS.text:
                self._sent += [(number, sent) for sent in read_memory(record).sent if sent.number not in known]
        self._policies: dict[tuple[AppliedPolicy, ...], Policy] = {}
        self._recounts_left = RECOUNTED_MAX
        self._cursor: ViewCursor | None = None
        self._clear()

    def _clear(self) -> None:
        self._columns = NodeColumns()
        self._vectors = Vectors(self._columns)
        self._waiting: dict[str, _Waiting] = {}
        self._uids: dict[ObjectKey, str] = {}
        self._assumed: dict[str, int] = {}
        """By uid, the number of the decision by which a pod counts on its node."""
        self._extra: dict[str, None] = {}
        """The same of those that are in no record."""
        self._released: list[tuple[int, int, str]] = []
        """Numbers of answers that are still to come: with the number of the decision, and the uid."""
        self._incomplete: dict[str, None] = {}
        """Nodes of which not all unconfirmed charges are known."""

    async def run(self) -> AsyncIterator[tuple[DecisionRecord, Found]]:
        for place, (number, record) in enumerate(self._numbered):
            is_seen = await self._see(place, record)
            if record.subject.kind == NODES.text:
                if is_seen:
                    await self._take_unconfirmed(record)
                continue
            found = await self._find(place, record, is_seen)
            yield record, found
            if self._cursor is not None:
                await self._take(number, record, number + 1, found.pod if isinstance(found, DecisionPoint) else None)

    # The view.

    async def _see(self, place: int, record: DecisionRecord) -> bool:
        """Go to the view of a record. False: the journal does not have it."""
        view = {seen.kind: seen.revision for seen in record.view}
        if not view or self._history.find_gap(view.values()):
            return False
        if self._cursor is not None and not self._cursor.is_behind(view):
            self._cursor.advance(view)
            return True
        # The first one, or the store was restored from a backup.
        self._clear()
        self._cursor = ViewCursor(self._history, self._change)
        await self._cursor.start(view)
        number = self._numbers[place]
        for earlier, each in self._since(read_memory(record).since, number):
            if each.subject.kind == PODS.text:
                await self._take(earlier, each, number)
            elif await self._is_same_node(each, view[NODES.text]):
                await self._take_unconfirmed(each)
        return True

    def _since(self, since: int, number: int) -> Iterable[tuple[int, DecisionRecord]]:
        return self._numbered[bisect_left(self._numbers, since) : bisect_left(self._numbers, number)]

    def _change(self, kind: str, key: ObjectKey, revision: int, value: bytes | None) -> None:
        if kind == PODS.text:
            self._change_pod(key, revision, value)
        else:
            change_columns(self._columns, kind, key, value)

    def _change_pod(self, key: ObjectKey, revision: int, value: bytes | None) -> None:
        before, pod = self._uids.get(key), None if value is None else decode_pod_state(value)
        if before is not None and (pod is None or before != pod.uid):
            self._columns.pod_changed({"metadata": {"uid": before}}, None)
            self._settle(before)
            del self._uids[key]
        if pod is None or value is None:
            return
        uid = self._uids[key] = pod.uid
        if pod.is_over:
            self._columns.pod_changed({"metadata": {"uid": uid}}, None)
            self._settle(uid)
        elif pod.is_bound:
            self._columns.pod_changed(None, decode_object(value))
            self._settle(uid)
        else:
            self._waiting[uid] = _Waiting(key, revision, value)
            if uid not in self._assumed and uid not in self._extra and self._columns.find_node(uid) is not None:
                self._columns.pod_changed({"metadata": {"uid": uid}}, None)

    def _settle(self, uid: str) -> None:
        """The view shows what became of a pod."""
        self._waiting.pop(uid, None)
        self._assumed.pop(uid, None)
        self._extra.pop(uid, None)

    # One decision.

    async def _find(self, place: int, record: DecisionRecord, is_seen: bool) -> Found:
        try:
            require_replayable(record)
            if not is_seen:
                return self._cannot_see(record)
            memory = read_memory(record)
            pod = await self._find_pod(record)
            policy = await self._find_policy(record)
            missing = await self._settle_memory(place, memory)
        except CannotRebuild as error:
            return CannotReplay(error.why, str(error))
        if missing:
            return CannotReplay(WhyNot.MEMORY_NOT_KEPT, missing)
        return DecisionPoint(self._vectors, pod, policy, record.seed, memory.left_out)

    def _cannot_see(self, record: DecisionRecord) -> CannotReplay:
        if not record.view:
            return CannotReplay(WhyNot.VIEW_NOT_NAMED, WHY_NOT[WhyNot.VIEW_NOT_NAMED])
        gap = self._history.find_gap(seen.revision for seen in record.view)
        return CannotReplay(WhyNot.HISTORY_MISSING, f"{WHY_NOT[WhyNot.HISTORY_MISSING]}: {gap}")

    async def _find_pod(self, record: DecisionRecord) -> PodToPlace:
        """The pod, in the version that was decided about."""
        waiting = self._waiting.get(record.subject.uid)
        if waiting is not None and record.looked_at and waiting.revision == record.looked_at[0].revision:
            return waiting.place()
        seen = next(each.revision for each in record.view if each.kind == PODS.text)
        return pod_to_place(await find_pod(self._past, record, seen))

    async def _find_policy(self, record: DecisionRecord) -> Policy:
        policy = self._policies.get(record.policies)
        if policy is None:
            policy, gaps = await find_policy(self._past, record)
            if gaps:
                raise CannotRebuild(WhyNot.HISTORY_MISSING, "; ".join(map(str, gaps)))
            self._policies[record.policies] = policy
        return policy

    # The memory.

    async def _settle_memory(self, place: int, memory: Remembered) -> str:
        """Release what was rejected before this decision, and count. Returns what is missing, in words."""
        if memory.assumed < 0:
            return "the record does not contain the assumed pods"
        while self._released and self._released[0][0] < memory.number:
            _, number, uid = heapq.heappop(self._released)
            if self._assumed.get(uid) == number:
                self._forget(uid)
        if self._extra or len(self._assumed) != memory.assumed:
            await self._recount(place, memory)
        known = len(self._assumed) + len(self._extra)
        if known != memory.assumed:
            return (
                f"{known} of {memory.assumed} assumed pods are known: bindings without an answer when a scheduler exits"
                " are never recorded"
            )
        nodes = len(self._columns.unconfirmed_nodes) if self._columns.has_unconfirmed else 0
        if nodes != memory.unconfirmed:
            return f"{nodes} of {memory.unconfirmed} nodes with force-deleted pods are known"
        return f"not all force-deleted pods of {', '.join(self._incomplete)} are known" if self._incomplete else ""

    async def _recount(self, place: int, memory: Remembered) -> None:
        """Put the memory together from the records again, and from what is told of those that are missing."""
        for uid in list(self._extra):
            self._columns.forget(uid)
        self._extra.clear()
        if len(self._assumed) != memory.assumed and memory.number - memory.since <= self._recounts_left:
            self._recounts_left -= memory.number - memory.since
            for uid in list(self._assumed):
                self._forget(uid)
            for number, record in self._since(memory.since, memory.number):
                if record.subject.kind == PODS.text:
                    await self._take(number, record, memory.number)
        if len(self._assumed) < memory.assumed:
            self._add_sent(memory)
        if len(self._assumed) + len(self._extra) < memory.assumed:
            self._add_bound(memory)

    def _add_sent(self, memory: Remembered) -> None:
        for told, sent in self._sent:
            is_ours = memory.since <= sent.number < memory.number
            if is_ours and memory.since <= told < memory.number + TOLD_WITHIN:
                self._assume_extra(sent.uid, sent.node)

    def _add_bound(self, memory: Remembered) -> None:
        seen = 0 if self._cursor is None else self._cursor.at[PODS.text]
        for number, change in self._unrecorded:
            is_ours = memory.since <= number < memory.number and seen < change.revision <= seen + LOST_REVISIONS_MAX
            if is_ours and change.value is not None:
                pod = decode_object(change.value)
                self._assume_extra(pod["metadata"]["uid"], (pod.get("spec") or {}).get("nodeName") or "")

    def _assume_extra(self, uid: str, node: str) -> None:
        waiting = self._waiting.get(uid)
        if waiting is not None and node and uid not in self._assumed and uid not in self._extra:
            self._extra[uid] = None
            self._columns.assume(waiting.place(), node)

    def _forget(self, uid: str) -> None:
        self._assumed.pop(uid, None)
        self._columns.forget(uid)

    async def _take(self, number: int, record: DecisionRecord, before: int, pod: PodToPlace | None = None) -> None:
        """Remember what was decided, as it is remembered by the decision with the number `before`."""
        uid = record.subject.uid
        if record.outcome.reason == FORGOTTEN:
            self._forget(uid)
            return
        node, waiting = read_node(record), self._waiting.get(uid)
        if not node or waiting is None:
            return
        answered = read_memory(record).answered
        if is_given_up(record):
            if answered < before:
                return
            heapq.heappush(self._released, (answered, number, uid))
        if uid in self._extra:
            del self._extra[uid]
            self._columns.forget(uid)
        self._assumed[uid] = number
        if pod is None:
            pod = await self._at(waiting, record)
        self._columns.assume(pod, node)

    async def _at(self, waiting: _Waiting, record: DecisionRecord) -> PodToPlace:
        """A pod in the version that was decided about."""
        revision = record.looked_at[0].revision if record.looked_at else waiting.revision
        if revision == waiting.revision:
            return waiting.place()
        states, _ = await self._past.objects({PODS.text: revision})
        stored = states[PODS.text].get(waiting.key)
        return waiting.place() if stored is None else pod_to_place(stored.decoded())

    async def _take_unconfirmed(self, record: DecisionRecord) -> None:
        """The server had said which charges of a node are unconfirmed. It holds while the Node is the same one."""
        node, first = record.subject.name, decode_unconfirmed(record.memory.inline)
        found = list(first.found)
        self._incomplete.pop(node, None)
        while len(found) < first.count:
            more = await self._history.journal.decision(f"{record.id}.{len(found)}")
            if more is None:
                self._incomplete[node] = None
                break
            found += decode_unconfirmed(more.memory.inline).found
        self._columns.unconfirmed_changed(node, {each["uid"]: build_unconfirmed_charge(each) for each in found})

    async def _is_same_node(self, record: DecisionRecord, seen: int) -> bool:
        """Whether the Node that unconfirmed charges were told of is the one that there is at a revision."""
        then = next(each.revision for each in record.view if each.kind == NODES.text)
        key, uids = ObjectKey("", record.subject.name), []
        for revision in (then, seen):
            states, _ = await self._past.objects({NODES.text: revision})
            stored = states[NODES.text].get(key)
            uids.append(None if stored is None else stored.decoded()["metadata"].get("uid"))
        return uids[0] is not None and uids[0] == uids[1]
