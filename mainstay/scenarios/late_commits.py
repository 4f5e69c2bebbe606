"""What a server has read is old when it commits, because the store is slow: another write was faster, or the same one.

Four races, each about another key than the one that is written:

- a pod is bound to the room of a reservation, while that expires. Another reservation on the node must keep its room;
- a binding is delivered twice at the same time: both are told that it is bound;
- a graceful deletion is repeated after its pod is gone, and another of its name is there: that one stays;
- a recount is about to charge a pod to its node, while the pod ends: what has ended takes nothing.

Users do this one after the other, under servers that crash and pause, and two requests of a user overlap. (SPEC T2)
"""

from collections.abc import Awaitable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from mainstay.api import pod_state
from mainstay.api.annotations import RESERVATION
from mainstay.api.kind import Object
from mainstay.api.kind_names import NODES, PODS, RESERVATIONS
from mainstay.api.reservations import reservation_name
from mainstay.api.times import format_time
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, Conflict
from mainstay.env import tasks
from mainstay.scenarios._schedulers import a_pod, add_node, end_pod
from mainstay.scenarios._stages import NAMESPACE, SERVERS, USER, UserStage
from mainstay.server.placement.ledger.charge import charge_key, decode_charge
from mainstay.server.placement.ledger.ledger import LedgerMismatch, build_write, ledger_in, ledger_key, released
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.decoded import decode_commit
from mainstay.sim.checkers.reserved import Reserved
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario
from mainstay.store.interface import Check, DeleteEntry

NAME: Final = "late commits"
NODE: Final = "node-1"
CPU: Final = "100m"
SOON: Final = timedelta(seconds=3)
"""How long the shorter reservations are for, at most."""
LATER: Final = timedelta(days=1)
A_LITTLE: Final = timedelta(milliseconds=100)


class LateCommits(UserStage):
    turn_every = timedelta(milliseconds=500)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._turns = 0
        self._problems: list[str] = []

    async def prepare(self, client: Client) -> None:
        await add_node(client, NODE, cpu="100", pods="1000")

    async def turn(self, client: Client) -> None:
        self._turns += 1
        if self.choose("slow", 3) == 2:
            self.world.faults.strike("slow-store", SERVERS[self.choose("slow for", len(SERVERS))])
        match self.choose("what", 4):
            case 0:
                await self._bind_as_time_runs_out(client)
            case 1:
                await self._bind_twice(client)
            case 2:
                await self._delete_again(client)
            case _:
                await self._recount_what_ends(client)

    async def check(self) -> None:
        for problem in self._problems:
            raise Violated(NAME, problem)

    async def _bind_as_time_runs_out(self, client: Client) -> None:
        clock = self.world.sim.env(USER).clock
        await self._reserve(client, "longer", clock.wall() + LATER)
        # To the second, as times in objects are.
        expires = (clock.wall() + SOON).replace(microsecond=0)
        pod = a_pod(f"reserved-{self._turns}", {RESERVATION: await self._reserve(client, "shorter", expires)}, cpu=CPU)
        await client.create(PODS, pod)
        begins = expires - A_LITTLE * self.choose("before it expires", 10)
        await tasks.sleep(max(begins - clock.wall(), timedelta()))
        await _bind(client, pod)

    async def _reserve(self, client: Client, intent: str, expires: datetime) -> str:
        workload = {"kind": "Pod", "name": "work", "uid": f"uid-{self._turns}"}
        spec = {
            "nodeName": NODE,
            "workload": workload,
            "generation": 1,
            "intent": intent,
            "resources": {"cpu": CPU},
            "expiresAt": format_time(expires),
        }
        name = reservation_name(workload, 1, intent)
        await client.create(RESERVATIONS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
        return name

    async def _bind_twice(self, client: Client) -> None:
        pod = a_pod(f"once-{self._turns}", cpu=CPU)
        await client.create(PODS, pod)
        write = WriteOptions(operation=f"bind-{self._turns}")
        after = A_LITTLE * self.choose("again after", 6)
        await self._overlap(_bind(client, pod, write), _later(after, _bind(client, pod, write)))

    async def _overlap(self, *requests: Awaitable[object]) -> None:
        """Several requests at the same time. A conflict says that a write has met itself."""

        async def wait_for(request: Awaitable[object]) -> None:
            try:
                await request
            except Conflict as error:
                self._problems.append(f"a write was refused because of its own repetition: {error}")
            except ApiError:
                pass  # A server is away.

        await tasks.together([wait_for(each) for each in requests], name="overlapping")

    async def _delete_again(self, client: Client) -> None:
        pod = a_pod(f"again-{self._turns}", cpu=CPU)
        name, write = pod["metadata"]["name"], WriteOptions(operation=f"delete-{self._turns}")
        await client.create(PODS, pod)
        await _bind(client, pod)
        await client.delete(PODS, name, NAMESPACE, write=write)
        await end_pod(client, name)
        await client.create(PODS, pod)
        await _bind(client, pod)
        await client.delete(PODS, name, NAMESPACE, write=write)

    async def _recount_what_ends(self, client: Client) -> None:
        pod = a_pod(f"ends-{self._turns}", cpu=CPU)
        name = pod["metadata"]["name"]
        await client.create(PODS, pod)
        await _bind(client, pod)
        await self._spoil(name)
        over = {"status": {"phase": "Succeeded"}}
        after = A_LITTLE * self.choose("ends after", 6)
        await self._overlap(
            client.request("POST", NODES.path("", NODE, "recount")),
            _later(after, client.patch(PODS, name, NAMESPACE, over, subresource="status")),
        )
        await self._require_uncharged(name)

    async def _spoil(self, name: str) -> None:
        """A mistake, or a hand in the store: a pod that is on the node is not charged to it any more."""
        store = self.world.store
        charge, ledger = await store.get(charge_key(NAMESPACE, name)), await store.get(ledger_key(NODE))
        if charge is None or ledger is None:
            return
        with suppress(LedgerMismatch):
            less = released(ledger_in(ledger), decode_charge(charge.value))
            checks = [Check(charge.key, charge.revision), Check(ledger.key, ledger.revision)]
            await self.world.commit(checks, [DeleteEntry(charge.key), build_write(ledger.key, less, ledger)])

    async def _require_uncharged(self, name: str) -> None:
        revision = await self.world.store.revision()
        pod = await self.world.store.get(f"core/pods/{NAMESPACE}/{name}", at=revision)
        charge = await self.world.store.get(charge_key(NAMESPACE, name), at=revision)
        if pod is not None and pod_state.is_over(decode_commit(pod.value)) and charge is not None:
            self._problems.append(f"pod {name} has ended, but {NODE} is charged for it")


async def _bind(client: Client, pod: Object, write: WriteOptions | None = None) -> None:
    binding = {"metadata": {"name": pod["metadata"]["name"]}, "target": {"kind": "Node", "name": NODE}}
    await client.create(PODS, binding, NAMESPACE, subresource="binding", write=write or WriteOptions())


async def _later(after: timedelta, request: Awaitable[object]) -> object:
    await tasks.sleep(after)
    return await request


SCENARIO: Final = Scenario(
    name="late-commits",
    about="The store is slow: what a server has decided from is a condition of its commit, at whichever key.",
    make=LateCommits,
    checkers=lambda: [AcknowledgedWrites(), Reserved()],
    unchecked=("capacity",),  # Ledgers are made wrong here, for recounts to put them right.
    faults=("slow-store", "server-crash", "server-pause", "server-behind"),
    ids=("T2", "W4"),
)
