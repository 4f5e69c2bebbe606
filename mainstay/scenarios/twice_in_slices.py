"""Members are written into slices, and a group is looked at again before its last slice is in the cache.

Each member of a group must stand in one of its slices, once. Several groups share one cache of slices, in which the
writes for one show up between those for another: having seen something is not having seen one's own.
(kubernetes #100033)
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import CONFIG_MAPS, ENDPOINT_SLICES
from mainstay.api.object_key import ObjectKey
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists
from mainstay.client.indexes import OWNER
from mainstay.loop.controller import Controller, Reads, owner, reference_to
from mainstay.loop.decision import Action, Create, Decision, Delete, Patch
from mainstay.loop.freshness import Freshness
from mainstay.loop.view import View
from mainstay.scenarios._batch import FAULTS, BatchMemory, next_number
from mainstay.scenarios._stages import NAMESPACE, SILENCE, UserStage
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.count import Count
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

GROUPS: Final = CONFIG_MAPS
SLICES: Final = ENDPOINT_SLICES
GROUP_NAMES: Final = ("group-1", "group-2", "group-3")
MEMBERS: Final = tuple(f"10.0.0.{number}" for number in range(1, 9))
PER_SLICE: Final = 3


class Slicing(Controller):
    """Names its slices by counting on, as in _batch.py."""

    name = "slicing"
    kind = GROUPS
    reads = (Reads(SLICES, wakes=owner(GROUPS), indexes=(OWNER,)),)
    writes = (SLICES,)

    def decide(self, view: View, key: ObjectKey, memory: BatchMemory | None) -> Decision:
        group = view.get(GROUPS, key)
        if group is None:
            return Decision()
        uid = group["metadata"]["uid"]
        slices = view.owned_by(SLICES, uid)
        made = next_number(slices, memory.count if memory is not None and memory.uid == uid else 0)
        wanted = list_members(group)
        listed = dict.fromkeys(member for each in slices for member in listed_in(each))
        missing = [member for member in wanted if member not in listed]
        actions: list[Action] = []
        for each in slices:
            kept = [member for member in listed_in(each) if member in wanted]
            room = PER_SLICE - len(kept)
            filled, missing = [*kept, *missing[:room]], missing[room:]
            if filled != listed_in(each):
                actions.append(_rewritten(each, filled))
        for start in range(0, len(missing), PER_SLICE):
            actions.append(Create(SLICES, _a_slice(group, made, missing[start : start + PER_SLICE])))
            made += 1
        return Decision(actions=tuple(actions), memory=BatchMemory(uid, made))


def list_members(group: Object) -> list[str]:
    return str((group.get("data") or {}).get("members", "")).split()


def listed_in(piece: Object) -> list[str]:
    return [endpoint["addresses"][0] for endpoint in piece.get("endpoints") or ()]


def _rewritten(piece: Object, members: list[str]) -> Action:
    metadata = piece["metadata"]
    key = ObjectKey(metadata["namespace"], metadata["name"])
    version = metadata["resourceVersion"]
    if not members:
        return Delete(SLICES, key, metadata["uid"], resource_version=version, freshness=Freshness.SEEN_VERSION)
    return Patch(
        SLICES,
        key,
        metadata["uid"],
        {"endpoints": _endpoints(members)},
        resource_version=version,
        freshness=Freshness.SEEN_VERSION,
    )


def _a_slice(group: Object, number: int, members: list[str]) -> Object:
    metadata = group["metadata"]
    return {
        "metadata": {
            "name": f"{metadata['name']}-{metadata['uid'][:6]}-{number}",
            "namespace": metadata["namespace"],
            "ownerReferences": [reference_to(group, GROUPS)],
        },
        "addressType": "IPv4",
        "endpoints": _endpoints(members),
    }


def _endpoints(members: list[str]) -> list[Object]:
    return [{"addresses": [member]} for member in members]


class TwiceInSlices(UserStage):
    turn_every = timedelta(milliseconds=500)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_controller(Slicing(), "controller")

    async def turn(self, client: Client) -> None:
        name = GROUP_NAMES[self.choose("which group", len(GROUP_NAMES))]
        chosen = " ".join(member for member in MEMBERS if self.choose("member", 2))
        made = {"metadata": {"name": name, "namespace": NAMESPACE}, "data": {"members": chosen}}
        try:
            await client.create(GROUPS, made)
        except AlreadyExists:
            await client.replace(GROUPS, made)


def each_member_once() -> Count:
    def wants(group: Object) -> Mapping[str, int]:
        return {f"{group['metadata']['uid']}/{member}": 1 for member in list_members(group)}

    def belongs_to(piece: Object) -> Iterable[str]:
        owners = piece["metadata"]["ownerReferences"]
        return [f"{owners[0]['uid']}/{member}" for member in listed_in(piece)]

    return Count("core/configmaps/", "discovery.k8s.io/endpointslices/", wants, belongs_to)


SCENARIO: Final = Scenario(
    name="twice-in-slices",
    about="Groups change faster than their slices are observed: no member is in two slices, or in none at the end.",
    make=TwiceInSlices,
    checkers=lambda: [WatchContract(), AcknowledgedWrites(), each_member_once()],
    faults=FAULTS,
    silence=SILENCE,
    ids=("12",),
)
