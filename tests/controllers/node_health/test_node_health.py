"""What is decided about nodes: tables over a plain function."""

import itertools
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from mainstay.api.node_health import (
    NO_RECORD,
    NOT_READY,
    OUT_OF_SERVICE,
    PRESSURES,
    RELEASED,
    SUSPECTED,
    UNHEARD,
    UNREACHABLE,
    HealthState,
    NodeHealthRecord,
    record_in,
    render_record,
)
from mainstay.api.object_key import ObjectKey
from mainstay.api.taints import NO_EXECUTE, NO_SCHEDULE, Taint, stays_for
from mainstay.controllers.node_health import zones
from mainstay.controllers.node_health.decide import NODE_WRITES_MAX, decide, saying
from mainstay.controllers.node_health.evidence import read_facts
from mainstay.controllers.node_health.heartbeats import (
    Heard,
    Listening,
    first_heard,
    listening,
    with_lease,
    with_status,
)
from mainstay.controllers.node_health.plan import (
    HOLDER,
    Evict,
    MarkPod,
    NodeHealthMemory,
    NodeHealthPlan,
    NodeSnapshot,
    RemoveDeadPod,
    ReplacePods,
    Say,
    WriteNode,
)
from mainstay.loop.evidence import Evidence, Scope, Signal, Strength
from tests.controllers.node_health.nodes import LISTENING, READY, START, a_snapshot, at, heard_at, some_node
from tests.twins import found as twins

GONE = ("Unknown", UNHEARD, "no heartbeat from the node")
UNKNOWN = NodeHealthRecord(HealthState.UNKNOWN, "then", ("MissedHeartbeats sustained",), "", READY)
OTHERS = (some_node("n2", "b"), some_node("n3", "c"))
LONG = 10_000.0


def written(plan: NodeHealthPlan) -> list[WriteNode]:
    """Its steps, all of which write a node."""
    steps = [step for step in plan.steps if isinstance(step, WriteNode)]
    assert len(steps) == len(plan.steps)
    return steps


def with_permits(memory: NodeHealthMemory, now: float, *names: str) -> NodeHealthMemory:
    return structs.replace(
        memory, buckets={zone: zones.Bucket(zones.PERMIT, at(now)) for zone in names or ("a", "b", "c")}
    )


def a_pod(name: str, node: str = "n1", *, ready: str = "True", seconds: int | None = 300, leaving=False, single=False):
    tolerations = [
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": NO_EXECUTE}
        | ({"tolerationSeconds": seconds} if seconds is not None else {})
    ]
    metadata: dict[str, Any] = {"namespace": "default", "name": name, "uid": f"uid-{name}"}
    if leaving:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if single:
        metadata["annotations"] = {"mainstay.dev/at-most-one": "true"}
    conditions = [{"type": "Ready", "status": ready}]
    return {
        "metadata": metadata,
        "spec": {"nodeName": node, "tolerations": tolerations},
        "status": {"phase": "Running", "conditions": conditions},
    }


def decide_steps(snapshot: NodeSnapshot, memory: NodeHealthMemory = LISTENING):
    return decide(snapshot, memory).steps


# A node falls silent


def test_nodes_that_are_heard_are_left_alone():
    assert decide_steps(a_snapshot(1000, [some_node("n1"), *OTHERS], {})) == ()


def test_one_that_is_late_by_half_a_lease_is_suspected_and_nothing_else():
    snapshot = a_snapshot(1000, [some_node("n1"), *OTHERS], {"n1": 980}, [a_pod("p")])

    assert decide_steps(snapshot) == (
        WriteNode(
            "n1",
            "uid-n1",
            "7",
            HealthState.SUSPECT,
            add=(SUSPECTED,),
            record=NodeHealthRecord(
                HealthState.SUSPECT, evidence=("MissedHeartbeats hint", "silent for more than 20s"), ready=READY
            ),
            is_suspect=True,
        ),
    )


