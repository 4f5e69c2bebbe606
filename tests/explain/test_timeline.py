"""The story of an object, put together from the journal: the timeline of the text, with all its facts. (SPEC O4)"""

from typing import Any

import msgspec
import pytest

from mainstay.agent.runners.pretend_containers import Behaviour
from mainstay.api.kind_names import DEPLOYMENTS, HOLDS, NODES, PODS, ZONE_QUOTAS
from mainstay.api.times import format_time
from mainstay.env import tasks
from mainstay.explain.debug.builder import debug
from mainstay.explain.moment import Moment
from mainstay.explain.story.lines import Story, StoryLine
from mainstay.explain.story.text import story_text
from mainstay.explain.story.timeline import NothingKnown, timeline
from mainstay.explain.words import LineKind
from mainstay.journal.answers import Changes
from mainstay.journal.coverage import Gap, GapReason
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.record import EntryRecord, micros
from mainstay.registry import REGISTRY
from mainstay.scenarios import _risk
from mainstay.scenarios._workloads import a_workload
from mainstay.sim.cluster.cluster import Cluster, NodeOptions, whole_cluster
from mainstay.sim.simulation import Simulation
from tests.explain import risk
from tests.explain.risk import seconds
from tests.explain.why.asked import a_cluster, a_deployment
from tests.faults.objects import an_acting_node

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def text_journal() -> MemoryJournal:
    return risk.played(risk.the_text)


async def story_of(journal: MemoryJournal, generation: int = 0) -> Story:
    return await timeline(
        await Moment.now(journal), REGISTRY, DEPLOYMENTS, _risk.NAME, _risk.TENANT, generation=generation
    )


def one(story: Story, what: LineKind, text: str) -> StoryLine:
    found = [line for line in story.lines if line.what is what and text in line.text]
    assert found, f"no line {what} with {text!r} in\n" + "\n".join(story_text(story, is_wide=True))
    return found[0]


@pytest.mark.sim
async def test_the_timeline_of_the_text_comes_out_with_all_its_facts(text_journal):
    story = await story_of(text_journal, generation=42)
    at = {line.number: line.offset_ms / 1000 for line in story.lines}

    # 00:00 desired replicas increase to 8
    scaled = one(story, LineKind.WRITTEN, "desired replicas 6 → 8")
    assert (scaled.about.words, scaled.who.name, scaled.number) == ("deployment risk-api", "admin", 1)

    # 00:01 replica-042 enters scheduler queue
    queued = one(story, LineKind.QUEUED, "enters the scheduling queue")
    pods = {queued.about.name, *queued.others}
    assert len(pods) == 2
    made = one(story, LineKind.CREATED, "created")
    assert {made.about.name, *made.others} == pods
    assert [link.line for link in queued.causes if link.line] == [made.number]

    # 00:04 scheduler reads node cache at resourceVersion 918812
    refused = one(story, LineKind.REFUSED, "finds no node")
    assert {refused.about.name, *refused.others} == pods
    assert refused.who.component == "scheduler-1"
    assert refused.view["nodes"] > 0
    assert refused.view["zonequotas.mainstay.dev"] > 0

    # 00:04 topology filter rejects zone-a and zone-b; quota plugin rejects zone-c for tenant risk
    topology, quota = refused.details
    assert topology.startswith(
        "PodTopologySpread rejects zone-a and zone-b (node-a1, node-a2, node-b1, node-b2): SkewTooLarge"
    )
    assert quota.startswith(
        "ZoneQuota rejects zone-c (node-c11, node-c12) for namespace risk: ZoneQuotaExceeded zone-c/cpu"
    )

    # 00:05 event emitted: FailedScheduling / insufficient eligible capacity
    event = one(story, LineKind.EVENT, "FailedScheduling")
    assert "nodes are available" in event.text
    assert refused.number in [link.line for link in event.causes]

    # 00:06 autoscaler sees low readiness and adds desired capacity
    added = one(story, LineKind.WRITTEN, "desired replicas 8 → 10")
    assert (added.who.name, added.who.reason) == ("autoscaler", "LowReadyReplicas: 6 of 8 are ready")
    assert added.who.manager == "autoscaler"
    assert 6 <= at[added.number] < 7

    # 00:07 quota controller frees capacity in zone-c
    freed = one(story, LineKind.WRITTEN, "limit of cpu 2 → 4")
    assert (freed.about.words, freed.who.name) == ("zonequota risk-zone-c", "quota-controller")
    assert 7 <= at[freed.number] < 8

    # 00:09 scheduler cache observes quota update
    seen = one(story, LineKind.SEEN, "observes this change 2.0 s after it was written")
    assert (seen.who.name, seen.about.words) == ("scheduler-1", "zonequota risk-zone-c")
    assert [link.line for link in seen.causes] == [freed.number]
    assert 9 <= at[seen.number] < 10

    # 00:10 replica-042 is bound to node-c12
    bound = [line for line in story.lines if line.what is LineKind.BOUND and line.about.name in pods]
    assert {line.about.name for line in bound} == pods
    assert any(line.text.startswith("is bound to node-c1") for line in bound)
    for line in bound:
        assert (freed.number, True) in [(link.line, link.is_verified) for link in line.causes]
        assert at[line.number] >= at[seen.number]
        assert line.view["zonequotas.mainstay.dev"] >= freed.revision

    assert (story.is_complete, story.gaps) == (True, ())
    assert [line.text for line in story.lines if not line.is_detail][-1] == "verdict progressing → complete"


