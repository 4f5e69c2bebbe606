"""Each fault does what it says, once, to the outside of a program; and nothing happens where nothing was chosen."""

import pytest

from mainstay.api.kind_names import CONFIG_MAPS, LEASES
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, ApiError, Unavailable
from mainstay.env import Env, tasks
from mainstay.sim.cluster.history import (
    FaultInjected,
    ProgramCrashed,
    ProgramStarted,
    RequestReceived,
    ResponseSent,
    RevisionCommitted,
)
from mainstay.sim.cluster.world import World
from mainstay.sim.faults import fits
from mainstay.sim.faults.leader_loss import LeaderLoss, find_leaders
from mainstay.sim.faults.schedule import ALL, AT_EVENT, AT_WRITE, NAMES, TIMED
from mainstay.sim.run.choices import Choice, Tape
from mainstay.sim.simulation import Simulation
from tests.sim.fault_scene import Scene, a_configmap, a_scene, run, seconds

pytestmark = pytest.mark.slow


@pytest.fixture
def quiet() -> Simulation:
    """A simulation in which every choice is benign, that is the mildest."""
    return Simulation(tape=Tape())


async def two_writes(client: Client) -> None:
    """In order, each made sure of, as a program that can be restarted anywhere does."""
    for name in ("first", "second"):
        while True:
            try:
                await client.create(CONFIG_MAPS, a_configmap(name), "default")
            except AlreadyExists:
                break
            except ApiError:
                await tasks.sleep(seconds(0.1))
            else:
                break


def commits(scene: Scene) -> list[str]:
    events = scene.world.history.events
    return [
        each.key.rpartition("/")[2]
        for each in events
        if isinstance(each, RevisionCommitted) and "configmaps" in each.key
    ]


def test_nothing_happens_in_a_run_in_which_everything_is_benign(quiet: Simulation):
    async def scene() -> None:
        async with a_scene(quiet) as it:
            it.world.faults.start()
            for number in range(10):
                await it.write(f"map-{number}")
                await tasks.sleep(seconds(5))
            assert it.faults() == []

    run(quiet, scene)


def test_each_write_and_each_delivery_asks_whether_something_goes_wrong(quiet: Simulation):
    async def scene() -> None:
        async with a_scene(quiet) as it:
            it.world.faults.start(each_by_chance=False)
            await it.write("one")
            await it.write("two")
            await tasks.sleep(seconds(3))
            asked = [(choice.label, choice.ordinal) for choice in quiet.tape if choice.label.startswith("fault/")]
            per_write = [(f"fault/{name}/worker", ordinal) for ordinal in (0, 1) for name in AT_WRITE if name in NAMES]
            per_event = [(f"fault/{name}/worker", ordinal) for ordinal in (0, 1) for name in AT_EVENT if name in NAMES]
            possible = [name for name, fault in TIMED.items() if name in NAMES and fits(fault, it.world)]
            per_beat = [(f"fault/{name}", 0) for name in possible]
            assert sorted(asked) == sorted(per_write + per_event + per_beat)

    run(quiet, scene)


def test_a_tape_of_one_entry_hits_exactly_one_write():
    sim = Simulation(tape=Tape([Choice("fault/answer-lost/worker", 1, 2, 1)]))

    async def scene() -> None:
        async with a_scene(sim) as it:
            it.world.faults.start(each_by_chance=False)
            await it.write("one")
            with pytest.raises(Unavailable) as raised:
                await it.write("two")
            await it.write("three")
            assert raised.value.may_have_happened
            assert await it.exists("two")
            assert len(it.faults()) == 1

    run(sim, scene)


def test_a_lost_request_has_not_happened(quiet: Simulation):
    async def scene() -> None:
        async with a_scene(quiet) as it:
            it.world.faults.at_write("worker", 1, "request-lost")
            with pytest.raises(Unavailable):
                await it.write("one")
            assert not await it.exists("one")
            await it.write("two")

    run(quiet, scene)


def test_a_lost_answer_was_given_and_its_write_has_happened(quiet: Simulation):
    async def scene() -> None:
        async with a_scene(quiet) as it:
            it.world.faults.at_write("worker", 1, "answer-lost")
            with pytest.raises(Unavailable):
                await it.write("one")
            assert await it.exists("one")
            answers = [each for each in it.world.history.events if isinstance(each, ResponseSent) and each.revision]
            assert [(each.status, each.is_delivered) for each in answers] == [(201, False)]

    run(quiet, scene)


@pytest.mark.parametrize(("fault", "happened"), [("request-lost", False), ("answer-lost", True)])
def test_what_is_lost_silently_is_noticed_only_when_patience_ends(fault: str, happened: bool):
    sim = Simulation(tape=Tape([Choice(f"fault/{fault}/silently", 0, 2, 1)]))

    async def scene() -> None:
        async with a_scene(sim) as it:
            it.world.faults.at_write("worker", 1, fault)
            began = sim.loop.time()
            with pytest.raises(Unavailable):
                await it.write("one")
            assert sim.loop.time() - began >= 10
            assert await it.exists("one") is happened

    run(sim, scene)