def test_one_that_is_late_by_less_is_not():
    assert decide_steps(a_snapshot(1000, [some_node("n1"), *OTHERS], {"n1": 980.1})) == ()


def test_one_that_is_silent_for_as_long_as_its_lease_is_unknown_and_keeps_its_pods():
    suspect = some_node(
        "n1", taints=[SUSPECTED], is_suspect=True, record=NodeHealthRecord(HealthState.SUSPECT, "then", ready=READY)
    )

    steps = decide_steps(a_snapshot(1000, [suspect, *OTHERS], {"n1": 960}, [a_pod("p")]))

    assert [(step.state, step.add, step.remove, step.ready, step.is_suspect) for step in steps] == [
        (HealthState.UNKNOWN, (UNREACHABLE,), (SUSPECTED,), GONE, False)
    ]
    assert steps[0].record.ready == READY


def test_its_pods_are_said_to_be_not_ready_once_the_node_is():
    unknown = some_node("n1", ready=GONE, taints=[UNREACHABLE], record=replace_held(UNKNOWN))
    snapshot = a_snapshot(1000, [unknown, *OTHERS], {"n1": 960}, [a_pod("p"), a_pod("q", ready="False")])

    message = "no heartbeat from the node"
    assert decide_steps(snapshot) == (MarkPod(ObjectKey("default", "p"), "uid-p", "Unknown", message),)


def replace_held(record: NodeHealthRecord) -> NodeHealthRecord:
    held = "waiting for a permit: the nodes of a zone are released one at a time"
    return NodeHealthRecord(record.state, record.since, record.evidence, held, record.ready)


def test_a_pod_is_not_said_to_be_not_ready_again_and_again():
    unknown = some_node("n1", ready=GONE, taints=[UNREACHABLE], record=replace_held(UNKNOWN))
    first = decide(a_snapshot(1000, [unknown, *OTHERS], {"n1": 960}, [a_pod("p")]), LISTENING)

    soon = decide(
        a_snapshot(1010, [unknown, *OTHERS], {"n1": 960}, [a_pod("p")]), structs.replace(first.memory, buckets={})
    )
    later = decide(
        a_snapshot(1040, [unknown, *OTHERS], {"n1": 960}, [a_pod("p")]), structs.replace(first.memory, buckets={})
    )

    assert (len(first.steps), len(soon.steps), len(later.steps)) == (1, 0, 1)


def test_it_is_released_with_a_permit_of_its_zone_after_a_fresh_look_at_its_lease():
    unknown = some_node("n1", ready=GONE, taints=[UNREACHABLE], record=UNKNOWN)
    snapshot = a_snapshot(1000, [unknown, *OTHERS], {"n1": heard_at(950, holder="n1", revision=17)})

    (step,) = decide_steps(snapshot, with_permits(LISTENING, 1000))

    assert (step.state, step.add, step.lease, step.record.state) == (
        HealthState.RELEASED,
        (RELEASED,),
        17,
        HealthState.RELEASED,
    )


def test_without_a_permit_it_waits_and_says_so():
    unknown = some_node("n1", ready=GONE, taints=[UNREACHABLE], record=UNKNOWN)

    (step,) = decide_steps(a_snapshot(1000, [unknown, *OTHERS], {"n1": 950}))

    assert (step.state, step.add, step.record.held) == (HealthState.UNKNOWN, (), replace_held(UNKNOWN).held)


def test_of_several_in_a_zone_the_one_that_is_silent_for_longest_goes_first():
    nodes = [some_node(name, ready=GONE, taints=[UNREACHABLE], record=replace_held(UNKNOWN)) for name in ("n1", "n4")]
    well = [some_node(f"w{number}") for number in range(3)]

    (step,) = decide_steps(
        a_snapshot(1000, [*nodes, *well, *OTHERS], {"n1": 950, "n4": 940}), with_permits(LISTENING, 1000)
    )

    assert (step.name, step.state) == ("n4", HealthState.RELEASED)