@pytest.mark.sim
async def test_the_text_form_reads_like_the_text(text_journal):
    lines = story_text(await story_of(text_journal, generation=42))

    assert lines[0].startswith("deployment risk-api in namespace risk, generation 42, from ")
    order = [
        "00:00  admin",
        "enters the scheduling queue",
        "PodTopologySpread rejects zone-a and zone-b",
        "ZoneQuota rejects zone-c",
        "Event FailedScheduling",
        "00:06  autoscaler",
        "00:07  quota-controller",
        "00:09  scheduler-1          zonequota risk-zone-c: observes this change",
        "is bound to node-c1",
        "is ready",
    ]
    places = [next(place for place, line in enumerate(lines) if words in line) for words in order]
    assert places == sorted(places)


@pytest.mark.sim
async def test_one_replica_has_the_story_of_its_workload_up_to_its_own(text_journal):
    story = await story_of(text_journal, generation=42)
    name = one(story, LineKind.QUEUED, "enters").about.name

    own = await timeline(await Moment.now(text_journal), REGISTRY, PODS, name, _risk.TENANT)

    first = own.lines[0]
    assert (first.text, first.about.words) == ("desired replicas 6 → 8", "deployment risk-api")
    assert {line.about.name for line in own.lines if line.about.kind == "pods"} == {name}
    assert one(own, LineKind.READY, "is ready").who.name != ""
    chain = one(own, LineKind.CREATED, "created")
    assert own.lines[chain.causes[-1].line - 1].about.kind == "replicasets.apps"

    same = await timeline(await Moment.now(text_journal), REGISTRY, PODS, name, _risk.TENANT, generation=42)
    assert same.lines[0].text == "desired replicas 6 → 8"


@pytest.mark.sim
async def test_a_story_can_be_encoded_and_has_what_the_text_has(text_journal):
    story = await story_of(text_journal, generation=42)

    found = msgspec.json.decode(msgspec.json.encode(story.as_object()))

    assert (found["kind"], found["generation"]) == ("Timeline", 42)
    assert found["lines"][0]["text"] == "desired replicas 6 → 8"
    assert found["lines"][0]["who"]["name"] == "admin"


@pytest.mark.sim
async def test_since_leaves_out_what_was_before(text_journal):
    now = await Moment.now(text_journal)
    story = await story_of(text_journal, generation=42)
    freed = one(story, LineKind.WRITTEN, "limit of cpu")

    later = await timeline(now, REGISTRY, DEPLOYMENTS, _risk.NAME, _risk.TENANT, since=freed.at)

    assert "desired replicas 6 → 8" not in [line.text for line in later.lines if line.about.kind == DEPLOYMENTS.text]
    assert one(later, LineKind.BOUND, "is bound to").revision > freed.revision
    whole = await timeline(now, REGISTRY, DEPLOYMENTS, _risk.NAME, _risk.TENANT, since=now.at - seconds(3600))
    assert one(whole, LineKind.CREATED, "created with 6 desired replicas").number > 0
    assert any("the journal begins at" in note for note in whole.notes)


