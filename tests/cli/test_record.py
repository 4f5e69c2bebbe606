"""`mainstay record` makes a file of what happened, and says what is in it."""

from datetime import timedelta

import pytest

from mainstay.api.kind_names import DEPLOYMENTS, PODS
from mainstay.api.times import human_duration
from mainstay.cli import main
from mainstay.cli.exits import Exit
from mainstay.cli.journal_access import OpenJournal, list_kinds
from mainstay.cli.record import record_bundle
from mainstay.env import tasks
from mainstay.explain.moment import Moment
from mainstay.journal.bundle import open_bundle
from mainstay.journal.record import moment
from mainstay.scenarios._workloads import a_workload
from mainstay.sim.cluster.cluster import NodeOptions, whole_cluster
from mainstay.sim.simulation import Simulation
from tests.cli.paper import Paper


async def test_what_happened_in_a_cluster_opens_again_elsewhere_with_all_its_decisions(sim: Simulation):
    async with whole_cluster(sim, nodes={"node-a": NodeOptions(zone="a")}) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 2))
        await tasks.sleep(timedelta(seconds=30))
        await cluster.client.create(DEPLOYMENTS, a_workload("late", 1))
        await tasks.sleep(timedelta(seconds=10))
        asked = OpenJournal(journal=cluster.journal, kinds=await list_kinds(cluster.journal))
        now = (await Moment.now(cluster.journal)).at
        whole, about = Paper(), Paper()

        codes = [
            await record_bundle(asked, whole, timedelta(seconds=20), [], "", now),
            await record_bundle(asked, about, timedelta(seconds=20), ["deploy/late"], "", now),
        ]
        latest = await Moment.now(cluster.journal)
        pods = await latest.all(PODS)

    assert codes == [0, 0]
    bundle = open_bundle(whole.written)
    reopened = await Moment.now(bundle.journal)
    assert await reopened.all(PODS) == pods
    assert len(pods) == 3
    since = now - timedelta(seconds=20)
    wanted = (await cluster.journal.decisions(since=since)).records
    assert wanted
    assert (await bundle.journal.decisions(since=since)).records == wanted
    for decision in wanted:
        for seen in decision.view:
            assert (await bundle.journal.state({seen.kind: seen.revision})).is_complete, decision
    said = "\n".join(whole.notes)
    assert f"revisions {bundle.head.begins} to {bundle.head.ends}" in said
    assert "left out: values of Secrets" in said
    assert f"{bundle.counts.decisions} decisions" in said

    small = open_bundle(about.written)
    assert 0 < small.counts.decisions < bundle.counts.decisions
    assert "only decisions about deployments.apps default/late" in "\n".join(about.notes)
    names = {each.subject.name for each in small.journal.records()}
    assert any(name.startswith("late") for name in names)
    assert not any(name.startswith("web") for name in names)


async def test_a_bundle_claims_no_time_from_before_the_journal_begins(sim: Simulation):
    async with whole_cluster(sim, nodes={"node-a": NodeOptions(zone="a")}) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 2))
        await tasks.sleep(timedelta(seconds=30))
        asked = OpenJournal(journal=cluster.journal, kinds=await list_kinds(cluster.journal))
        extent = await cluster.journal.extent()
        now = (await Moment.now(cluster.journal)).at
        paper = Paper()
        code = await record_bundle(asked, paper, timedelta(days=3), [], "", now)
        decided = await cluster.journal.decisions(limit=1_000_000)

    bundle = open_bundle(paper.written)
    assert code == 0
    assert bundle.head.since == extent.first_at
    assert bundle.counts.decisions == len(decided.records)
    assert paper.notes[0].startswith(f"{moment(extent.first_at):%Y-%m-%d %H:%M:%S} to ")
    age = human_duration(now - moment(extent.first_at))
    assert paper.notes[-1] == f"the journal covers only the last {age}: the cluster is no older"

    again = OpenJournal(journal=bundle.journal, kinds=asked.kinds)
    short = Paper()
    assert await record_bundle(asked, short, timedelta(seconds=5), [], "", now) == 0
    assert not any("begins only" in note for note in short.notes)
    cut = OpenJournal(journal=open_bundle(short.written).journal, kinds=again.kinds)
    longer = Paper()
    assert await record_bundle(cut, longer, timedelta(hours=1), [], "", now) == Exit.INCOMPLETE
    assert "older records are pruned" in longer.notes[-1]


def test_two_runs_with_one_seed_make_the_same_bundle():
    def once() -> bytes:
        async def run(sim: Simulation) -> bytes:
            async with whole_cluster(sim, nodes={"node-a": NodeOptions(zone="a")}) as cluster:
                await cluster.client.create(DEPLOYMENTS, a_workload("web", 2))
                await tasks.sleep(timedelta(seconds=15))
                asked = OpenJournal(journal=cluster.journal, kinds=await list_kinds(cluster.journal))
                paper = Paper()
                now = (await Moment.now(cluster.journal)).at
                await record_bundle(asked, paper, timedelta(minutes=1), [], "", now)
                return paper.written

        simulation = Simulation(seed=7)
        return simulation.run(run(simulation))

    assert once() == once()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["record"], 64), (["record", "--since", "soon"], 64), (["record", "--since", "10m", "--bundle", "/nowhere"], 1)],
)
def test_what_cannot_be_recorded_is_refused(arguments: list[str], code: int):
    assert main.run(arguments) == code