def test_one_that_is_heard_again_gets_back_what_it_said_and_loses_its_taints():
    released = some_node(
        "n1",
        ready=GONE,
        taints=[Taint("mine", "", NO_EXECUTE), UNREACHABLE, RELEASED],
        record=NodeHealthRecord(HealthState.RELEASED, "then", (), "", READY),
    )

    (step,) = decide_steps(a_snapshot(1000, [released, *OTHERS], {"n1": 999}))

    assert (step.state, step.remove, step.record, step.ready) == (
        HealthState.HEALTHY,
        (UNREACHABLE, RELEASED),
        NO_RECORD,
        READY,
    )


def test_what_a_node_says_about_itself_becomes_taints():
    _, disk = PRESSURES[1]
    ill = some_node("n1", ready=("False", "AgentStopping", ""), pressures=[disk])
    new = some_node("n4", ready=("", "", ""), taints=[NOT_READY])
    well = some_node("n5", taints=[NOT_READY, disk])

    steps = decide_steps(a_snapshot(1000, [ill, new, well, *OTHERS], {}, [a_pod("p")]))

    assert [(step.name, step.add, step.remove) for step in steps if isinstance(step, WriteNode)] == [
        ("n1", (disk, NOT_READY), ()),
        ("n5", (), (NOT_READY, disk)),
    ]
    assert [(step.uid, step.status) for step in steps if isinstance(step, MarkPod)] == [("uid-p", "False")]


# When it is us


def everyone_silent(record: NodeHealthRecord = UNKNOWN, *, taints=(UNREACHABLE,)):
    return [
        some_node(f"n{number}", zone, ready=GONE, taints=taints, record=record) for number, zone in enumerate("abc")
    ]


def test_when_every_node_is_silent_none_is_released_and_no_traffic_is_taken_away():
    nodes = everyone_silent()
    snapshot = a_snapshot(1000, nodes, dict.fromkeys(("n0", "n1", "n2"), 900.0), [a_pod("p", "n0")])

    plan = decide(snapshot, with_permits(LISTENING, 1000))

    why = "no node sends heartbeats, so this component is probably isolated itself"
    assert [(step.state, step.add, step.record and step.record.held) for step in written(plan)] == [
        (HealthState.UNKNOWN, (), why)
    ] * 3
    assert saying(LISTENING, plan.memory) == [Say("EvictionStopped", f"no pods are evicted from silent nodes: {why}")]


def test_what_was_released_before_that_is_taken_back():
    nodes = everyone_silent(
        NodeHealthRecord(HealthState.RELEASED, "then", (), "", READY), taints=(UNREACHABLE, RELEASED)
    )
    pods = [a_pod("p", "n0", seconds=0)]
    memory = structs.replace(LISTENING, taints_since={("uid-n0", str(RELEASED)): START})

    plan = decide(a_snapshot(1000, nodes, dict.fromkeys(("n0", "n1", "n2"), 900.0), pods), memory)

    assert [(step.state, step.remove) for step in written(plan)] == [(HealthState.UNKNOWN, (RELEASED,))] * 3


def test_when_we_are_isolated_no_node_is_judged():
    own = (Evidence(Signal.WATCH_DISCONNECTS, Strength.HINT, Scope.OURSELVES),)
    nodes = [some_node("n1", ready=GONE, taints=[UNREACHABLE], record=UNKNOWN), *OTHERS]

    plan = decide(a_snapshot(1000, nodes, {"n1": 900}, [a_pod("p")], own=own), with_permits(LISTENING, 1000))

    assert plan.steps == ()
    assert plan.memory.isolated == "this component may be isolated itself: WatchDisconnects"