@pytest.mark.sim
async def test_what_the_journal_knows_nothing_of_is_said_with_what_to_do(text_journal):
    now = await Moment.now(text_journal)
    with pytest.raises(NothingKnown, match=r"deployment missing in namespace risk not found in the journal.*-n.*--at"):
        await timeline(now, REGISTRY, DEPLOYMENTS, "missing", _risk.TENANT)
    with pytest.raises(NothingKnown, match="generation 99 of deployment risk-api not found: the journal has 1 to 43"):
        await timeline(now, REGISTRY, DEPLOYMENTS, _risk.NAME, _risk.TENANT, generation=99)


@pytest.mark.sim
async def test_the_story_of_a_quota_is_that_of_its_writes(text_journal):
    story = await timeline(await Moment.now(text_journal), REGISTRY, ZONE_QUOTAS, _risk.QUOTA, _risk.TENANT)

    texts = [line.text for line in story.lines if not line.is_detail]
    assert texts[0] == "created with limits: cpu 2"
    assert "limit of cpu 2 → 4" in texts


async def test_a_refusal_again_and_again_is_counted_and_goes_on(sim: Simulation):
    async with whole_cluster(sim, nodes={"node-a": NodeOptions()}) as cluster:
        wanted = a_workload("web", 1)
        wanted["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "40"}}
        await cluster.client.create(DEPLOYMENTS, wanted)
        await tasks.sleep(seconds(20))
        for number in range(3):  # Each is worth another try.
            await cluster.client.patch(NODES, "node-a", "", {"metadata": {"labels": {"try": str(number)}}})
            await tasks.sleep(seconds(30))
        await tasks.sleep(seconds(400))

        story = await timeline(await Moment.now(cluster.journal), REGISTRY, DEPLOYMENTS, "web", "default")

    refused = [line for line in story.lines if line.what is LineKind.REFUSED]
    assert len(refused) == 1
    assert refused[0].count >= 2
    assert refused[0].is_going_on
    [text] = [line for line in story_text(story) if "finds no node" in line]
    assert f"×{refused[0].count} until " in text
    assert ", still retrying" in text


async def test_a_refusal_by_affinity_names_the_label_that_no_node_has(sim: Simulation):
    nodes = {"node-a": NodeOptions(), "node-b": NodeOptions(labels={"disktype": "ssd"})}
    async with whole_cluster(sim, nodes=nodes) as cluster:
        for name, disk in (("one", "sdd"), ("two", "ssd2")):
            spec = {"nodeSelector": {"disktype": disk}, "containers": [{"name": "main", "image": "x:1"}]}
            pod = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
            await cluster.client.create(PODS, pod)
        await tasks.sleep(seconds(10))
        now = await Moment.now(cluster.journal)

        stories = [await timeline(now, REGISTRY, PODS, name, "default") for name in ("one", "two")]
        view = await debug(now, REGISTRY, PODS, "one", "default")

    assert [one(story, LineKind.REFUSED, "finds no node").details for story in stories] == [
        ("NodeAffinity rejects node-a, node-b: none matches disktype=sdd",),
        ("NodeAffinity rejects node-a, node-b: none matches disktype=ssd2",),
    ]
    assert view.pending[0].reason == "NodeAffinity"
    assert view.cause.endswith("none matches disktype=sdd")


async def test_the_story_of_what_is_gone_ends_with_its_end(sim: Simulation):
    async with whole_cluster(sim, nodes={"node-a": NodeOptions()}) as cluster:
        pod = await _run_and_remove(cluster)

        story = await timeline(await Moment.now(cluster.journal), REGISTRY, PODS, pod, "default")

    assert [
        line.what
        for line in story.lines
        if line.what in (LineKind.CREATED, LineKind.READY, LineKind.DELETED, LineKind.REMOVED)
    ][-4:] == [
        LineKind.CREATED,
        LineKind.READY,
        LineKind.DELETED,
        LineKind.REMOVED,
    ]


async def test_pods_that_came_and_went_are_in_the_story_of_their_owner(sim: Simulation):
    async with whole_cluster(sim, nodes={"node-a": NodeOptions()}) as cluster:
        pod = await _run_and_remove(cluster)

        story = await timeline(await Moment.now(cluster.journal), REGISTRY, DEPLOYMENTS, "web", "default")

    assert (LineKind.REMOVED, pod) in [(line.what, line.about.name) for line in story.lines]


async def test_a_node_that_is_lost_is_told_with_the_pods_that_it_took_and_those_that_came_after(sim: Simulation):
    nodes = {"node-a": NodeOptions(), "node-b": NodeOptions()}
    async with whole_cluster(sim, nodes=nodes) as cluster:
        wanted = a_workload("web", 1)
        tolerations = [{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 5}]
        wanted["spec"]["template"]["spec"]["tolerations"] = [{**each, "effect": "NoExecute"} for each in tolerations]
        await cluster.client.create(DEPLOYMENTS, wanted)
        await tasks.sleep(seconds(20))
        [pod] = (await cluster.client.list(PODS, "default")).items
        node = pod["spec"]["nodeName"]
        cluster.world.programs[node].crash()
        await tasks.sleep(seconds(120))

        story = await timeline(await Moment.now(cluster.journal), REGISTRY, DEPLOYMENTS, "web", "default")

    lost = one(story, LineKind.CONDITION, "Ready True → Unknown (NodeStatusUnknown)")
    assert (lost.about.words, lost.who.name) == (f"node {node}", "node-health")
    told = one(story, LineKind.DELETED, "is marked for deletion")
    assert told.about.name == pod["metadata"]["name"]
    assert story.lines[told.causes[-1].line - 1].about.name == node
    made = [line for line in story.lines if line.what is LineKind.CREATED and line.about.kind == PODS.text]
    assert len(made) == 2
    assert told.number in [link.line for link in made[1].causes]


async def test_what_the_journal_has_not_kept_is_said(text_journal, sim: Simulation):
    class WithAHole(MemoryJournal):
        """As one whose recorder was away for a while."""

        async def changes(self, **asked: Any) -> Changes:
            found = await text_journal.changes(**asked)
            return Changes((Gap(10, 20, GapReason.MISSED),), (), found.records)

        extent, state = text_journal.extent, text_journal.state
        decisions, decision, writes = text_journal.decisions, text_journal.decision, text_journal.writes

    story = await story_of(WithAHole(), generation=42)

    assert not story.is_complete
    assert "missing: revisions 11 to 20 are missing (Missed)" in story_text(story)


async def test_a_hold_that_concerns_it_is_a_part_of_the_story(sim: Simulation):
    async with whole_cluster(sim, nodes={"node-a": NodeOptions()}) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 1))
        await tasks.sleep(seconds(20))
        until = format_time(sim.get_clock("store").wall() + seconds(600))
        for name in ("web", "other"):
            target = {"namespace": "default", "name": name}
            spec = {"what": "Rollout", "target": target, "owner": "anna", "reason": "a bad image", "expiresAt": until}
            await cluster.client.create(HOLDS, {"metadata": {"name": f"rollout.default.{name}"}, "spec": spec})
        await tasks.sleep(seconds(20))

        story = await timeline(await Moment.now(cluster.journal), REGISTRY, DEPLOYMENTS, "web", "default")

    held = [line.text for line in story.lines if line.about.kind == HOLDS.text and line.what is LineKind.CREATED]
    assert held == [f"anna holds default/web until {until}: a bad image"]


