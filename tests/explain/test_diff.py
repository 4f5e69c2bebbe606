"""What differs between two moments: objects that came, went and changed, with who did it."""

import pytest

from mainstay.api.kind_names import DEPLOYMENTS, PODS
from mainstay.env import tasks
from mainstay.explain.blame_text import diff_text
from mainstay.explain.diff import Diff, How, diff
from mainstay.explain.moment import Moment
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.scenarios import _risk
from mainstay.scenarios._workloads import a_workload
from mainstay.sim.cluster.cluster import NodeOptions, whole_cluster
from mainstay.sim.simulation import Simulation
from tests.explain import risk
from tests.explain.risk import seconds

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def text_journal() -> MemoryJournal:
    return risk.played(risk.the_text)


async def _moments(journal: MemoryJournal) -> tuple[Moment, Moment]:
    """Before 00:00, and the end."""
    now = await Moment.now(journal)
    scaled = next(
        each
        for each in (await journal.changes(kind="deployments.apps")).records
        if b'"generation":42' in (each.value or b"")
    )
    return await Moment.at_revision(journal, scaled.revision - 1), now


def of(found: Diff, how: How) -> list[str]:
    return [each.about.words for each in found.objects if each.how is how]


@pytest.mark.sim
async def test_two_moments_differ_by_what_was_written_between(text_journal):
    before, after = await _moments(text_journal)

    found = await diff(before, after, namespace=_risk.TENANT)

    assert len([each for each in of(found, How.ADDED) if each.startswith("pod ")]) == 4
    assert {"deployment risk-api", "zonequota risk-zone-c"} <= set(of(found, How.CHANGED))
    assert not any(each.about.kind == "events" for each in found.objects)
    quota = next(each for each in found.objects if each.about.name == _risk.QUOTA)
    limit = next(each for each in quota.fields if each.field == "spec.hard[cpu]")
    assert (limit.before, limit.after, limit.who.name) == ("2", "4", "quota-controller")
    workload = next(each for each in found.objects if each.about.kind == DEPLOYMENTS.text)
    replicas = next(each for each in workload.fields if each.field == "spec.replicas")
    assert (replicas.before, replicas.after, replicas.who.name) == (6, 10, "autoscaler")


@pytest.mark.sim
async def test_a_kind_and_a_name_narrow_it_down(text_journal):
    before, after = await _moments(text_journal)

    found = await diff(before, after, kind=DEPLOYMENTS, namespace=_risk.TENANT, name=_risk.NAME)

    assert [each.about.name for each in found.objects] == [_risk.NAME]
    lines = diff_text(found)
    assert lines[0] == "~ deployment risk-api (namespace risk)"
    assert any(line.startswith("    spec.replicas: 6 → 10  (autoscaler") for line in lines)
    assert any("fields of its status (-o wide)" in line for line in lines)


@pytest.mark.sim
async def test_the_same_moment_does_not_differ_from_itself(text_journal):
    now = await Moment.now(text_journal)

    assert (await diff(now, now)).objects == ()


async def test_what_was_changed_back_or_came_and_went_is_no_difference(sim: Simulation):
    async with whole_cluster(sim, nodes={"node-a": NodeOptions()}) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 1))
        await cluster.client.create(DEPLOYMENTS, a_workload("old", 0))
        await tasks.sleep(seconds(30))
        before = await Moment.now(cluster.journal)
        for replicas in (2, 1):
            await cluster.client.patch(DEPLOYMENTS, "web", "default", {"spec": {"replicas": replicas}})
            await tasks.sleep(seconds(30))
        await cluster.client.delete(DEPLOYMENTS, "old", "default")
        await tasks.sleep(seconds(60))

        found = await diff(before, await Moment.now(cluster.journal), namespace="default")

    assert of(found, How.ADDED) == []
    assert sorted(of(found, How.REMOVED))[0] == "deployment old"
    removed = next(each for each in found.objects if each.about.words == "deployment old")
    assert (removed.who.name, removed.at is not None) == ("admin", True)
    fields = [field.field for each in found.objects if each.about.name == "web" for field in each.fields]
    assert "spec.replicas" not in fields
    assert PODS.text not in [each.about.kind for each in found.objects if each.how is How.ADDED]


async def test_another_object_of_the_same_name_is_a_replacement(sim: Simulation):
    async with whole_cluster(sim, nodes={"node-a": NodeOptions()}) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 0))
        await tasks.sleep(seconds(10))
        before = await Moment.now(cluster.journal)
        await cluster.client.delete(DEPLOYMENTS, "web", "default")
        await tasks.sleep(seconds(60))
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 0))
        await tasks.sleep(seconds(10))

        found = await diff(before, await Moment.now(cluster.journal), kind=DEPLOYMENTS)

    assert of(found, How.REPLACED) == ["deployment web"]