def test_after_an_isolation_listening_starts_again():
    own = (Evidence(Signal.API_TIMEOUTS, Strength.REPEATED, Scope.OURSELVES),)
    nodes = [some_node("n1"), *OTHERS]
    isolated = decide(a_snapshot(1000, nodes, {}, own=own), LISTENING)

    plan = decide(a_snapshot(1100, nodes, {"n1": 1000, "n2": 1000, "n3": 1000}), isolated.memory)

    assert plan.steps == ()
    assert plan.memory.listening == Listening(at(1100))


SILENT = {"n0": 900.0, "n1": 900.0, "n2": 900.0}


def hear_the_first_again() -> NodeHealthPlan:
    """What is decided when one node is heard after all were silent."""
    nodes, memory = everyone_silent(), with_permits(LISTENING, 950)
    for now in (950, 951, 952, 953):
        memory = decide(a_snapshot(now, nodes, SILENT), memory).memory
    assert memory.isolated == "no node sends heartbeats, so this component is probably isolated itself"
    return decide(a_snapshot(954, nodes, {**SILENT, "n2": 953.5}), memory)


def test_the_first_node_that_is_heard_again_does_not_bring_down_the_others():
    back = hear_the_first_again()

    assert [(step.name, step.state) for step in written(back)] == [("n2", HealthState.HEALTHY)]
    nodes = [*everyone_silent()[:2], some_node("n2", "c")]
    later = decide(a_snapshot(994, nodes, {**SILENT, "n2": 993}), with_permits(back.memory, 994))
    assert [(step.name, step.state) for step in written(later)] == [
        ("n0", HealthState.RELEASED),
        ("n1", HealthState.RELEASED),
    ]


def test_silence_counted_from_before_the_first_heartbeat_brings_down_the_others(monkeypatch: pytest.MonkeyPatch):
    twins.counts_silence_from_before_the_first_heartbeat(monkeypatch)

    assert HealthState.RELEASED in {step.state for step in written(hear_the_first_again())}


@pytest.mark.parametrize(("gap", "begins"), [(1, 0), (2, 0), (2.1, 12.1), (60, 70)])
def test_a_short_gap_is_none(gap, begins):
    broken = listening(Listening(at(0)), False, at(10))

    assert listening(broken, True, at(10 + gap)) == Listening(at(begins))


def test_a_new_leader_judges_no_node_and_keeps_earlier_verdicts():
    unknown = some_node(
        "n1", ready=GONE, taints=[UNREACHABLE, RELEASED], record=NodeHealthRecord(HealthState.RELEASED, ready=READY)
    )
    heard = {name: first_heard(at(1000)) for name in ("n1", "n2", "n3")}
    pods = [a_pod("p", seconds=0)]

    for now in (1000, 1019, 1030):
        snapshot = a_snapshot(now, [unknown, *OTHERS], {**heard, "n2": float(now), "n3": float(now)}, pods)
        assert decide_steps(snapshot, structs.replace(LISTENING, listening=Listening(at(1000)))) == ()


# Pods of released nodes


RELEASED_NODE = some_node(
    "n1",
    ready=GONE,
    taints=[UNREACHABLE, RELEASED],
    record=NodeHealthRecord(HealthState.RELEASED, "then", (), "", READY),
)


@pytest.mark.parametrize(("seconds", "after", "is_evicted"), [(300, 299, False), (300, 300, True), (None, 9999, False)])
def test_they_are_removed_when_they_do_not_tolerate_it_any_longer(seconds, after, is_evicted):
    memory = structs.replace(LISTENING, taints_since={("uid-n1", str(RELEASED)): at(1000)})
    snapshot = a_snapshot(
        1000 + after, [RELEASED_NODE, *OTHERS], {"n1": 900}, [a_pod("p", ready="Unknown", seconds=seconds)]
    )

    evicted = [step.uid for step in decide_steps(snapshot, memory) if isinstance(step, Evict)]

    assert evicted == (["uid-p"] if is_evicted else [])


def test_how_long_they_tolerate_it_is_counted_from_when_we_see_it():
    first = decide(a_snapshot(1000, [RELEASED_NODE, *OTHERS], {"n1": 900}), LISTENING)

    assert first.memory.taints_since == {("uid-n1", str(RELEASED)): at(1000)}