async def test_a_journal_that_begins_later_says_so(sim: Simulation):
    async with whole_cluster(sim, nodes={"node-a": NodeOptions()}) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 1))
        await tasks.sleep(seconds(20))
        whole = cluster.journal
        middle = await Moment.now(whole)
        await cluster.client.patch(DEPLOYMENTS, "web", "default", {"spec": {"replicas": 2}})
        await tasks.sleep(seconds(20))

        late = await _beginning_at(whole, middle)
        story = await timeline(await Moment.now(late), REGISTRY, DEPLOYMENTS, "web", "default")

    assert story.lines[0].text == "desired replicas 1 → 2"
    assert LineKind.CREATED not in [line.what for line in story.lines if line.about.kind == DEPLOYMENTS.text]


async def test_two_rollouts_in_one_second_are_told_apart_each_with_its_own_cause(sim: Simulation):
    async with whole_cluster(sim, nodes={"node-a": NodeOptions(), "node-b": NodeOptions()}) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 3))
        await tasks.sleep(seconds(30))
        for image in ("x:2", "x:3"):
            spec = {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}
            await cluster.client.patch(DEPLOYMENTS, "web", "default", {"spec": spec})
            await tasks.sleep(seconds(0.3))
        await tasks.sleep(seconds(60))

        story = await timeline(await Moment.now(cluster.journal), REGISTRY, DEPLOYMENTS, "web", "default")

    assert len({line.about.name for line in story.lines if line.about.kind == "replicasets.apps"}) == 3
    revisions = [line.revision for line in story.lines if line.revision]
    assert revisions == sorted(revisions)
    begun: set[str] = {
        line.about.name for line in story.lines if line.about.kind not in (PODS.text, "replicasets.apps")
    }
    for line in story.lines:
        names = [line.about.name, *line.others]
        if line.what is LineKind.CREATED:
            begun.update(names)
        assert begun.issuperset(names), line
        assert all(name.rpartition("-")[0] == names[0].rpartition("-")[0] for name in names), line
        if line.what is LineKind.CREATED and line.about.kind == PODS.text:
            causes = [story.lines[link.line - 1].about.words for link in line.causes if link.line]
            assert line.owner in causes