@pytest.mark.parametrize(
    ("fault", "nth", "left_behind"),
    [
        ("crash-before", 1, []),
        ("crash-after", 1, ["first"]),
        ("crash-before", 2, ["first"]),
        ("crash-after", 2, ["first", "second"]),
    ],
)
def test_a_crash_between_writes_leaves_what_was_committed_and_no_more(
    quiet: Simulation, fault: str, nth: int, left_behind: list[str]
):
    async def scene() -> None:
        world = World(quiet)
        world.add_server("server-0")

        async def main(env: Env) -> None:
            async with world.client_for("worker", env) as client:
                try:
                    await two_writes(client)
                finally:
                    if nth:  # A program that is dead must not do this.
                        await client.create(CONFIG_MAPS, a_configmap("in-finally"), "default")

        world.faults.at_write("worker", nth, fault)
        world.add_program("worker", main)
        await world.boot()
        await tasks.sleep(seconds(0.4))

        events = world.history.events
        done = [
            each.key.rpartition("/")[2] for each in events if isinstance(each, RevisionCommitted) and "maps" in each.key
        ]
        crashed = next(each for each in events if isinstance(each, ProgramCrashed))
        assert done == left_behind
        assert not any(isinstance(each, RequestReceived) for each in events[events.index(crashed) :])

    run(quiet, scene)


def test_a_program_that_crashed_at_a_write_is_started_again_and_goes_on(quiet: Simulation):
    async def scene() -> None:
        async with a_scene(quiet, two_writes) as it:
            assert commits(it) == ["first", "second"]
            assert [each.incarnation for each in it.world.history.events if isinstance(each, ProgramCrashed)] == []
            it.world.faults.at_write("worker", it.world.faults.count_writes("worker") + 1, "crash-after")
            it.world.programs["worker"].crash()
            it.world.programs["worker"].start()
            await tasks.sleep(seconds(5))
            started = [
                each
                for each in it.world.history.events
                if isinstance(each, ProgramStarted) and each.program == "worker"
            ]
            assert [each.incarnation for each in started] == [0, 1, 2]

    run(quiet, scene)


def test_a_late_watch_delivers_everything_later_in_order():
    sim = Simulation(
        tape=Tape([Choice("fault/watch-delay/worker", 1, 2, 1), Choice("fault/watch-delay/duration", 0, 7, 4)])
    )

    async def scene() -> None:
        async with a_scene(sim) as it:
            it.world.faults.start(["watch-delay"], each_by_chance=False)
            for name in ("one", "two", "three"):
                await it.admin.create(CONFIG_MAPS, a_configmap(name), "default")
            await tasks.sleep(seconds(5))
            assert it.known() == ["one"]
            await tasks.sleep(seconds(6))
            assert it.known() == ["one", "three", "two"]
            assert it.informers[-1].counters.disconnects == 0

    run(sim, scene)


@pytest.mark.parametrize("how", [0, 1])
def test_a_watch_that_ends_is_begun_again_and_nothing_is_missed(how: int):
    sim = Simulation(
        tape=Tape([Choice("fault/watch-disconnect/worker", 1, 2, 1), Choice("fault/watch-disconnect/how", 0, 2, how)])
    )

    async def scene() -> None:
        async with a_scene(sim) as it:
            it.world.faults.start(["watch-disconnect"], each_by_chance=False)
            for name in ("one", "two", "three"):
                await it.admin.create(CONFIG_MAPS, a_configmap(name), "default")
            await it.admin.delete(CONFIG_MAPS, "two", "default")
            await tasks.sleep(seconds(20))
            assert it.known() == ["one", "three"]
            assert it.informers[-1].counters.relists == 0
            assert len(it.faults()) == 1

    run(sim, scene)


def test_a_compaction_alone_disturbs_no_watch(quiet: Simulation):
    async def scene() -> None:
        async with a_scene(quiet) as it:
            await it.admin.create(CONFIG_MAPS, a_configmap("one"), "default")
            TIMED["compaction"].strike(it.world)
            await tasks.sleep(seconds(1))
            await it.admin.create(CONFIG_MAPS, a_configmap("two"), "default")
            await tasks.sleep(seconds(1))
            assert it.known() == ["one", "two"]
            assert it.informers[-1].counters.relists == 0

    run(quiet, scene)


def test_a_compaction_that_a_server_has_missed_makes_its_watches_list_again(quiet: Simulation):
    async def scene() -> None:
        async with a_scene(quiet, servers=1) as it:
            await it.admin.create(CONFIG_MAPS, a_configmap("one"), "default")
            await tasks.sleep(seconds(1))
            TIMED["compaction-missed"].strike(it.world)
            await it.admin.delete(CONFIG_MAPS, "one", "default")
            await it.admin.create(CONFIG_MAPS, a_configmap("two"), "default")
            await tasks.sleep(seconds(60))
            assert it.known() == ["two"]
            assert it.informers[-1].counters.relists == 1

    run(quiet, scene)