def test_when_a_node_goes_again_its_pods_have_their_whole_time_again():
    pods = [a_pod("p", ready="Unknown")]
    gone = decide(a_snapshot(1000, [RELEASED_NODE, *OTHERS], {"n1": 900}), LISTENING)
    back = decide(a_snapshot(1100, [some_node("n1"), *OTHERS], {}), gone.memory)
    assert back.memory.taints_since == {}
    again = decide(a_snapshot(2000, [RELEASED_NODE, *OTHERS], {"n1": 1900}, pods), back.memory)
    later = decide(a_snapshot(2299, [RELEASED_NODE, *OTHERS], {"n1": 1900}, pods), again.memory)
    over = decide(a_snapshot(2300, [RELEASED_NODE, *OTHERS], {"n1": 1900}, pods), later.memory)

    evicted = [[step.uid for step in plan.steps if isinstance(step, Evict)] for plan in (again, later, over)]

    assert evicted == [[], [], ["uid-p"]]


@pytest.mark.parametrize(
    ("tolerations", "stays"),
    [
        ([], timedelta()),
        ([{"key": "k", "operator": "Exists"}], None),
        ([{"key": "k", "operator": "Exists", "effect": NO_SCHEDULE}], timedelta()),
        ([{"operator": "Exists", "effect": NO_EXECUTE, "tolerationSeconds": 5}], timedelta(seconds=5)),
        ([{"key": "k", "operator": "Exists", "effect": NO_EXECUTE, "tolerationSeconds": -5}], timedelta()),
        (
            [
                {"key": "k", "operator": "Exists", "effect": NO_EXECUTE, "tolerationSeconds": 9},
                {"key": "k", "operator": "Exists", "effect": NO_EXECUTE, "tolerationSeconds": 5},
            ],
            timedelta(seconds=9),
        ),
        ([{"key": "k", "operator": "Equal", "value": "other", "effect": NO_EXECUTE}], timedelta()),
        ([{"key": "k", "operator": "Equal", "value": "v", "effect": NO_EXECUTE}], None),
    ],
)
def test_how_long_a_pod_tolerates_a_taint(tolerations, stays):
    assert stays_for({"spec": {"tolerations": tolerations}}, [Taint("k", "v", NO_EXECUTE)]) == stays


def test_a_taint_of_another_writer_counts_on_any_node():
    mine = some_node("n1", taints=[Taint("mine", "", NO_EXECUTE)])

    (step,) = decide_steps(a_snapshot(1000, [mine, *OTHERS], {}, [a_pod("p"), a_pod("q", leaving=True)]))

    assert step == Evict(ObjectKey("default", "p"), "uid-p", "does not tolerate mine:NoExecute of n1 any longer")


def test_what_an_operator_says_is_off_has_ended():
    off = some_node("n1", ready=GONE, taints=[Taint(OUT_OF_SERVICE, "", NO_SCHEDULE), UNREACHABLE], record=UNKNOWN)
    on = some_node("n4", taints=[Taint(OUT_OF_SERVICE, "", NO_SCHEDULE)])
    pods = [a_pod("p", leaving=True, ready="Unknown"), a_pod("q", ready="Unknown"), a_pod("r", "n4", leaving=True)]

    steps = decide_steps(a_snapshot(1000, [off, on, *OTHERS], {"n1": 900}, pods))

    assert [step for step in steps if isinstance(step, RemoveDeadPod)] == [
        RemoveDeadPod(ObjectKey("default", "p"), "uid-p")
    ]


# At most one


