"""Which components can change the inputs of a decision without calling the decider: declared, observed, and to and fro.
(O6)
"""

from datetime import UTC, datetime, timedelta

import pytest

from mainstay.api.kind_names import DEPLOYMENTS, PODS
from mainstay.api.object_key import ObjectKey
from mainstay.client.call import WriteOptions
from mainstay.controllers.registry import CONTROLLERS, LOOPS
from mainstay.env import tasks
from mainstay.explain.coupling import (
    FieldWrite,
    Input,
    NoSuchComponent,
    coupling_of_object,
    find_coupling,
    oscillations,
)
from mainstay.explain.coupling_text import coupling_text
from mainstay.explain.declared import EVERYTHING, find_declared
from mainstay.explain.moment import Moment
from mainstay.explain.story.timeline import NothingKnown
from mainstay.explain.writers import component_in
from mainstay.journal.keys import parse_kind
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.registry import REGISTRY
from mainstay.scenarios import _risk
from mainstay.scenarios._workloads import a_workload
from mainstay.sim.cluster.cluster import NodeOptions, whole_cluster
from mainstay.sim.simulation import Simulation
from tests.explain import risk
from tests.explain.risk import seconds

pytestmark = pytest.mark.slow

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WEB = (ObjectKey("default", "web"), ("spec", "replicas"))


@pytest.fixture(scope="module")
def text_journal() -> MemoryJournal:
    return risk.played(risk.the_text)


def input_of(inputs: tuple[Input, ...], kind: str) -> Input:
    return next(each for each in inputs if each.kind == kind)


@pytest.mark.sim
async def test_the_scheduler_is_coupled_to_the_writers_of_what_it_reads(text_journal):
    found = await find_coupling(await Moment.now(text_journal), REGISTRY.declared(), "scheduler-1")

    quotas = {edge.writer: edge for edge in input_of(found.inputs, "zonequotas.mainstay.dev").edges}
    assert quotas["quota-controller"].writes == 1
    assert quotas["quota-controller"].fields == ("spec.hard",)
    assert not quotas["quota-controller"].is_declared
    pods = {edge.writer: edge for edge in input_of(found.inputs, "pods").edges}
    assert pods["replicaset"].is_declared
    assert pods["replicaset"].writes >= 12
    assert pods["agents"].writes > 0
    assert "scheduler-1" not in pods
    assert input_of(found.inputs, "nodes").wakes
    assert "pods" in found.writes
    assert {"replicaset", "agents"} <= set(found.readers)


@pytest.mark.sim
async def test_the_decisions_about_a_workload_are_coupled_to_the_autoscaler(text_journal):
    found = await coupling_of_object(
        await Moment.now(text_journal), REGISTRY.declared(), DEPLOYMENTS, _risk.NAME, _risk.TENANT
    )

    assert {"deployment", "autoscaler", "deployment-progress"} <= set(found.components)
    own = {edge.writer: edge for edge in input_of(found.inputs, "deployments.apps").edges}
    assert own["autoscaler"].fields == ("spec.replicas",)
    assert own["admin"].writes == 42
    lines = coupling_text(found)
    assert any(line.startswith("    autoscaler (not declared): 1 write: spec.replicas") for line in lines)
    assert lines[-1] == "no oscillating fields"


@pytest.mark.sim
async def test_an_unknown_component_is_rejected_with_the_known_ones(text_journal):
    now = await Moment.now(text_journal)
    with pytest.raises(NoSuchComponent, match=r"no component 'shceduler' has decided.*replicaset, .*scheduler"):
        await find_coupling(now, REGISTRY.declared(), "shceduler")
    with pytest.raises(NothingKnown, match="deployment missing and decisions about it not found"):
        await coupling_of_object(now, REGISTRY.declared(), DEPLOYMENTS, "missing", _risk.TENANT)


@pytest.mark.sim
async def test_since_counts_only_later_writes(text_journal):
    now = await Moment.now(text_journal)

    found = await find_coupling(now, REGISTRY.declared(), "scheduler-1", since=now.at - timedelta(seconds=1))

    quotas = input_of(found.inputs, "zonequotas.mainstay.dev").edges
    assert [edge.writer for edge in quotas if edge.writes] == []


async def test_two_who_set_a_field_to_and_fro_are_found(sim: Simulation):
    async with whole_cluster(sim, nodes={"node-a": NodeOptions()}) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 1))
        for number in range(6):
            name = ("helm", "autoscaler")[number % 2]
            cluster.world.know(name)
            async with cluster.world.client_for(name, sim.env(name)) as client:
                body = {"spec": {"replicas": 1 + number % 2 * 2}}
                await client.patch(DEPLOYMENTS, "web", "default", body, write=WriteOptions(field_manager=name))
            await tasks.sleep(seconds(5))

        found = await coupling_of_object(
            await Moment.now(cluster.journal), REGISTRY.declared(), DEPLOYMENTS, "web", "default"
        )

    [flip] = [each for each in found.oscillations if each.about.kind == DEPLOYMENTS.text]
    assert (flip.field, flip.writers, flip.values) == ("spec.replicas", ("autoscaler", "helm"), ("1", "3"))
    assert flip.flips >= 3
    assert any(
        line.startswith("! oscillation: spec.replicas of deployment web alternates between")
        for line in coupling_text(found)
    )


def turns(*writers_and_values: str, every: timedelta = timedelta(seconds=10)) -> list[FieldWrite]:
    found = []
    for number, each in enumerate(writers_and_values):
        writer, _, value = each.partition("=")
        found.append(FieldWrite(writer, value, NOON + number * every, number + 1))
    return found


def test_three_flips_of_two_writers_are_an_oscillation_and_two_are_none():
    assert oscillations("deployments.apps", {WEB: turns("a=1", "b=2", "a=1", "b=2")}) == []
    [found] = oscillations("deployments.apps", {WEB: turns("a=1", "b=2", "a=1", "b=2", "a=1")})
    assert (found.flips, found.writers, found.values) == (3, ("a", "b"), ("1", "2"))


def test_one_writer_alone_values_that_go_on_and_flips_far_apart_are_none():
    assert oscillations("x", {WEB: turns("a=1", "a=2", "a=1", "a=2", "a=1", "a=2")}) == []
    assert oscillations("x", {WEB: turns("a=1", "b=2", "a=3", "b=4", "a=5", "b=6")}) == []
    slow = turns("a=1", "b=2", "a=1", "b=2", "a=1", every=timedelta(hours=1))
    assert oscillations("x", {WEB: slow}) == []


def test_everybody_who_decides_declares_what_it_reads_and_writes():
    names = {each.name for each in CONTROLLERS} | {each.name for each in LOOPS} | {"scheduler", "agents"}

    assert names <= set(REGISTRY.declared())
    assert find_declared(REGISTRY.declared(), "scheduler-1") == REGISTRY.declared()["scheduler"]
    assert find_declared(REGISTRY.declared(), "missing") is None


@pytest.mark.sim
async def test_what_is_declared_is_what_is_written_in_a_whole_cluster(text_journal):
    beside = {"events", "leases.coordination.k8s.io", "componentstates.mainstay.dev"}
    undeclared = set()
    for change in (await text_journal.changes()).records:
        declared = find_declared(REGISTRY.declared(), component_in(change.decision))
        kind = parse_kind(change.key)
        if declared is not None and kind not in declared.writes and EVERYTHING not in declared.writes:
            undeclared.add((component_in(change.decision), kind))

    assert {each for each in undeclared if each[1] not in beside} == set()
    assert PODS.text in REGISTRY.declared()["scheduler"].writes