@pytest.mark.parametrize("name", ["cut", "one-way-cut"])
def test_a_cut_lets_nothing_through_for_a_while(name: str, quiet: Simulation):
    async def scene() -> None:
        async with a_scene(quiet, servers=1) as it:
            TIMED[name].strike(it.world)
            assert not quiet.network.link("worker", "server-0").is_open
            assert quiet.network.link("server-0", "worker").is_open is (name == "one-way-cut")
            await tasks.sleep(seconds(1))
            assert quiet.network.link("worker", "server-0").is_open
            await it.write("one")

    run(quiet, scene)


def test_latency_makes_everything_slower_for_a_while(quiet: Simulation):
    async def scene() -> None:
        async with a_scene(quiet) as it:
            TIMED["latency"].strike(it.world)
            began = quiet.loop.time()
            await it.write("one")
            assert quiet.loop.time() - began >= 0.01
            await tasks.sleep(seconds(1))
            began = quiet.loop.time()
            await it.write("two")
            assert quiet.loop.time() - began < 0.005

    run(quiet, scene)


@pytest.mark.parametrize("name", ["pause", "server-pause", "crash", "server-crash", "restart"])
def test_what_stops_a_program_is_over_after_a_while(name: str, quiet: Simulation):
    async def scene() -> None:
        async with a_scene(quiet) as it:
            TIMED[name].strike(it.world)
            await tasks.sleep(seconds(5))
            everybody = [*it.world.programs.values(), *it.world.servers.values()]
            assert [(each.is_running, each.is_paused) for each in everybody] == [(True, False)] * 3
            await it.write("one")
            assert len(it.faults()) == 1

    run(quiet, scene)


@pytest.mark.parametrize("is_cut", [0, 1])
def test_a_leader_is_kept_away_for_longer_than_its_lease(is_cut: int):
    sim = Simulation(tape=Tape([Choice("fault/leader-loss/cut", 0, 2, is_cut)]))

    async def scene() -> None:
        async with a_scene(sim) as it:
            spec = {"holderIdentity": "worker_1234", "leaseDurationSeconds": 15}
            lease = {"metadata": {"name": "lease", "namespace": "default"}, "spec": spec}
            await it.admin.create(LEASES, lease, "default")
            worker = it.world.programs["worker"]
            assert await find_leaders(it.world) == {"worker": (worker, seconds(15))}

            LeaderLoss().strike(it.world)
            await tasks.sleep(seconds(17))
            assert worker.is_paused is not bool(is_cut)
            assert sim.network.link("worker", "server-0").is_open is not bool(is_cut)
            await tasks.sleep(seconds(2))
            assert not worker.is_paused
            assert sim.network.link("worker", "server-0").is_open

    run(sim, scene)


def test_programs_that_are_part_of_the_test_are_spared():
    sim = Simulation(seed=1)

    async def scene() -> None:
        world = World(sim)
        world.add_server("server-0")

        async def main(env: Env) -> None:
            async with world.client_for("workload", env) as client:
                for number in range(200):
                    await client.create(CONFIG_MAPS, a_configmap(f"map-{number}"), "default")

        program = world.add_program("workload", main, is_spared=True)
        await world.boot()
        world.faults.start([name for name in NAMES if not name.startswith("server-")], each_by_chance=False)
        await program.wait()
        await tasks.sleep(seconds(60))

        assert [event for event in world.history.events if isinstance(event, ProgramCrashed)] == []
        assert all("workload" not in what.what for what in world.history.events if isinstance(what, FaultInjected))

    run(sim, scene)


def test_stopping_faults_undoes_those_that_last():
    sim = Simulation(tape=Tape([Choice("fault/cut/duration", 0, 7, 6)]))

    async def scene() -> None:
        async with a_scene(sim, servers=1) as it:
            TIMED["cut"].strike(it.world)
            await it.world.faults.stop()
            assert sim.network.link("worker", "server-0").is_open

    run(sim, scene)


def test_an_unknown_fault_is_refused(quiet: Simulation):
    async def scene() -> None:
        with pytest.raises(ValueError, match="unknown faults: earthquake"):
            World(quiet).faults.start(["earthquake"], each_by_chance=False)

    run(quiet, scene)


def test_every_fault_says_what_it_is_about():
    abouts = [each.about for each in TIMED.values()]
    abouts += [each.about for each in AT_WRITE.values()]
    abouts += [each.about for each in AT_EVENT.values()]
    assert all(abouts)
    assert len(abouts) == len(ALL)
    assert {"lost-sync", "restore", "stale-start"} <= {*ALL} - {*NAMES}