@pytest.mark.parametrize(("silent_s", "may"), [(40, False), (41.04, False), (41.05, True)])
def test_an_at_most_one_pod_is_let_go_when_its_agent_must_have_ended_it(silent_s, may):
    pods = [a_pod("p", leaving=True, single=True, ready="Unknown"), a_pod("q", leaving=True, ready="Unknown")]
    heard = {"n1": heard_at(1000 - silent_s, holder="n1", revision=17)}

    steps = decide_steps(a_snapshot(1000, [RELEASED_NODE, *OTHERS], heard, pods))

    wanted = [ReplacePods("n1", 17, False, (RemoveDeadPod(ObjectKey("default", "p"), "uid-p"),))] if may else []
    assert [step for step in steps if isinstance(step, ReplacePods)] == wanted


def test_what_the_last_leader_has_begun_is_brought_to_an_end_at_once():
    heard = replace(first_heard(at(999)), holder=HOLDER, has_lease=True, lease=heard_at(999, revision=18).lease)
    pods = [a_pod("p", leaving=True, single=True, ready="Unknown")]

    steps = decide_steps(a_snapshot(1000, [RELEASED_NODE, *OTHERS], {"n1": heard}, pods))

    assert steps == (ReplacePods("n1", 18, True, (RemoveDeadPod(ObjectKey("default", "p"), "uid-p"),)),)


# Listening


def a_lease(revision: int, holder: str = "n1", **spec) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": str(revision)}, "spec": {"holderIdentity": holder, **spec}}


def test_the_first_lease_that_is_seen_is_no_heartbeat_and_the_next_one_is():
    first = with_lease(first_heard(at(0)), "n1", a_lease(5), at(1))
    again = with_lease(first, "n1", a_lease(5), at(2))
    renewed = with_lease(again, "n1", a_lease(6), at(3))

    assert (first.heartbeat_ns, again.heartbeat_ns, renewed.heartbeat_ns) == (None, None, at(3))


def test_what_others_write_into_a_lease_is_no_heartbeat_but_counts_for_fencing():
    first = with_lease(first_heard(at(0)), "n1", a_lease(5), at(1))

    taken = with_lease(first, "n1", a_lease(6, HOLDER), at(3))

    assert taken.lease is not None
    assert (taken.heartbeat_ns, taken.lease.seen_ns) == (None, at(3))


def test_the_times_in_a_lease_do_not_matter():
    times = ("2000-01-01T00:00:00.000000Z", "2100-01-01T00:00:00.000000Z")

    heard = [with_lease(first_heard(at(0)), "n1", a_lease(5, renewTime=each), at(1)) for each in times]

    assert heard[0] == heard[1]


def test_a_status_that_says_another_time_than_before_is_a_heartbeat():
    first = with_status(first_heard(at(0)), "then", at(1))

    assert (first.heartbeat_ns, with_status(first, "then", at(2)), with_status(first, "now", at(2)).heartbeat_ns) == (
        None,
        first,
        at(2),
    )


def test_a_record_is_read_as_it_was_written():
    node = {"metadata": {"annotations": {"mainstay.dev/health": render_record(UNKNOWN)}}}

    assert record_in(node) == UNKNOWN
    assert record_in({"metadata": {"annotations": {"mainstay.dev/health": "{"}}}) == NO_RECORD


def test_our_own_verdict_is_no_word_of_the_nodes():
    condition = {"type": "Ready", "status": "Unknown", "reason": UNHEARD, "lastHeartbeatTime": "then"}
    metadata = {"name": "n1", "uid": "u", "resourceVersion": "1"}

    assert read_facts({"metadata": metadata, "status": {"conditions": [condition]}}).status_marker == ""


# Whatever happens


