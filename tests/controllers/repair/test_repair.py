"""What repair finds and does: tables over a plain function."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.kind_names import NAMESPACES, RESERVATIONS
from mainstay.api.object_key import ObjectKey
from mainstay.controllers.node_health.heartbeats import first_heard, without_node
from mainstay.controllers.node_health.plan import HOLDER, RemoveDeadPod, ReplacePods
from mainstay.controllers.repair.decide import (
    GONE_FOR,
    STEPS_MAX,
    STUCK_AFTER,
    ReleaseReservation,
    RemoveStranded,
    RepairFault,
    RepairFinding,
    RepairMemory,
    RepairSnapshot,
    ReplaceStranded,
    ReportFinding,
    decide,
    describe_workloads,
    summarize,
)
from mainstay.loop.conditions import Condition, Truth
from tests.controllers.node_health.nodes import START, at, heard_at

DEPLOYMENT = ("Deployment", ObjectKey("default", "risk-api"))


def a_reservation(name: str = "r", *, uid: str = "d1", pod: str = "", phase: str = "Active", kind: str = "Deployment"):
    spec = {"nodeName": "n1", "workload": {"kind": kind, "name": "risk-api", "uid": uid}, "intent": "replica-042"}
    if pod:
        spec["pod"] = {"name": pod, "uid": f"uid-{pod}"}
    metadata = {"namespace": "default", "name": name, "uid": f"uid-{name}", "resourceVersion": "7"}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def a_pod(name: str, *, single: bool = False, owner: str = ""):
    metadata: dict[str, Any] = {"namespace": "default", "name": name, "uid": f"uid-{name}"}
    if single:
        metadata["annotations"] = {"mainstay.dev/at-most-one": "true"}
    if owner:
        metadata["ownerReferences"] = [{"uid": owner, "controller": True}]
    return {"metadata": metadata, "spec": {"nodeName": "gone"}}


def leaving(name: str):
    metadata = {"name": name, "uid": f"uid-{name}", "deletionTimestamp": "then", "finalizers": ["example.com/wait"]}
    return NAMESPACES, {"metadata": metadata}


def over(snapshot: RepairSnapshot, seconds: float):
    """The plan when the same has been seen for so long."""
    first = decide(snapshot, RepairMemory())
    return decide(replace(snapshot, now_ns=snapshot.now_ns + round(seconds * 1e9)), first.memory)


def test_a_reservation_is_released_when_its_workload_has_been_gone_for_a_while():
    snapshot = RepairSnapshot(START, [a_reservation()])
    owner = ("Deployment", ObjectKey("default", "risk-api"), "d1")
    wanted = ReleaseReservation(ObjectKey("default", "r"), "uid-r", "7", owner)

    assert decide(snapshot, RepairMemory()).steps == ()
    assert over(snapshot, 39.9).steps == ()
    assert over(snapshot, 40).steps == (wanted,)


def test_one_that_comes_back_meanwhile_starts_its_count_again():
    gone, there = (
        RepairSnapshot(START, [a_reservation()]),
        RepairSnapshot(at(20), [a_reservation()], {DEPLOYMENT: "d1"}),
    )
    seen = decide(there, decide(gone, RepairMemory()).memory)

    assert seen.findings == ()
    assert decide(RepairSnapshot(at(41), [a_reservation()]), seen.memory).steps == ()


def test_another_workload_of_that_name_is_not_its_owner():
    assert [
        each.fault
        for each in decide(RepairSnapshot(START, [a_reservation()], {DEPLOYMENT: "d2"}), RepairMemory()).findings
    ] == [RepairFault.ORPHANED_RESERVATION]


def test_what_is_over_or_belongs_to_an_unknown_kind_is_left_alone():
    snapshot = RepairSnapshot(START, [a_reservation(phase="Confirmed"), a_reservation("s", kind="Website")])

    assert over(snapshot, 1000).findings == ()


def test_one_whose_pod_is_gone_is_released_though_the_workload_is_there():
    snapshot = RepairSnapshot(START, [a_reservation(pod="p")], {DEPLOYMENT: "d1"})

    (step,) = over(snapshot, 40).steps

    assert step.owner == ("Pod", ObjectKey("default", "p"), "uid-p")


def test_pods_of_a_node_that_is_not_there_are_removed_after_a_while():
    snapshot = RepairSnapshot(START, stranded={"gone": [a_pod("p")]}, heard={"gone": first_heard(START)})

    assert over(snapshot, 39).steps == ()
    assert over(snapshot, 40).steps == (RemoveStranded("gone", RemoveDeadPod(ObjectKey("default", "p"), "uid-p")),)


def test_a_node_that_was_there_between_two_looks_is_gone_since_then():
    snapshot = RepairSnapshot(START, stranded={"gone": [a_pod("p")]}, heard={"gone": first_heard(START)})
    was_there = replace(snapshot, heard={"gone": without_node(first_heard(START), at(37))})
    memory = decide(snapshot, RepairMemory()).memory

    assert decide(replace(was_there, now_ns=at(40)), memory).steps == ()
    assert decide(replace(was_there, now_ns=at(76.9)), memory).steps == ()
    assert len(decide(replace(was_there, now_ns=at(77)), memory).steps) == 1


def test_at_most_one_pods_wait_until_the_lease_of_their_node_has_run_out():
    heard = heard_at(30, holder="gone", revision=17)
    snapshot = RepairSnapshot(START, stranded={"gone": [a_pod("p", single=True)]}, heard={"gone": heard})
    pods = (RemoveDeadPod(ObjectKey("default", "p"), "uid-p"),)

    assert over(snapshot, 60).steps == ()
    assert over(snapshot, 72).steps == (ReplaceStranded(ReplacePods("gone", 17, False, pods)),)


def test_they_go_at_once_when_the_lease_is_ours_already():
    heard = heard_at(39, holder=HOLDER, revision=18)
    snapshot = RepairSnapshot(START, stranded={"gone": [a_pod("p", single=True)]}, heard={"gone": heard})
    pods = (RemoveDeadPod(ObjectKey("default", "p"), "uid-p"),)

    assert over(snapshot, 40).steps == (ReplaceStranded(ReplacePods("gone", 18, True, pods)),)


def test_stuck_finalizers_are_told_of_once_and_never_removed():
    snapshot = RepairSnapshot(START, leaving=[leaving("old")])
    soon = over(snapshot, 599)
    late = over(snapshot, 600)
    later = decide(replace(snapshot, now_ns=at(700)), late.memory)

    assert (soon.steps, soon.findings) == ((), ())
    message = "it was deleted at then and is blocked by finalizers: example.com/wait"
    finding = RepairFinding(RepairFault.STUCK_FINALIZERS, NAMESPACES, ObjectKey("", "old"), "uid-old", message)
    assert (late.steps, late.findings) == ((ReportFinding(finding),), (finding,))
    assert (later.steps, later.findings) == ((), (finding,))


def test_what_is_found_is_said_for_the_workload_that_it_holds_up():
    deployments = [
        {"metadata": {"namespace": "default", "name": name, "uid": uid, "generation": 42}}
        for name, uid in (("risk-api", "d1"), ("web", "d2"))
    ]
    sets = [{"metadata": {"uid": "s2", "ownerReferences": [{"uid": "d2", "controller": True}]}}]
    snapshot = RepairSnapshot(START, [a_reservation()], stranded={"gone": [a_pod("p", owner="s2")]})

    findings = decide(snapshot, RepairMemory()).findings

    assert describe_workloads(deployments, sets, findings) == {
        "Deployment/default/risk-api": {
            "observedGeneration": 42,
            "RepairComplete": "False",
            "reason": "OrphanedReservation",
        },
        "Deployment/default/web": {"observedGeneration": 42, "RepairComplete": "False", "reason": "VanishedNode"},
    }
    assert describe_workloads(deployments[:1], sets, ()) == {
        "Deployment/default/risk-api": {"observedGeneration": 42, "RepairComplete": "True"}
    }


def test_repair_is_complete_when_nothing_is_left():
    one = RepairFinding(
        RepairFault.ORPHANED_RESERVATION, RESERVATIONS, ObjectKey("default", "r"), "uid-r", "it is lost"
    )

    assert summarize(()) == Condition("RepairComplete", Truth.TRUE, "NothingLeft", "nothing to repair")
    assert summarize((one, one)) == Condition(
        "RepairComplete", Truth.FALSE, "OrphanedReservation", "Reservation default/r: it is lost; and 1 more"
    )


@given(st.lists(st.tuples(st.integers(0, 30), st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30))), max_size=40))
def test_nothing_is_done_before_its_time_and_never_much_at_once(life):
    """Pods strand and come back, and namespaces get stuck, in any order."""
    memory, now = RepairMemory(), 0.0
    since: dict[str, float] = {}
    for wait, pods, stuck in life:
        now += wait
        present = {f"uid-p{number}" for number in pods} | {f"uid-x{number}" for number in stuck}
        since = {uid: since.get(uid, now) for uid in present}
        snapshot = RepairSnapshot(
            at(now),
            stranded={"gone": [a_pod(f"p{number}") for number in sorted(pods)]} if pods else {},
            heard={"gone": first_heard(START)},
            leaving=[leaving(f"x{number}") for number in sorted(stuck)],
        )
        plan = decide(snapshot, memory)
        memory = plan.memory
        assert len(plan.steps) <= 2 * STEPS_MAX
        for step in plan.steps:
            assert isinstance(step, RemoveStranded | ReportFinding)
            uid = step.pod.uid if isinstance(step, RemoveStranded) else step.finding.uid
            least = GONE_FOR if isinstance(step, RemoveStranded) else STUCK_AFTER
            assert timedelta(seconds=now - since[uid]) >= least
