"""Would it fit, if this were different? Many small questions about one pod and one view.

`what_if` makes columns for each question, which takes longer than to answer it. Here they are made once; each question
changes a few rows, decides, and changes them back. What columns say does not depend on the way they came about
(scheduler/cache/columns.py), so the answers are those of `what_if`; tests compare the two.

A pod is not alone. Others that wait for a node, and are served before it, are given what they can get first: room that
one of them would take is no cure.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, assert_never

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.object_key import ObjectKey
from mainstay.explain.cures.owner import find_workload
from mainstay.scheduler.cache.charge import build_unconfirmed_charge
from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.decide import choose, decide, scores
from mainstay.scheduler.pod_class import PodToPlace, pod_to_place
from mainstay.scheduler.policy import Policy
from mainstay.scheduler.reasons import Decision
from mainstay.scheduler.what_if import Objects, build_columns

AHEAD_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class NodeEdit:
    """A node is like this instead. Several edits of one node are made one after the other."""

    name: str
    edit: Callable[[Object], Object]


@dataclass(frozen=True, slots=True)
class NodeAdded:
    node: Object


@dataclass(frozen=True, slots=True)
class PodsGone:
    pods: tuple[Object, ...]


@dataclass(frozen=True, slots=True)
class ReservationGone:
    reservation: Object


@dataclass(frozen=True, slots=True)
class GhostsGone:
    """What was removed by force from a node does not run there any more."""

    node: str


@dataclass(frozen=True, slots=True)
class QuotaEdit:
    """A ZoneQuota is like this instead."""

    was: Object
    quota: Object


@dataclass(frozen=True, slots=True)
class PodEdit:
    """The pod itself asks for something else."""

    edit: Callable[[Object], Object]


Edit = NodeEdit | NodeAdded | PodsGone | ReservationGone | GhostsGone | QuotaEdit | PodEdit


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """What became of the pod."""

    nodes: tuple[str, ...]
    """All that can take it, sorted."""
    node: str
    """The one that would be chosen; empty if there is none."""
    others: tuple[str, ...] = ()
    """Where the replacements would go."""
    enough_for: int = 1
    """How many would get a node: the pod, and those of its siblings that were asked about."""


class Trial:
    """Questions about one pod. Bounded: after `questions_max` of them every answer is no.

    `siblings` are others that wait as it does: an outcome says how many of them would get a node with it.
    """

    def __init__(
        self,
        objects: Objects,
        pod: Object,
        policy: Policy,
        seed: str,
        questions_max: int = 150,
        siblings: Sequence[Object] = (),
    ) -> None:
        self.objects = objects
        self.pod = pod
        self._policy = policy
        self._seed = seed
        self._vectors = Vectors(build_columns(objects))
        self._nodes = {node["metadata"]["name"]: node for node in objects.nodes}
        self._ghosts = dict(objects.unconfirmed)
        self._left = questions_max
        self._ahead = [pod_to_place(each) for each in find_pods_ahead(objects, pod)]
        ahead = {each.uid for each in self._ahead}
        own = {each["metadata"]["uid"] for each in siblings}
        self._siblings_ahead = [place for place, each in enumerate(self._ahead) if each.uid in own]
        self._siblings_behind = [each for each in siblings if each["metadata"]["uid"] not in ahead]

    def decision(self) -> Decision:
        """As things are."""
        return decide(self._vectors, pod_to_place(self.pod), self._policy, self._seed)

    def node(self, name: str) -> Object:
        return self._nodes[name]

    def outcome(self, edits: Iterable[Edit], replacements: Iterable[Object] = ()) -> TrialOutcome:
        """What would become of the pod with these changes.

        `replacements` are pods that are made at once in the place of those that are deleted. They look for a node
        before the room of the others is free; one that finds none then would come back to just that room, as soon as a
        part of it is free, and mostly be first. So it is a no if any of them does.
        """
        if self._left <= 0:
            return _NOWHERE
        self._left -= 1
        pod = self.pod
        behind = self._siblings_behind
        changes: list[Edit] = []
        for edit in edits:
            if isinstance(edit, PodEdit):
                pod = edit.edit(pod)
                behind = [edit.edit(each) for each in behind]
            else:
                changes.append(edit)
        leaving = [edit for edit in changes if isinstance(edit, PodsGone)]
        with (
            self._changed([edit for edit in changes if edit not in leaving]),
            self._assumed(map(pod_to_place, replacements)) as others,
        ):
            if "" in others:
                return _NOWHERE
            with self._changed(leaving), self._assumed(self._ahead) as ahead:
                before = sum(1 for place in self._siblings_ahead if ahead[place])
                return self._outcome(pod, tuple(others), before, behind)

    def _outcome(self, pod: Object, others: tuple[str, ...], before: int, behind: Sequence[Object]) -> TrialOutcome:
        placing = pod_to_place(pod)
        node = self._chosen(placing)
        if not node:
            return _NOWHERE
        nodes = tuple(scores(self._vectors, placing, self._policy))
        with self._assumed([placing, *map(pod_to_place, behind)]) as placed:
            return TrialOutcome(nodes, node, others, before + sum(1 for each in placed if each))

    def _chosen(self, pod: PodToPlace) -> str:
        """As `decide`, without reasons."""
        ring, totals = self._vectors.of(pod.pod_class, self._policy).totals()
        place = choose(totals, ring.start_for(self._seed, pod.uid))
        return "" if place is None else ring.names[place]

    @contextmanager
    def _assumed(self, pods: Iterable[PodToPlace]) -> Iterator[list[str]]:
        """Where each of these pods would go, and with them there; empty for one that would wait."""
        columns, found = self._vectors.columns, list[str]()
        assumed: list[str] = []
        for pod in pods:
            node = self._chosen(pod)
            if node:
                columns.assume(pod, node)
                assumed.append(pod.uid)
            found.append(node)
        try:
            yield found
        finally:
            for uid in assumed:
                columns.forget(uid)

    @contextmanager
    def _changed(self, changes: Sequence[Edit]) -> Iterator[None]:
        columns = self._vectors.columns
        nodes: dict[str, Object | None] = {}
        gone: dict[str, Object] = {}
        undo: list[Callable[[], object]] = []
        for change in changes:
            match change:
                case NodeEdit(name=name, edit=edit):
                    nodes[name] = edit(nodes.get(name) or self._nodes[name])
                case NodeAdded(node=node):
                    nodes[node["metadata"]["name"]] = node
                case PodsGone(pods=pods):
                    gone |= {pod["metadata"]["uid"]: pod for pod in pods}
                case ReservationGone(reservation=reservation):
                    columns.reservation_changed(reservation, None)
                    undo.append(partial(columns.reservation_changed, None, reservation))
                case GhostsGone(node=name):
                    told = {each["uid"]: build_unconfirmed_charge(each) for each in self._ghosts.get(name, ())}
                    columns.unconfirmed_changed(name, {})
                    undo.append(partial(columns.unconfirmed_changed, name, told))
                case QuotaEdit(was=was, quota=quota):
                    columns.zone_quota_changed(was, quota)
                    undo.append(partial(columns.zone_quota_changed, quota, was))
                case PodEdit():
                    pass
                case _:
                    assert_never(change)
        for pod in gone.values():
            columns.pod_changed(pod, None)
        for name, changed in nodes.items():
            columns.node_changed(changed, name)
        try:
            yield
        finally:
            for name in nodes:
                columns.node_changed(self._nodes.get(name), name)
            for pod in gone.values():
                columns.pod_changed(None, pod)
            for each in reversed(undo):
                each()


_NOWHERE: Final = TrialOutcome((), "")


def find_pods_ahead(objects: Objects, pod: Object) -> list[Object]:
    """Who waits for a node and is served before a pod: those of a higher priority, and of the same one those that came
    before it. Not its own siblings: which of them it is does not matter. At most `AHEAD_MAX`."""
    own, rank = find_workload(pod), _rank(pod)
    found = [
        each
        for each in objects.pods
        if not pod_state.get_node_name(each)
        and pod_state.is_active(each)
        and not each["spec"].get("schedulingGates")
        and _rank(each)[:2] < rank[:2]
        and find_workload(each) != own
    ]
    return sorted(found, key=_rank)[:AHEAD_MAX]


def _rank(pod: Object) -> tuple[int, float, str]:
    priority = int((pod.get("spec") or {}).get("priority") or 0)
    return -priority, pod_state.created_at(pod).timestamp(), str(pod["metadata"]["name"])


def applied(objects: Objects, pod: Object, edits: Iterable[Edit]) -> tuple[Objects, Object]:
    """The view and the pod with these changes, for `what_if`."""
    for edit in edits:
        match edit:
            case NodeEdit(name=name, edit=change):
                nodes = [change(node) for node in objects.nodes if node["metadata"]["name"] == name]
                objects = objects.with_changes(nodes=nodes)
            case NodeAdded(node=node):
                objects = objects.with_changes(nodes=[node])
            case PodsGone(pods=pods):
                objects = objects.with_changes(without_pods=[_key(each) for each in pods])
            case ReservationGone(reservation=held):
                kept = tuple(each for each in objects.reservations if _key(each) != _key(held))
                objects = replace(objects, reservations=kept)
            case GhostsGone(node=name):
                objects = replace(objects, unconfirmed=tuple(each for each in objects.unconfirmed if each[0] != name))
            case QuotaEdit(quota=quota):
                objects = objects.with_changes(zone_quotas=[quota])
            case PodEdit(edit=change):
                pod = change(pod)
            case _:
                assert_never(edit)
    return objects, pod


def _key(obj: Object) -> ObjectKey:
    return ObjectKey(obj["metadata"].get("namespace") or "", obj["metadata"]["name"])
