"""What is decided about a ReplicaSet: whole decisions, from plain objects."""

from datetime import timedelta

from mainstay.api.kind_names import PODS
from mainstay.api.object_key import ObjectKey
from mainstay.client.errors import Conflict, Forbidden, Unavailable
from mainstay.controllers.pods.slots import Vacant
from mainstay.controllers.replicaset.controller import BURST, new_pod
from mainstay.loop.conditions import Condition, Truth
from mainstay.loop.decision import DONE, Create, Decision, Delete, Patch, WakeAt
from mainstay.loop.freshness import Freshness
from tests.controllers.objects import NOON, REPLICA_SETS, Object, a_pod, a_reference, a_set, a_view, at

KEY = ObjectKey("default", "set")


def decide(replica_set: Object, *pods: Object, **more) -> Decision:
    view = a_view(REPLICA_SETS, sets=[replica_set, *more.pop("others", ())], pods=pods, **more)
    return REPLICA_SETS.decide(view, KEY, None)


def created(decision: Decision) -> list[tuple[str, str]]:
    """The slots of the pods that are made, and whom they replace."""
    found = []
    for action in decision.actions:
        assert isinstance(action, Create)
        notes = action.object["metadata"]["annotations"]
        found.append((notes["mainstay.dev/slot"], notes.get("mainstay.dev/replaces", "")))
    return found


def test_what_is_missing_is_made_in_free_slots_several_at_once():
    replica_set = a_set(replicas=3, has=0)

    decision = decide(replica_set, a_pod("p1", slot=1))

    assert decision.actions == (
        Create(PODS, new_pod(replica_set, Vacant(0))),
        Create(PODS, new_pod(replica_set, Vacant(2))),
    )
    assert decision.at_once
    assert decision.result == DONE


def test_a_pod_is_what_the_template_says_and_belongs_to_the_set():
    pod = new_pod(a_set(), Vacant(4, "p0"))

    assert pod["spec"] == {"containers": [{"name": "main", "image": "web:1"}]}
    assert pod["metadata"]["labels"] == {"app": "web"}
    assert pod["metadata"]["annotations"] == {"mainstay.dev/slot": "4", "mainstay.dev/replaces": "p0"}
    (reference,) = pod["metadata"]["ownerReferences"]
    assert reference == {**a_reference("ReplicaSet", "set"), "blockOwnerDeletion": True}


def test_pods_that_are_over_or_leave_are_replaced_and_do_not_count():
    decision = decide(
        a_set(replicas=3),
        a_pod("p0", slot=0, phase="Failed"),
        a_pod("p1", slot=1, leaving=True),
        a_pod("p2", slot=2),
    )

    assert created(decision) == [("0", "p0"), ("1", "p1")]
    assert decision.status["replicas"] == 1
    assert decision.status["terminatingReplicas"] == 1


def test_the_same_decision_made_twice_names_the_same_pods():
    pods = [a_pod("p0", slot=0, phase="Failed")]

    assert decide(a_set(replicas=5), *pods).actions == decide(a_set(replicas=5), *reversed(pods)).actions


def test_what_is_too_much_is_drained_by_uid_and_costs_least():
    decision = decide(a_set(replicas=1), a_pod("p0"), a_pod("p1", ready=False), a_pod("p2", cost=-1))

    # Neither of the ready ones is the last of its zone as long as the other is there; the older one is kept. The one
    # that is not ready goes only if it has not changed since.
    assert decision.actions == (
        Delete(PODS, ObjectKey("default", "p1"), "p1", resource_version="2", freshness=Freshness.FRESH_READ),
        Delete(PODS, ObjectKey("default", "p2"), "p2", freshness=Freshness.FRESH_READ),
    )


def test_no_more_than_a_burst_at_a_time():
    assert len(decide(a_set(replicas=BURST + 7)).actions) == BURST


def test_at_rest_nothing_is_done_and_only_what_has_changed_is_said():
    decision = decide(a_set(replicas=2), a_pod("p0", slot=0), a_pod("p1", slot=1))

    assert decision == Decision(
        status={
            "replicas": 2,
            "fullyLabeledReplicas": 2,
            "readyReplicas": 2,
            "availableReplicas": 2,
            "terminatingReplicas": 0,
            "observedGeneration": 1,
            "conditions": None,
        }
    )


def test_a_pod_counts_as_available_when_it_has_been_ready_for_long_enough_and_not_before():
    pods = [a_pod("p0", ready_at=-30), a_pod("p1", ready_at=-5), a_pod("p2", ready_at=-1), a_pod("p3", ready=False)]

    decision = decide(a_set(replicas=4, minReadySeconds=10), *pods)

    assert (decision.status["readyReplicas"], decision.status["availableReplicas"]) == (3, 1)
    assert decision.result == WakeAt(NOON + timedelta(seconds=5), "a pod becomes available")


