"""Decisions reach the server's journal: no component waits, whatever becomes of the server, and losses are counted."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec

from mainstay.client.client import Client
from mainstay.client.config import Config
from mainstay.env import Env, tasks
from mainstay.http.messages import Request, Response
from mainstay.http.server import HttpServer
from mainstay.journal.decisions import DecisionRecorder
from mainstay.journal.outbox import BATCH_BYTES
from mainstay.journal.reader import Reader
from mainstay.journal.record import DecisionRecord, LookedAt, LostRecord, MemoryRecord, Record, WhyNot, decode
from mainstay.loop.record_shipper import ASK_AGAIN_AFTER, CONTENT_TYPE, PATH, SHIP_EVERY, Shipper
from mainstay.sim.cluster.world import World
from mainstay.sim.simulation import Simulation
from tests.journal.builders import a_decision

SERVER = "server"
COMPONENT = "controllers-1"


class Server:
    """Takes what is shipped, or answers as it is told."""

    def __init__(self) -> None:
        self.taken: list[Record] = []
        self.bodies: list[int] = []
        self.refuses: Callable[[list[Record]], int] = lambda records: 0
        """The status of the answer for these records; 0: they are taken."""

    def answer(self, request: Request) -> Response:
        assert (request.method, request.path) == ("POST", PATH)
        assert request.headers.get("content-type") == CONTENT_TYPE
        records = list(decode(request.body).records)
        self.bodies.append(len(request.body))
        status = self.refuses(records)
        if not status:
            self.taken += records
        return Response(status or 200, b"", content_type="text/plain")

    @property
    def decisions(self) -> list[DecisionRecord]:
        return [each for each in self.taken if isinstance(each, DecisionRecord)]

    @property
    def lost(self) -> list[LostRecord]:
        return [each for each in self.taken if isinstance(each, LostRecord)]


@asynccontextmanager
async def shipping(sim: Simulation, **how: Any) -> AsyncIterator[tuple[Shipper, Server]]:
    server = Server()
    with sim.network.host(SERVER).active():
        http = await HttpServer.start(server.answer, "0.0.0.0", 80)
    env = sim.env(COMPONENT)
    with sim.network.host(COMPONENT).active():
        async with (
            Client(Config((f"http://{SERVER}:80",)), env) as client,
            Shipper(client, env, source=COMPONENT, **how) as shipper,
        ):
            yield shipper, server
    await http.drain(timedelta(seconds=1))


def detailed(number: int) -> DecisionRecord:
    looked_at = tuple(LookedAt("pods", "default", f"p{each}", each) for each in range(20))
    return a_decision(number=number, looked_at=looked_at, looked_at_count=20)


def marked(decision: DecisionRecord) -> DecisionRecord:
    """As the default rules keep it: in full."""
    return msgspec.structs.replace(decision, kept="actions=full")


async def test_decisions_are_with_the_server_a_moment_later_in_few_requests(sim: Simulation):
    decisions = [a_decision(number=number) for number in range(50)]
    async with shipping(sim) as (shipper, server):
        for decision in decisions:
            shipper.record(decision)
        assert server.taken == []
        await tasks.sleep(2 * SHIP_EVERY)

        assert server.taken == [marked(decision) for decision in decisions]
        assert len(server.bodies) == 1
        assert (shipper.recorded, shipper.dropped, shipper.waiting_bytes) == (50, 0, 0)


async def test_many_go_in_several_requests_of_bounded_size(sim: Simulation):
    decisions = [detailed(number) for number in range(2_000)]
    async with shipping(sim) as (shipper, server):
        for decision in decisions:
            shipper.record(decision)
        await shipper.flush()

    assert server.taken == [marked(decision) for decision in decisions]
    assert len(server.bodies) > 1
    assert max(server.bodies) < BATCH_BYTES + 10_000


async def test_what_was_decided_while_the_server_was_away_comes_when_it_is_back(sim: Simulation):
    async with shipping(sim) as (shipper, server):
        sim.network.cut(COMPONENT, SERVER)
        for number in range(10):
            shipper.record(a_decision(number=number))
            await tasks.sleep(timedelta(seconds=10))
        assert server.taken == []
        assert shipper.failures > 0
        assert shipper.last_failure

        sim.network.heal(COMPONENT, SERVER)
        await tasks.sleep(timedelta(seconds=60))

        assert [each.id for each in server.decisions] == [f"replicasets-{number}" for number in range(10)]
        assert server.lost == []


async def test_a_server_that_is_away_for_too_long_costs_detail_then_records_and_that_is_told(sim: Simulation):
    async with shipping(sim, waiting_bytes_max=10_000) as (shipper, server):
        sim.network.cut(COMPONENT, SERVER)
        for number in range(60):
            shipper.record(detailed(number))
        sim.network.heal(COMPONENT, SERVER)
        await shipper.flush()

    whole = [each for each in server.decisions if not each.why_not]
    slim = [each for each in server.decisions if each.why_not == (WhyNot.DETAIL_DROPPED,)]
    assert 0 < len(whole) < len(whole) + len(slim) == len(server.decisions) < 60
    (lost,) = server.lost
    assert lost.records == shipper.dropped == 60 - len(server.decisions)
    assert lost.details == shipper.details_dropped == 60 - len(whole)
    assert lost.source == COMPONENT


async def test_the_same_is_sent_again_when_no_answer_came(sim: Simulation):
    async with shipping(sim) as (shipper, server):
        sim.network.cut(SERVER, COMPONENT, one_way=True)
        shipper.record(a_decision(number=1))
        await tasks.sleep(timedelta(seconds=60))
        shipper.record(a_decision(number=2))
        sim.network.heal(SERVER, COMPONENT)
        await shipper.flush()

    ids = [each.id for each in server.decisions]
    assert list(dict.fromkeys(ids)) == ["replicasets-1", "replicasets-2"]
    again = [each for each in server.decisions if each.id == "replicasets-1"]
    assert again == [marked(a_decision(number=1))] * ids.count("replicasets-1")


async def test_a_server_without_a_journal_makes_the_component_keep_its_own_and_is_asked_again(sim: Simulation):
    disk = sim.get_disk(COMPONENT)
    local = DecisionRecorder(disk, sim.get_clock(COMPONENT))
    async with shipping(sim, local=local) as (shipper, server):
        server.refuses = lambda records: 404
        for number in range(5):
            shipper.record(a_decision(number=number))
        await shipper.flush()
        assert shipper.is_local
        for number in range(5, 10):
            shipper.record(a_decision(number=number))
        await shipper.flush()
        assert len(server.bodies) == 1
        assert [each.id for each in Reader(disk).decisions().records] == [f"replicasets-{each}" for each in range(10)]
        assert shipper.failures == 0

        server.refuses = lambda records: 0
        await tasks.sleep(ASK_AGAIN_AFTER)
        shipper.record(a_decision(number=10))
        await shipper.flush()

        assert [each.id for each in server.decisions] == ["replicasets-10"]
        assert not shipper.is_local


async def test_a_component_that_may_not_send_decisions_keeps_them(sim: Simulation):
    disk = sim.get_disk(COMPONENT)
    async with shipping(sim, local=DecisionRecorder(disk, sim.get_clock(COMPONENT))) as (shipper, server):
        server.refuses = lambda records: 403
        shipper.record(a_decision(number=1))
        await shipper.flush()

    assert [each.id for each in Reader(disk).decisions().records] == ["replicasets-1"]


async def test_without_a_directory_a_server_without_a_journal_is_only_asked_again(sim: Simulation):
    async with shipping(sim) as (shipper, server):
        server.refuses = lambda records: 404
        shipper.record(a_decision(number=1))
        await tasks.sleep(timedelta(minutes=10))
        assert len(server.bodies) in (2, 3, 4)
        server.refuses = lambda records: 0
        await shipper.flush()

    assert [each.id for each in server.decisions] == ["replicasets-1"]


async def test_a_directory_that_another_process_uses_does_not_stop_the_component(sim: Simulation):
    disk, clock = sim.get_disk(COMPONENT), sim.get_clock(COMPONENT)
    await DecisionRecorder(disk, clock).start()
    async with shipping(sim, local=DecisionRecorder(disk, clock)) as (shipper, server):
        server.refuses = lambda records: 404
        shipper.record(a_decision(number=1))
        await tasks.sleep(timedelta(minutes=1))
        server.refuses = lambda records: 0
        await shipper.flush()

    assert [each.id for each in server.decisions] == ["replicasets-1"]


async def test_one_record_that_the_server_does_not_take_does_not_hold_up_the_others(sim: Simulation):
    async with shipping(sim) as (shipper, server):
        server.refuses = lambda records: 400 if any(each.id == "replicasets-7" for each in _decisions(records)) else 0
        for number in range(20):
            shipper.record(a_decision(number=number))
        await shipper.flush()
        shipper.record(a_decision(number=20))
        await shipper.flush()

    ids = [each.id for each in server.decisions]
    assert ids == [f"replicasets-{number}" for number in range(21) if number != 7]
    assert shipper.dropped == 1
    assert [each.records for each in server.lost] == [1]


async def test_requests_that_are_too_large_are_made_smaller(sim: Simulation):
    async with shipping(sim) as (shipper, server):
        server.refuses = lambda records: 413 if len(records) > 3 else 0
        for number in range(20):
            shipper.record(a_decision(number=number))
        await shipper.flush()

    assert [each.id for each in server.decisions] == [f"replicasets-{number}" for number in range(20)]
    assert shipper.dropped == 0


async def test_a_large_memory_goes_along_now_and_then(sim: Simulation):
    content = b"m" * 5_000
    async with shipping(sim) as (shipper, server):
        memories = [shipper.remember("node-health", content) for _ in range(3)]
        for number, memory in enumerate(memories):
            shipper.record(a_decision(number=number, memory=memory))
        await shipper.flush()

    (kept,) = [each for each in server.taken if isinstance(each, MemoryRecord)]
    assert (kept.content, kept.component) == (content, "node-health")
    assert {each.memory.digest for each in server.decisions} == {kept.digest}


async def test_closing_sends_what_is_waiting_and_does_not_wait_for_ever(sim: Simulation):
    async with shipping(sim) as (shipper, server):
        shipper.record(a_decision(number=1))
    assert [each.id for each in server.decisions] == ["replicasets-1"]

    began = sim.loop.time()
    async with shipping(sim) as (shipper, server):
        sim.network.cut(COMPONENT, SERVER)
        shipper.record(a_decision(number=2))
    assert sim.loop.time() - began < 20


# To real servers.


async def shipped_through_faults(sim: Simulation) -> list[str]:
    """A component decides ten times a second, while one of two servers crashes and comes back and links are cut."""
    world = World(sim, journal=True)
    for number in range(2):
        world.add_server(f"server-{number}")

    async def component(env: Env) -> None:
        async with world.client_for(COMPONENT, env) as client, Shipper(client, env, source=COMPONENT) as shipper:
            for number in range(600):
                shipper.record(a_decision(number=number))
                await tasks.sleep(timedelta(milliseconds=100))
            await shipper.flush()

    world.add_program(COMPONENT, component)
    await world.boot()
    for _ in range(3):
        await tasks.sleep(timedelta(seconds=5))
        world.servers["server-0"].crash()
        await tasks.sleep(timedelta(seconds=3))
        world.servers["server-0"].start()
        sim.network.cut(COMPONENT, "server-1")
        await tasks.sleep(timedelta(seconds=10))
        sim.network.heal_all()
    await tasks.sleep(timedelta(minutes=2))
    assert world.journal is not None
    await world.stop()
    return [each.id for each in world.journal.records() if each.component == "replicasets"]


async def test_servers_that_come_and_go_lose_nothing(sim: Simulation):
    assert sorted(await shipped_through_faults(sim)) == sorted(f"replicasets-{number}" for number in range(600))


def test_shipping_is_the_same_in_every_run_with_one_seed():
    def once() -> tuple[list[str], str]:
        simulation = Simulation(seed=3)
        ids = simulation.run(shipped_through_faults(simulation), limit=timedelta(hours=1))
        return ids, simulation.trace.digest

    assert once() == once()


def _decisions(records: list[Record]) -> list[DecisionRecord]:
    return [each for each in records if isinstance(each, DecisionRecord)]
