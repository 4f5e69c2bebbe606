"""The journal behind a server: the same answers as from its files, and errors that say what to do."""

from datetime import timedelta

import msgspec
import pytest

from mainstay.api.kind_names import CONFIG_MAPS
from mainstay.api.object_key import ObjectKey
from mainstay.client.client import Client
from mainstay.client.config import Config
from mainstay.client.errors import ApiError, BadRequest
from mainstay.client.remote_journal import RemoteJournal
from mainstay.env import tasks
from mainstay.journal import wire
from mainstay.journal.answers import Changes, Decisions, Extent, StateAnswer, StoredVersion, WritesAnswer
from mainstay.journal.coverage import Gap, GapReason
from mainstay.journal.errors import JournalUnreachable
from mainstay.journal.joint_journal import JointJournal, JournalMember
from mainstay.journal.record import (
    ChangeRecord,
    LostRecord,
    MemoryRecord,
    RecordedMemory,
    WriteRecord,
    compute_digest,
    encode,
    moment,
)
from mainstay.journal.scan import Damage
from mainstay.sim.cluster.world import World
from mainstay.sim.simulation import Simulation
from tests.journal.builders import AT, a_decision
from tests.server.decisions.journal_world import a_configmap, a_journaled_server

GAPS = (Gap(3, 7, GapReason.MISSED),)
DAMAGES = (Damage("history-1.open", "cut off", ((3, 4),)),)


def test_every_answer_comes_back_from_the_wire_as_it_was():
    objects = {ObjectKey("a", "web"): StoredVersion(7, b'{"x":1}'), ObjectKey("", "node"): StoredVersion(8, b"{}")}
    state = StateAnswer(GAPS, DAMAGES, {"pods": objects, "nodes": {}}, 5)
    extent = Extent(GAPS, DAMAGES, ((0, 3), (7, 9)), AT, AT + 5)
    changes = Changes(GAPS, DAMAGES, (ChangeRecord(3, "core/pods/a/web", None, AT, "d-1", "pods/a/web@2"),))
    decisions = Decisions((), DAMAGES, (a_decision(number=1), a_decision(number=2)), (LostRecord(1, 2, 3, 4),))
    writes = WritesAnswer((), DAMAGES, (WriteRecord(3, "pods", "a", "web", AT, "create", "ann"),))

    assert wire.state_in(wire.state_page(state)) == state
    assert wire.extent_in(wire.extent_page(extent)) == extent
    assert wire.changes_in(wire.changes_page(changes)) == changes
    assert wire.decisions_in(wire.decisions_page(decisions)) == decisions
    assert wire.writes_in(wire.writes_page(writes)) == writes
    assert wire.decision_in(wire.decision_page(a_decision())) == a_decision()
    assert wire.decision_in(wire.decision_page(None)) is None
    assert [wire.memory_in(wire.memory_page(each)) for each in (b"", b"x", None)] == [b"", b"x", None]


def test_what_is_asked_for_comes_back_from_the_query_as_it_was():
    wanted = {
        "kind": "pods", "namespace": "", "name": "web", "after": 3, "until": 9,
        "since": moment(AT), "before": moment(AT + 7), "limit": 5,
    }  # fmt: skip

    assert wire.wanted_in("writes", wire.build_query(wanted)) == wanted
    assert wire.build_query({"kind": "", "namespace": None, "name": "", "until": None}) == []
    assert wire.vector_in([value for _, value in wire.vector_query({"pods": 3, "x.y.z": 4})]) == {"pods": 3, "x.y.z": 4}


@pytest.mark.parametrize("pairs", [[("uid", "x")], [("after", "x")], [("after", "-1")], [("more", "1")]])
def test_a_query_that_makes_no_sense_is_refused(pairs: list[tuple[str, str]]):
    with pytest.raises(wire.BadPage):
        wire.wanted_in("changes", pairs)


def test_what_is_compressed_comes_back_and_a_bomb_is_refused_before_it_goes_off():
    page = b"x" * 10_000
    small, name = wire.compressed(page, f"{wire.COMPRESSED}, {wire.RECORDS}")

    assert (len(small) < 100, wire.plain(small, name)) == (True, page)
    assert wire.compressed(page, None) == (page, wire.RECORDS)
    with pytest.raises(wire.BadPage, match="larger than 5000"):
        wire.plain(small, name, 5_000)
    with pytest.raises(wire.BadPage):
        wire.plain(b"nonsense", wire.COMPRESSED)


async def test_history_can_be_asked_for_at_once_after_a_write(sim: Simulation):
    async with a_journaled_server(sim) as served:
        made = await served.admin.create(CONFIG_MAPS, a_configmap("one", colour="red"))
        await served.admin.patch(CONFIG_MAPS, "one", "default", {"data": {"colour": "blue"}})
        first = int(made["metadata"]["resourceVersion"])

        extent = await served.journal.extent()
        then = await served.journal.state({"configmaps": first})
        now = await served.journal.state({"configmaps": extent.reached})
        changes = await served.journal.changes(kind="configmaps", namespace="default", name="one")

    assert extent.reached > first
    one = ObjectKey("default", "one")
    assert then.kinds["configmaps"][one].decoded()["data"] == {"colour": "red"}
    assert now.kinds["configmaps"][one].decoded()["data"] == {"colour": "blue"}
    assert now.is_complete
    assert [change.revision for change in changes.records] == [first, first + 1]