def test_pods_that_lack_a_label_of_the_template_are_not_fully_labelled():
    replica_set = a_set(replicas=2)
    replica_set["spec"]["template"]["metadata"]["labels"] = {"app": "web", "tier": "front"}
    pods = [a_pod("p0"), a_pod("p1", labels={"app": "web", "tier": "front", "more": "x"})]

    assert decide(replica_set, *pods).status["fullyLabeledReplicas"] == 1


# Whose they are.


def test_an_orphan_that_matches_is_taken_over_before_anything_is_made():
    decision = decide(a_set(replicas=2), a_pod("stray", owner=""), a_pod("other", owner="", labels={"app": "db"}))

    (patch,) = decision.actions
    assert isinstance(patch, Patch)
    assert (patch.key.name, patch.uid, patch.resource_version) == ("stray", "stray", "1")
    assert patch.body["metadata"]["ownerReferences"] == [
        {**a_reference("ReplicaSet", "set"), "blockOwnerDeletion": True}
    ]


def test_a_pod_that_does_not_match_any_more_is_let_go():
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"}
    pod = a_pod("p0", labels={"app": "debug"})
    pod["metadata"]["ownerReferences"].append(other)

    (patch,) = decide(a_set(replicas=1), pod).actions

    assert isinstance(patch, Patch)
    assert (patch.uid, patch.resource_version, patch.body) == ("p0", "1", {"metadata": {"ownerReferences": [other]}})


def test_what_is_over_or_leaves_or_belongs_to_another_is_not_taken():
    pods = [
        a_pod("over", owner="", phase="Succeeded"),
        a_pod("leaves", owner="", leaving=True),
        a_pod("theirs", owner="another"),
    ]

    assert created(decide(a_set(replicas=1), *pods)) == [("0", "")]


def test_a_set_that_is_deleted_makes_takes_and_drains_nothing():
    replica_set = a_set(replicas=1)
    replica_set["metadata"]["deletionTimestamp"] = at(0)

    decision = decide(replica_set, a_pod("p0"), a_pod("p1"), a_pod("stray", owner=""), a_pod("odd", labels={"a": "b"}))

    assert decision.actions == ()
    assert decision.status["replicas"] == 2


def test_a_deleted_replicaset_leads_to_no_decision():
    assert REPLICA_SETS.decide(a_view(REPLICA_SETS), KEY, None) == Decision()


def test_a_pod_that_was_let_go_keeps_its_name_and_its_successor_gets_another():
    let_go = new_pod(a_set(), Vacant(0))
    let_go = a_pod(let_go["metadata"]["name"], owner="", slot=0, labels={"app": "debug"})

    (action,) = decide(a_set(replicas=1), let_go).actions

    assert isinstance(action, Create)
    assert action.object["metadata"]["name"] != let_go["metadata"]["name"]


# What is refused.


def test_a_refused_pod_is_said_as_a_condition_until_a_round_succeeds():
    decision = decide(a_set(replicas=1))
    causes = [{"reason": "QuotaExceeded", "message": "exceeded quota: small"}]
    error = Forbidden("pods is forbidden: exceeded quota: small", status=403, details={"causes": causes})

    said = REPLICA_SETS.after_failure(decision, decision.actions[0], error)

    assert said.conditions == (
        Condition(
            "ReplicaFailure", Truth.TRUE, "FailedCreate", "pods is forbidden: exceeded quota: small", "QuotaExceeded"
        ),
    )
    assert "conditions" not in said.status
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}
    assert decide(a_set(replicas=1, conditions=[failure]), a_pod("p0")).status["conditions"] is None


def test_an_error_that_is_no_refusal_is_no_replica_failure():
    decision = decide(a_set(replicas=0), a_pod("p0"))

    for error in (Unavailable("no answer"), Conflict("another client was first", status=409)):
        assert REPLICA_SETS.after_failure(decision, decision.actions[0], error) is decision


# Failure domains.


def test_an_old_set_keeps_the_last_ready_pod_of_a_zone_that_its_successor_does_not_serve():
    nodes = [{"metadata": {"name": f"n-{zone}", "labels": {"topology.kubernetes.io/zone": zone}}} for zone in "abc"]
    old = a_set("set", replicas=1, owner="web", revision=1)
    new = a_set("new", replicas=2, owner="web", revision=2)
    labels = {"app": "web", "pod-template-hash": "set"}
    pods = [a_pod(f"old-{zone}", node=f"n-{zone}", labels=labels) for zone in "abc"]
    pods[2]["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"] = "-100"
    pods += [a_pod("new-a", owner="new", node="n-a"), a_pod("new-b", owner="new", node="n-b")]

    decision = decide(old, *pods, others=[new], nodes=nodes)

    assert [action.key.name for action in decision.actions if isinstance(action, Delete)] == ["old-a", "old-b"]