class Cluster:
    """Nodes and a store that does what it is told, over many looks."""

    def __init__(self, count: int) -> None:
        self.nodes = {f"n{number}": some_node(f"n{number}", "abc"[number % 3]) for number in range(count)}
        self.heard: dict[str, Heard] = {name: heard_at(0, holder=name) for name in self.nodes}
        self.memory = NodeHealthMemory()
        self.pods = {name: a_pod(f"p-{name}", name, seconds=0) for name in self.nodes}
        self.releases: list[tuple[float, str]] = []

    def look(self, now: float, *, own=()) -> list[Any]:
        snapshot = a_snapshot(now, list(self.nodes.values()), dict(self.heard), self.pods.values(), own=own)
        plan = decide(snapshot, self.memory)
        self.memory = plan.memory
        for step in plan.steps:
            if isinstance(step, WriteNode):
                before = self.nodes[step.name]
                taints = tuple(taint for taint in before.taints if taint not in step.remove) + step.add
                if RELEASED in step.add:
                    self.releases.append((now, step.name))
                self.nodes[step.name] = replace(
                    before,
                    taints=taints,
                    record=before.record if step.record is None else step.record,
                    ready=before.ready if step.ready is None else step.ready,
                    is_suspect=before.is_suspect if step.is_suspect is None else step.is_suspect,
                    has_suspect=before.has_suspect or step.is_suspect is not None,
                )
        return list(plan.steps)


NAMES = [f"n{number}" for number in range(9)]
LIFE = st.lists(st.sets(st.sampled_from(NAMES)), min_size=5, max_size=60)
"""Who is heard, in each step of ten seconds."""


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(LIFE, st.lists(st.booleans(), min_size=60, max_size=60))
def test_no_node_is_released_too_soon_too_fast_or_while_isolated(life, isolated):
    cluster = Cluster(len(NAMES))
    last = dict.fromkeys(NAMES, 0.0)
    began = 0.0
    broken = (Evidence(Signal.WATCH_DISCONNECTS, Strength.HINT, Scope.OURSELVES),)
    was_isolated = False
    for step, alive in enumerate(life):
        now = 10.0 * (step + 1)
        for name in sorted(alive):
            last[name] = now
            cluster.heard[name] = replace(
                cluster.heard[name], heartbeat_ns=at(now), lease=heard_at(now, revision=step + 6).lease
            )
        is_isolated = isolated[step]
        steps = cluster.look(now, own=broken if is_isolated else ())
        if is_isolated:
            assert steps == []
        elif was_isolated or step == 0:
            began = now
        was_isolated = is_isolated
        for each in steps:
            name = getattr(each, "name", None) or getattr(each, "node", None)
            if isinstance(each, Evict | MarkPod):
                name = each.uid.removeprefix("uid-p-")
            is_verdict = isinstance(each, WriteNode) and each.state in (HealthState.UNKNOWN, HealthState.RELEASED)
            if is_verdict or isinstance(each, Evict | MarkPod | ReplacePods):
                assert now - max(last[name], began) >= 40
            if isinstance(each, Evict) or (isinstance(each, WriteNode) and RELEASED in each.add):
                assert any(now - last[other] < 20 for other in NAMES)
    for zone in "abc":
        times = [when for when, name in cluster.releases if cluster.nodes[name].zone == zone]
        assert all(later - earlier >= 10 for earlier, later in itertools.pairwise(times))


def test_once_all_are_heard_again_all_is_as_it_was():
    cluster = Cluster(len(NAMES))
    before = dict(cluster.nodes)
    for step in range(60):
        now = 10.0 * (step + 1)
        for name in NAMES[3:] if step < 40 else NAMES:
            cluster.heard[name] = replace(cluster.heard[name], heartbeat_ns=at(now))
        cluster.look(now)
        if step == 39:
            # All of one zone would be three; these are one of each.
            assert [name for _, name in cluster.releases] == ["n0", "n1", "n2"]

    assert {name: replace(node, has_suspect=False) for name, node in cluster.nodes.items()} == before


def test_an_outage_of_a_thousand_nodes_is_written_down_little_by_little():
    nodes = [some_node(f"n{number:04}", "a") for number in range(1000)] + [some_node("w", "b"), some_node("v", "b")]
    heard = {node.name: 0.0 for node in nodes[:1000]}

    assert len(decide_steps(a_snapshot(LONG, nodes, heard))) == NODE_WRITES_MAX