async def test_decisions_that_components_tell_of_can_be_asked_for(sim: Simulation):
    memory = b"m" * 5_000
    large = a_decision("api", 3, memory=RecordedMemory(len(memory), digest=compute_digest(memory)), kept="actions=full")
    async with a_journaled_server(sim) as served:
        remembered = MemoryRecord("replicasets", compute_digest(memory), AT, memory)
        await served.tell([a_decision("web", 1), a_decision("web", 2), remembered, large, LostRecord(AT, AT + 9, 4, 0)])
        journal = served.journal

        about = await journal.decisions(kind="replicasets.apps", namespace="default", name="web", limit=1)
        all_of_them = await journal.decisions(component="replicasets")

        assert about.records == (a_decision("web", 2, kept="actions=full"),)
        assert [each.id for each in all_of_them.records] == ["replicasets-1", "replicasets-2", "replicasets-3"]
        assert (all_of_them.lost, all_of_them.is_complete) == ((LostRecord(AT, AT + 9, 4, 0),), False)
        assert await journal.decision("replicasets-3") == large
        assert await journal.decision("replicasets-4") is None
        assert await journal.memory(large) == memory
        assert await journal.memory(a_decision(memory=RecordedMemory(9_999, digest=b"x" * 16))) is None
        assert await journal.memory(a_decision()) == b""


async def test_a_server_without_a_journal_says_so_and_what_to_do(sim: Simulation):
    async with a_journaled_server(sim, has_journal=False) as served:
        with pytest.raises(JournalUnreachable, match=r"the server http://server:6443 keeps no journal.*--no-journal"):
            await served.journal.extent()


async def test_only_administrators_read_the_pages(sim: Simulation):
    async with a_journaled_server(sim) as served:
        for who in ("alice", "node-a"):
            with pytest.raises(JournalUnreachable, match=r"denies access.*cannot get path.*administrator"):
                await RemoteJournal(served.clients[who]).extent()


async def test_a_server_that_cannot_be_reached_is_told_apart_from_one_that_refuses(sim: Simulation):
    with sim.network.host("client").active():
        async with Client(Config(("http://nowhere:6443",)), sim.env("client")) as client:
            with pytest.raises(
                JournalUnreachable, match=r"cannot reach the server http://nowhere:6443: .*; check that"
            ):
                await RemoteJournal(client).extent()


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("changes?after=x", "must be an integer"),
        ("changes?uid=x", "does not support the parameter 'uid'"),
        ("state?at=pods", "KIND@REVISION"),
        ("state?kind=pods", "unknown parameter 'kind'"),
        ("decision", "id must be given exactly once"),
        ("memory?digest=xyz", "is not a digest"),
    ],
)
async def test_a_page_that_is_asked_wrongly_says_how_to_ask(sim: Simulation, target: str, text: str):
    async with a_journaled_server(sim) as served:
        with pytest.raises(BadRequest, match=text):
            await served.admin.request("GET", f"/journal/{target}")


async def test_there_are_no_other_pages_and_no_other_methods(sim: Simulation):
    async with a_journaled_server(sim) as served:
        for method, page, status in (("GET", "x", 404), ("DELETE", "decisions", 405), ("POST", "extent", 405)):
            with pytest.raises(ApiError) as refused:
                await served.admin.request(method, f"/journal/{page}")
            assert refused.value.status == status


async def test_two_servers_are_asked_together_and_a_dead_one_is_told_of(sim: Simulation):
    world = World(sim, journal=True)
    world.add_server("server-1")
    world.know("admin")
    await world.boot()
    with sim.network.host("admin").active():
        async with (
            world.client_for("admin", sim.env("admin")) as client,
            Client(Config(("http://dead:6443",)), sim.env("admin")) as dead,
        ):
            assert world.journal is not None
            world.journal.decided(a_decision())
            await client.create(CONFIG_MAPS, a_configmap("one"))
            members = [JournalMember("dead", RemoteJournal(dead)), JournalMember("alive", RemoteJournal(client))]

            async def find_members() -> list[JournalMember]:
                return members

            journal = JointJournal(find_members)

            extent = await journal.extent()
            decisions = await journal.decisions()
            changes = await journal.changes(kind="configmaps")

    assert (extent.reached > 0, [each.id for each in decisions.records]) == (True, ["replicasets-1"])
    assert (decisions.is_complete, decisions.damages[0].file) == (False, "dead")
    assert len(changes.records) == 1
    await world.stop()


async def test_large_answers_are_compressed_on_the_way(sim: Simulation):
    async with a_journaled_server(sim) as served:
        for number in range(20):
            await served.admin.create(CONFIG_MAPS, a_configmap(f"c{number}", text="x" * 2_000))
        await served.journal.extent()
        response = await served.admin.request(
            "GET", "/journal/changes?kind=configmaps", headers={"Accept": wire.COMPRESSED}
        )

    assert response.headers["content-type"] == wire.COMPRESSED
    assert len(response.body) < 10_000
    assert len(wire.changes_in(wire.plain(response.body, wire.COMPRESSED)).records) >= 20


def test_an_answer_with_a_record_of_a_newer_version_is_read_as_far_as_it_is_known():
    newer = msgspec.msgpack.encode([[], [], [["zz", 1, 2], msgspec.Raw(encode(a_decision()))]])

    assert [each.id for each in wire.decisions_in(newer).records] == ["replicasets-1"]


async def test_catching_up_gives_up_on_a_disk_that_does_not_take_it(sim: Simulation):
    async with a_journaled_server(sim) as served:
        await served.journal.extent()
        sim.get_disk("journal").capacity_bytes = 0
        await served.admin.create(CONFIG_MAPS, a_configmap("one"))
        began_ns = sim.loop.time_ns()
        extent = await served.journal.extent()
        waited = timedelta(microseconds=(sim.loop.time_ns() - began_ns) // 1000)
        sim.get_disk("journal").capacity_bytes = None
        await tasks.sleep(timedelta(seconds=3))
        later = await served.journal.extent()

    assert timedelta(seconds=4) < waited < timedelta(seconds=8)
    assert later.reached > extent.reached
