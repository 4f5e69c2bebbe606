"""A bundle opens in the simulator, and what it was recorded of goes on from its end."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from mainstay.api.kind_names import DEPLOYMENTS, PODS
from mainstay.cli.main import run
from mainstay.env import tasks
from mainstay.journal.bundle import Bundle, open_bundle, packed
from mainstay.journal.bundle_contents import gathered
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.record import moment
from mainstay.scenarios._workloads import a_workload
from mainstay.scheduler.why.placement import rests_on
from mainstay.sim.cluster.cluster import NodeOptions, whole_cluster
from mainstay.sim.cluster.recorded_cluster import make_continuation, make_rows
from mainstay.sim.cluster.world import KeptLog
from mainstay.sim.run.run import RunVerdict
from mainstay.sim.run.run import run as run_once
from mainstay.sim.simulation import Simulation
from mainstay.store.local import LocalStore

pytestmark = pytest.mark.slow


async def recorded(sim: Simulation) -> bytes:
    """Three pods run, one has no room, and its node has just been lost when the recording ends."""
    nodes = {"n1": NodeOptions(capacity={"cpu": "2"}), "n2": NodeOptions(capacity={"cpu": "2"})}
    async with whole_cluster(sim, nodes=nodes) as cluster:
        await tasks.sleep(timedelta(seconds=5))
        began = sim.clock.wall()
        workload = a_workload("web", 4)
        workload["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "900m"}}
        await cluster.client.create(DEPLOYMENTS, workload)
        await tasks.sleep(timedelta(seconds=15))
        large = {"name": "main", "image": "x:1", "resources": {"requests": {"cpu": "1500m"}}}
        pod = {"metadata": {"name": "waiting", "namespace": "default"}, "spec": {"containers": [large]}}
        await cluster.client.create(PODS, pod)
        await tasks.sleep(timedelta(seconds=5))
        await cluster.client.patch(DEPLOYMENTS, "web", "default", {"spec": {"replicas": 1}})
        contents = await gathered(cluster.journal, since=began, build="", made_at=sim.clock.wall(), rests_on=rests_on)
        return b"".join(packed(contents))


@pytest.fixture(scope="module")
def bundle() -> bytes:
    with Simulation(0) as sim:
        return sim.run(recorded(sim))


@pytest.fixture
def opened(bundle: bytes) -> Bundle:
    return open_bundle(bundle)


async def test_the_store_begins_with_the_last_state_at_its_revisions(opened: Bundle):
    entries = opened.journal.last_state()

    store = await LocalStore.open(KeptLog(make_rows(entries, opened.head.ends)))

    assert await store.revision() == opened.head.ends
    found = {entry.key: entry.revision for entry in (await store.range("")).entries}
    assert found == {entry.key: entry.revision for entry in entries}
    await store.close()


def test_all_clocks_go_on_from_the_end_of_the_recording(opened: Bundle):
    with Simulation(0) as sim:
        early = sim.get_clock("server-1")
        sim.set_time(moment(opened.head.until))

        assert {sim.clock.wall(), early.wall(), sim.get_clock("n1").wall()} == {moment(opened.head.until)}


def test_what_waited_when_the_recording_ended_goes_on(opened: Bundle):
    """Three of the four pods are to go. When they have, there is room for the one that waits."""
    result = run_once(make_continuation(opened, lasts=timedelta(seconds=30), faults=()), seed=1)

    assert (result.verdict, result.problem) == (RunVerdict.PASSED, "")
    assert result.told.endswith(": 2 ready; all Deployments complete")


def test_each_seed_is_another_future_and_the_same_seed_the_same(opened: Bundle):
    scenario = make_continuation(opened, lasts=timedelta(seconds=30))

    first, second, again = (run_once(scenario, seed) for seed in (1, 2, 1))

    assert {first.verdict, second.verdict} == {RunVerdict.PASSED}
    assert first.trace == again.trace != second.trace


def test_an_empty_bundle_goes_on_as_a_cluster_without_nodes(opened: Bundle):
    empty = Bundle(opened.head, opened.counts, MemoryJournal())

    result = run_once(make_continuation(empty, lasts=timedelta(seconds=5), faults=()), seed=1)

    assert result.verdict is RunVerdict.PASSED
    assert "no pods" in result.told


def test_the_command_runs_one_future_for_each_seed(bundle: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    path = tmp_path / "incident.bundle"
    path.write_bytes(bundle)

    code = run(["sim", "continue", str(path), "--seeds", "2", "--for", "20s", "--no-faults", "--json"])

    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert code == 0
    assert [(line["seed"], line["verdict"]) for line in lines] == [(1, "passed"), (2, "passed")]
    assert all("2 ready" in line["told"] for line in lines)


def test_what_is_no_bundle_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "notes.txt").write_text("hello")

    assert run(["sim", "continue", str(tmp_path / "notes.txt")]) == 1
    assert "not a bundle; create one with" in capsys.readouterr().err
    assert run(["sim", "continue", str(tmp_path / "nothing")]) == 1
    assert "cannot read bundle" in capsys.readouterr().err
