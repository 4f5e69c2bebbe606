"""A leader loses its lease without giving it back: it stands still, or cannot reach the servers, for longer than that.

The dangerous moment is when it goes on: it still believes that it leads. Who leads is read from the leases in the
store. The name of a holder begins with the name of its program.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from mainstay.sim.active_faults import release_all
from mainstay.sim.faults import choose_one, victim

if TYPE_CHECKING:
    from mainstay.sim.cluster.program_lifecycle import Program
    from mainstay.sim.cluster.world import World

LEASES: Final = "coordination.k8s.io/leases/"
NODE_LEASES: Final = f"{LEASES}kube-node-lease/"
# Beyond the end of the lease: just so that another one takes over, or well into its term.
LONGER: Final = tuple(timedelta(seconds=seconds) for seconds in (3, 8, 20))


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None


class _Lease(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


_decoder = msgspec.json.Decoder(_Lease)


class LeaderLoss:
    name = "leader-loss"
    about = "a leader is paused or partitioned from all servers until its lease expires"

    def strike(self, world: "World") -> None:
        world.faults.spawn(self._strike(world, world.faults.aimed_at), "leader loss")

    async def _strike(self, world: "World", aimed_at: str) -> None:
        leaders = await find_leaders(world)
        if not leaders:
            return
        program, lease_duration = leaders[victim(world, self.name, list(leaders), aimed_at)]
        duration = lease_duration + choose_one(world, "fault/leader-loss/longer", LONGER)
        if choose_one(world, "fault/leader-loss/cut", (False, True)):
            world.faults.note(f"the leader {program.name} is partitioned for {duration}")
            heal = release_all([world.sim.network.cut(program.name, server) for server in world.servers])
            world.faults.undo_after(duration, f"cut of {program.name}", heal)
        else:
            world.faults.note(f"the leader {program.name} is paused for {duration}")
            program.pause(duration)


async def find_leaders(world: "World") -> "dict[str, tuple[Program, timedelta]]":
    """The programs that hold a lease, by name, and for how long one of theirs lasts."""
    leaders: dict[str, tuple[Program, timedelta]] = {}
    for entry in (await world.store.range(LEASES)).entries:
        if entry.key.startswith(NODE_LEASES):
            continue
        spec = _decoder.decode(entry.value).spec
        holder = spec.holder_identity or ""
        for program in world.targets():
            if holder == program.name or holder.startswith(f"{program.name}_"):
                leaders[program.name] = program, timedelta(seconds=spec.lease_duration_seconds or 15)
    return leaders