async def test_a_crash_loop_is_told_in_a_few_lines_however_long_it_goes_on(sim: Simulation):
    async with a_cluster(sim, {"node-a": an_acting_node("node-a", 1)}) as cluster:
        cluster.world.machines["node-a"].behave = lambda _: Behaviour(lasts=seconds(1), code=4)
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 1))
        await tasks.sleep(seconds(300))

        story = await timeline(await Moment.now(cluster.journal), REGISTRY, DEPLOYMENTS, "web", "default")

    told = [line for line in story.lines if line.about.kind == PODS.text and not line.is_detail]
    waits = [line for line in told if "CrashLoopBackOff" in line.text or "BackOff" in line.text]
    assert [(line.what, line.is_going_on, line.count >= 4) for line in waits] == [(LineKind.FAILED, True, True)]
    again = [line for line in told if " restarted (restart " in line.text]
    assert [(line.what, line.text) for line in again] == [
        (LineKind.READY, f"container main restarted (restart {again[0].count}); is ready")
    ]
    assert len(told) <= 8
    assert len(story_text(story)) <= 25


async def _run_and_remove(cluster: Cluster) -> str:
    await cluster.client.create(DEPLOYMENTS, a_workload("web", 1))
    await tasks.sleep(seconds(20))
    [pod] = (await cluster.client.list(PODS, "default")).items
    await cluster.client.patch(DEPLOYMENTS, "web", "default", {"spec": {"replicas": 0}})
    await tasks.sleep(seconds(30))
    return str(pod["metadata"]["name"])


async def _beginning_at(whole: MemoryJournal, moment: Moment) -> MemoryJournal:
    """A journal that has only what came after a moment, and the state at it."""
    entries = []
    for kind, prefix in (("deployments.apps", "apps/deployments/"), ("replicasets.apps", "apps/replicasets/")):
        state = await whole.state({kind: moment.revision})
        for key, stored in state.kinds[kind].items():
            entries.append(EntryRecord(f"{prefix}{key.namespace}/{key.name}", stored.revision, stored.value))
    late = MemoryJournal(moment.revision, entries)
    for change in (await whole.changes(after=moment.revision)).records:
        late.change(change)
    for record in whole.records(lambda each: each.at >= micros(moment.at)):
        late.decided(record)
    return late
