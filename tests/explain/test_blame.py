"""Who set which field last, and all that a field has ever been: from the journal, or from the object itself."""

import pytest

from mainstay.api.kind_names import DEPLOYMENTS, PODS
from mainstay.client.call import WriteOptions
from mainstay.env import tasks
from mainstay.explain.blame import Blamed, blame, managed_by
from mainstay.explain.blame_text import blame_rows
from mainstay.explain.fields import BadPath
from mainstay.explain.moment import Moment
from mainstay.explain.story.timeline import NothingKnown
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.record import EntryRecord
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


def by_field(fields: tuple[Blamed, ...]) -> dict[str, Blamed]:
    return {each.field: each for each in fields}


@pytest.mark.sim
async def test_each_field_says_who_set_it_last_and_what_it_was_before(text_journal):
    found = await blame(await Moment.now(text_journal), DEPLOYMENTS, _risk.NAME, _risk.TENANT)

    fields = by_field(found.fields)
    replicas = fields["spec.replicas"]
    assert (replicas.value, replicas.before, replicas.who.name) == (10, 8, "autoscaler")
    assert replicas.who.decision.startswith("autoscaler-")
    assert replicas.who.reason == "LowReadyReplicas: 6 of 8 are ready"
    image = fields["spec.template.spec.containers[main].image"]
    assert (image.value, image.who.name, image.revision > 0) == ("risk-api:1", "admin", True)
    assert fields["status.readyReplicas"].who.component == "deployment"
    assert "metadata.resourceVersion" not in fields


@pytest.mark.sim
async def test_a_field_that_is_asked_for_has_its_whole_history(text_journal):
    found = await blame(await Moment.now(text_journal), DEPLOYMENTS, _risk.NAME, _risk.TENANT, field=".spec.replicas")

    assert [(each.before, each.value, each.who.name) for each in found.fields] == [
        (None, 6, "admin"),
        (6, 8, "admin"),
        (8, 10, "autoscaler"),
    ]


@pytest.mark.sim
async def test_a_binding_is_blamed_on_the_scheduler(text_journal):
    now = await Moment.now(text_journal)
    pod = next(each for each in await now.all(PODS) if each["metadata"]["labels"]["app"] == _risk.NAME)

    found = await blame(now, PODS, pod["metadata"]["name"], _risk.TENANT, field="spec.nodeName")

    [bound] = found.fields
    assert (bound.value, bound.who.name) == (pod["spec"]["nodeName"], "scheduler-1")


@pytest.mark.sim
async def test_questions_that_make_no_sense_are_refused_with_words(text_journal):
    now = await Moment.now(text_journal)
    with pytest.raises(NothingKnown, match="deployment missing not found in the journal"):
        await blame(now, DEPLOYMENTS, "missing", _risk.TENANT)
    with pytest.raises(BadPath):
        await blame(now, DEPLOYMENTS, _risk.NAME, _risk.TENANT, field="spec..x")


async def test_what_is_gone_can_be_asked_about_and_a_namesake_is_another_object(sim: Simulation):
    async with whole_cluster(sim, nodes={"node-a": NodeOptions()}) as cluster:
        for replicas in (0, 1):
            write = WriteOptions(field_manager=f"writer-{replicas}")
            await cluster.client.create(DEPLOYMENTS, a_workload("web", replicas), write=write)
            await tasks.sleep(seconds(10))
            await cluster.client.delete(DEPLOYMENTS, "web", "default")
            await tasks.sleep(seconds(60))

        found = await blame(await Moment.now(cluster.journal), DEPLOYMENTS, "web", "default", field="spec.replicas")

    assert found.is_gone
    assert [(each.before, each.value) for each in found.fields] == [(None, 1)]


async def test_what_is_older_than_the_journal_is_known_from_the_managers(sim: Simulation):
    async with whole_cluster(sim, nodes={"node-a": NodeOptions()}) as cluster:
        write = WriteOptions(field_manager="helm")
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 1), write=write)
        await tasks.sleep(seconds(20))
        now = await Moment.now(cluster.journal)
        state = await cluster.journal.state({"deployments.apps": now.revision})
        [(key, stored)] = state.kinds["deployments.apps"].items()

        late = MemoryJournal(now.revision, [EntryRecord(f"apps/deployments/{key}", stored.revision, stored.value)])
        found = await blame(Moment(late, now.revision, now.at), DEPLOYMENTS, "web", "default")

    replicas = by_field(found.fields)["spec.replicas"]
    assert (replicas.who.name, replicas.is_older, replicas.revision) == ("helm", True, 0)
    titles, rows = blame_rows(found)
    assert titles[:4] == ("FIELD", "VALUE", "BEFORE", "WHO")
    assert ["spec.replicas", "1", "?", "helm"] in [row[:4] for row in rows]
    assert not any(row[0].startswith("status") for row in rows)


def test_managers_are_found_for_entries_of_lists_and_whole_values():
    obj = {
        "metadata": {
            "managedFields": [
                {
                    "manager": "helm",
                    "time": "2026-01-01T00:00:00Z",
                    "fieldsV1": {
                        "f:spec": {
                            "f:template": {"f:spec": {"f:containers": {'k:{"name":"main"}': {".": {}, "f:image": {}}}}},
                            "f:selector": {},
                        }
                    },
                }
            ]
        }
    }

    image = ("spec", "template", "spec", "containers", "[main]", "image")
    assert managed_by(obj, image)[0] == "helm"
    assert managed_by(obj, ("spec", "selector", "matchLabels", "[app]"))[0] == "helm"
    assert managed_by(obj, ("spec", "replicas")) == ("", None)
