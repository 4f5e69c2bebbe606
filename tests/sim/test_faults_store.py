"""The store loses its power, its disk is full or fails or lies, or it is put back to a backup."""

from contextlib import suppress
from datetime import timedelta

import pytest

from mainstay.api.kind_names import CONFIG_MAPS
from mainstay.client.errors import ApiError
from mainstay.env import tasks
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.history import ResponseSent, RevisionCommitted, StoreReopened, StoreRestored
from mainstay.sim.disk import Survival
from mainstay.sim.errors import Unhandled
from mainstay.sim.faults.schedule import TIMED
from mainstay.sim.run.choices import Choice, Tape
from mainstay.sim.simulation import Simulation
from tests.sim.fault_scene import Scene, a_configmap, a_scene, drawn, run, seconds
from tests.twins import faults as twins

pytestmark = pytest.mark.slow


class Checked:
    """Both checkers that a store must satisfy."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._checkers = (AcknowledgedWrites(), WatchContract())
        for event in scene.world.history.events:
            self._saw(event)
        scene.world.history.subscribe(self._saw)
        self.violated: list[Violated] = []

    def _saw(self, event: object) -> None:
        try:
            for checker in self._checkers:
                checker.saw(event)  # type: ignore[arg-type]
        except Violated as error:
            self.violated.append(error)

    async def at_end(self) -> None:
        for error in self.violated:
            raise error
        for checker in self._checkers:
            await checker.at_end(self._scene.world)


async def written(scene: Scene, *names: str) -> list[int]:
    """Write these, and say how each was answered: 0 if it was not."""
    statuses = []
    for name in names:
        before = len(scene.world.history.events)
        with suppress(ApiError):
            await scene.admin.create(CONFIG_MAPS, a_configmap(name, text="x" * 200), "default")
        answers = [each for each in scene.world.history.events[before:] if isinstance(each, ResponseSent)]
        statuses.append(next((each.status for each in answers if each.who == "admin"), 0))
    return statuses


@pytest.mark.parametrize("survival", list(Survival))
def test_after_a_power_cut_the_store_has_what_it_had_acknowledged_and_watches_go_on(survival: Survival):
    sim = Simulation(tape=Tape([Choice("disk/store/log/survival", 0, 4, survival)]))

    async def scene() -> None:
        async with a_scene(sim, disk=True) as it:
            checked = Checked(it)
            await written(it, "one", "two")
            sim.loop.executors.delays_ns = (5_000_000,)  # The disk takes its time, and is in the middle of something.
            late = tasks.spawn(written(it, "three"), name="late")
            await tasks.sleep(seconds(0.008))
            TIMED["power-cut"].strike(it.world)
            assert not any(server.is_running for server in it.world.servers.values())
            sim.loop.executors.delays_ns = (0,)
            await tasks.sleep(seconds(40))
            assert await written(it, "four") == [201]
            await late
            await tasks.sleep(seconds(2))
            assert {"one", "two", "four"} <= {*it.known()} <= {"one", "two", "three", "four"}
            assert len([each for each in it.world.history.events if isinstance(each, StoreReopened)]) == 1
            await checked.at_end()

    run(sim, scene)


def test_commits_that_were_not_noted_before_a_power_cut_are_noted_after_it():
    sim = Simulation(tape=Tape([Choice("disk/store/log/survival", 0, 4, Survival.EVERYTHING)]))

    async def scene() -> None:
        async with a_scene(sim, disk=True) as it:
            checked = Checked(it)
            disk = it.world.store_disk
            disk.cut_power_before(2)  # Between the append of a write and its sync.
            late = tasks.spawn(written(it, "one"), name="late")
            await tasks.sleep(seconds(0.1))
            TIMED["power-cut"].strike(it.world)
            await tasks.sleep(seconds(40))
            await late
            events = it.world.history.events
            made = [each for each in events if isinstance(each, RevisionCommitted) and "configmaps" in each.key]
            assert [each.request for each in made] == [None]
            await checked.at_end()

    run(sim, scene)


def test_a_full_disk_refuses_writes_keeps_what_it_has_and_goes_on_when_there_is_room():
    sim = drawn({"fault/disk-full/room": 2, "fault/disk-full/duration": 4})

    async def scene() -> None:
        async with a_scene(sim, disk=True) as it:
            checked = Checked(it)
            assert await written(it, "one") == [201]
            TIMED["disk-full"].strike(it.world)
            assert await written(it, "two", "three") == [507, 507]
            assert (await it.admin.get(CONFIG_MAPS, "one", "default"))["data"]
            await tasks.sleep(seconds(11))
            assert await written(it, "two", "four") == [201, 201]
            await tasks.sleep(seconds(2))
            assert it.known() == ["four", "one", "two"]
            await checked.at_end()

    run(sim, scene)


def test_a_disk_that_is_full_when_the_power_fails_loses_nothing_either():
    sim = drawn({"fault/disk-full/room": 2, "fault/disk-full/duration": 5})

    async def scene() -> None:
        async with a_scene(sim, disk=True) as it:
            checked = Checked(it)
            await written(it, "one")
            TIMED["disk-full"].strike(it.world)
            await written(it, "two")
            TIMED["power-cut"].strike(it.world)
            await tasks.sleep(seconds(30))
            assert await written(it, "three") == [201]
            await checked.at_end()

    run(sim, scene)


@pytest.mark.parametrize(
    ("twin", "problem"),
    [
        (twins.acknowledges_what_did_not_fit, "the frame at byte"),
        (twins.leaves_half_a_frame_behind, "the frame at byte"),
        (twins.does_not_sync, "was acknowledged"),
    ],
)
def test_a_store_that_takes_a_disk_too_lightly_is_found_out(
    twin: twins.Twin, problem: str, monkeypatch: pytest.MonkeyPatch
):
    twin(monkeypatch)
    sim = drawn({"fault/disk-full/room": 2, "fault/disk-full/duration": 1})

    async def scene() -> None:
        async with a_scene(sim, disk=True) as it:
            checked = Checked(it)
            await written(it, "one")
            TIMED["disk-full"].strike(it.world)
            await written(it, "two", "three")
            await tasks.sleep(seconds(3))
            await written(it, "four")
            TIMED["power-cut"].strike(it.world)
            await tasks.sleep(seconds(30))
            await checked.at_end()

    with pytest.raises((Violated, Unhandled)) as raised:
        run(sim, scene)
    assert problem in f"{raised.value} {raised.value.__cause__}"


def test_a_store_whose_disk_has_failed_reports_it_and_restarts():
    sim = Simulation(
        tape=Tape([Choice("disk/store/sync-error", 0, 2, 1), Choice("fault/disk-error/duration", 0, 7, 3)])
    )

    async def scene() -> None:
        async with a_scene(sim, disk=True) as it:
            checked = Checked(it)
            await written(it, "one")
            TIMED["disk-error"].strike(it.world)
            assert await written(it, "two", "three") == [504, 503]
            assert (await it.admin.get(CONFIG_MAPS, "one", "default"))["data"]
            await tasks.sleep(seconds(40))
            assert await written(it, "four") == [201]
            await checked.at_end()

    run(sim, scene)


def test_a_disk_that_lies_is_found_out():
    sim = Simulation(tape=Tape(Choice("disk/store/lost-sync", turn, 2, 1) for turn in range(20)))
    found: list[Violated] = []

    async def scene() -> None:
        async with a_scene(sim, disk=True) as it:
            checked = Checked(it)
            await written(it, "one")
            TIMED["lost-sync"].strike(it.world)
            assert await written(it, "two") == [201]
            await tasks.sleep(seconds(30))
            found.extend(checked.violated)

    run(sim, scene)

    assert found
    assert str(found[0]).startswith("acknowledged writes: the store reopened at revision ")
    assert "configmaps/default/two" in str(found[0])


def test_when_the_store_is_restored_all_watchers_notice_and_checkers_start_over():
    sim = drawn({"fault/restore/duration": 3})

    async def scene() -> None:
        async with a_scene(sim) as it:
            checked = Checked(it)
            await written(it, "one", "two")
            TIMED["restore"].strike(it.world)
            await written(it, "three", "four")
            await it.admin.delete(CONFIG_MAPS, "one", "default")
            await tasks.sleep(seconds(4))
            assert it.known() == ["four", "three", "two"]
            await tasks.sleep(timedelta(minutes=3))
            assert it.known() == ["one", "two"]
            assert await written(it, "five") == [201]
            await tasks.sleep(seconds(2))
            assert it.known() == ["five", "one", "two"]
            assert len([each for each in it.world.history.events if isinstance(each, StoreRestored)]) == 1
            await checked.at_end()

    run(sim, scene)


def test_a_backup_is_not_put_back_once_faults_are_over():
    sim = drawn({"fault/restore/duration": 3})

    async def scene() -> None:
        async with a_scene(sim) as it:
            TIMED["restore"].strike(it.world)
            await written(it, "one")
            await it.world.heal()
            await tasks.sleep(seconds(10))
            assert await it.exists("one")
            assert not [each for each in it.world.history.events if isinstance(each, StoreRestored)]

    run(sim, scene)


def test_a_server_that_is_started_while_the_store_is_away_waits_for_it():
    sim = drawn({"fault/power-cut/duration": 5})

    async def scene() -> None:
        async with a_scene(sim, disk=True) as it:
            TIMED["power-cut"].strike(it.world)
            for server in it.world.servers.values():
                server.start()
            await tasks.sleep(seconds(5))
            assert it.world.gates == {}
            await it.world.heal()
            await tasks.sleep(seconds(5))
            assert sorted(it.world.gates) == ["server-0", "server-1"]
            assert await written(it, "one") == [201]
            assert not any(isinstance(each, ResponseSent) and each.status == 500 for each in it.world.history.events)

    run(sim, scene)


def slow(**steps: int) -> Simulation:
    """The store is slow for the first server, for ten seconds: steps take up to a second, the first of each as said."""
    lasting = {"fault/slow-store/how-long": 2, "fault/slow-store/duration": 4}
    return drawn(lasting | {f"fault/slow-store/server-0/{step}": share for step, share in steps.items()})


async def moments_of_a_write(it: Scene) -> tuple[float, float]:
    """When a write was committed, and when it was answered, in seconds since it was sent."""
    began_ns, before = it.sim.loop.time_ns(), len(it.world.history.events)
    await it.admin.create(CONFIG_MAPS, a_configmap("one"), "default")
    events = it.world.history.events[before:]
    commit = next(each for each in events if isinstance(each, RevisionCommitted) and "configmaps" in each.key)
    answer = next(each for each in events if isinstance(each, ResponseSent) and each.who == "admin")
    return round((commit.at_ns - began_ns) / 1e9, 1), round((answer.at_ns - began_ns) / 1e9, 1)


@pytest.mark.parametrize(
    ("steps", "moments"),
    [
        pytest.param({}, (0, 0), id="choice 0 takes no time"),
        pytest.param({"read": 3}, (1, 1), id="read"),
        pytest.param({"commit": 3}, (1, 1), id="commit"),
        pytest.param({"answer": 2}, (0, 0.5), id="answer"),
        pytest.param({"read": 1, "commit": 2, "answer": 3}, (0.8, 1.8), id="all"),
    ],
)
def test_where_the_store_is_slow_time_passes_between_read_commit_and_answer(
    steps: dict[str, int], moments: tuple[float, float]
):
    sim = slow(**steps)

    async def scene() -> None:
        async with a_scene(sim, servers=1) as it:
            TIMED["slow-store"].strike(it.world)
            assert await moments_of_a_write(it) == moments

    run(sim, scene)


def test_a_store_is_slow_for_one_server_and_for_a_while():
    sim = slow(commit=3)

    async def scene() -> None:
        async with a_scene(sim, servers=1) as it:
            TIMED["slow-store"].strike(it.world)
            await tasks.sleep(seconds(10))
            assert await moments_of_a_write(it) == (0, 0)
            assert it.faults() == [
                "reads and commits of server-0 take up to 0:00:01 each for 0:00:10",
                "over: the store is slow for server-0",
            ]

    run(sim, scene)


def test_another_writer_comes_between_a_read_and_its_commit_where_the_store_is_slow():
    sim = slow(commit=3)

    async def scene() -> None:
        async with a_scene(sim, servers=1) as it:
            checked = Checked(it)
            await it.admin.create(CONFIG_MAPS, a_configmap("one", count="0"), "default")
            TIMED["slow-store"].strike(it.world)
            body = {"data": {"late": "yes"}}
            late = tasks.spawn(it.admin.patch(CONFIG_MAPS, "one", "default", body), name="late")
            await tasks.sleep(seconds(0.5))
            await it.admin.patch(CONFIG_MAPS, "one", "default", {"data": {"early": "yes"}})
            await late
            found = await it.admin.get(CONFIG_MAPS, "one", "default")
            assert found["data"] == {"count": "0", "early": "yes", "late": "yes"}
            await checked.at_end()

    run(sim, scene)


def test_a_commit_on_a_slow_way_happens_also_if_its_server_crashes():
    sim = slow(commit=3)

    async def scene() -> None:
        async with a_scene(sim, servers=1) as it:
            checked = Checked(it)
            TIMED["slow-store"].strike(it.world)
            late = tasks.spawn(written(it, "one"), name="late")
            await tasks.sleep(seconds(0.5))
            it.world.servers["server-0"].crash()
            assert not await it.exists("one")
            await tasks.sleep(seconds(1))
            assert await it.exists("one")
            await it.world.heal()
            await late
            await checked.at_end()

    run(sim, scene)


def test_a_commit_on_a_slow_way_does_not_happen_if_the_store_dies_before():
    sim = slow(commit=3)

    async def scene() -> None:
        async with a_scene(sim, disk=True, servers=1) as it:
            checked = Checked(it)
            TIMED["slow-store"].strike(it.world)
            late = tasks.spawn(written(it, "one"), name="late")
            await tasks.sleep(seconds(0.5))
            TIMED["power-cut"].strike(it.world)
            await tasks.sleep(seconds(0.2))
            assert not it.known()
            await it.world.heal()
            await late
            await checked.at_end()

    run(sim, scene)
