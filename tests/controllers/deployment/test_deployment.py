"""What is decided about a Deployment: one step at a time, from plain objects."""

from typing import Any

from mainstay.api.kind_names import DEPLOYMENTS, REPLICASETS
from mainstay.client.errors import Forbidden
from mainstay.controllers.deployment.revisions import compute_hash
from mainstay.loop.decision import Create, Decision, Delete, Patch
from mainstay.loop.freshness import Freshness
from tests.controllers.objects import (
    DEPLOYMENT_CONTROLLER,
    KEY,
    Object,
    a_deployment,
    a_node,
    a_pod,
    a_set,
    a_template,
    a_view,
    at,
)

REVISION = "deployment.kubernetes.io/revision"
RECREATE = {"type": "Recreate"}
AT_ONE, AT_TWO = {REVISION: "1"}, {REVISION: "2"}


def decide(deployment: Object, *sets: Object, **more: Any) -> Decision:
    view = a_view(DEPLOYMENT_CONTROLLER, deployments=[deployment], sets=sets, **more)
    return DEPLOYMENT_CONTROLLER.decide(view, KEY, None)


def sizes(decision: Decision) -> dict[str, int]:
    """The sets that get another size, in the order in which they do."""
    return {
        action.key.name: action.body["spec"]["replicas"]
        for action in decision.actions
        if isinstance(action, Patch) and action.kind == REPLICASETS and "replicas" in action.body.get("spec", {})
    }


def made(decision: Decision) -> Object:
    (action,) = [each for each in decision.actions if isinstance(each, Create)]
    return action.object


def an_old(replicas: int, **more: Any) -> Object:
    given = {"owner": "web", "image": "web:1", "revision": 1, "created_at": -900, "desired": 10, **more}
    return a_set("old", replicas, **given)


def a_new(replicas: int, **more: Any) -> Object:
    return a_set("new", replicas, **{"owner": "web", "image": "web:2", "revision": 2, "desired": 10, **more})


def ten(**more: Any) -> Object:
    """Ten replicas, of the second image; up to 13 at a time, at least 8 of them available."""
    return a_deployment(10, **{"image": "web:2", "annotations": AT_TWO, **more})


# Rolling.


def test_a_new_deployment_gets_a_set_of_its_full_size_and_a_revision():
    decision = decide(a_deployment(3))

    found = made(decision)
    assert found["metadata"]["name"] == f"web-{compute_hash(a_template(), 0)}"
    assert found["spec"]["replicas"] == 3
    assert decision.actions[1:] == (
        Patch(DEPLOYMENTS, KEY, "web", {"metadata": {"annotations": AT_ONE}}, freshness=Freshness.MAY_BE_STALE),
    )


def test_a_new_template_gets_a_set_as_large_as_the_surge():
    decision = decide(ten(annotations=AT_ONE), an_old(10))

    assert made(decision)["spec"]["replicas"] == 3
    assert made(decision)["metadata"]["annotations"][REVISION] == "2"
    assert sizes(decision) == {}


def test_first_the_new_set_grows_and_then_the_old_one_shrinks():
    assert sizes(decide(ten(), an_old(8), a_new(3))) == {"new": 5}
    assert sizes(decide(ten(), an_old(8), a_new(5))) == {"old": 3}


def test_an_old_set_shrinks_only_in_the_version_that_was_seen_and_a_new_one_grows_in_any():
    (grows,) = decide(ten(), an_old(8), a_new(3)).actions
    (shrinks,) = decide(ten(), an_old(8), a_new(5)).actions

    assert isinstance(grows, Patch)
    assert isinstance(shrinks, Patch)
    assert (grows.resource_version, shrinks.resource_version) == ("", "1")


def test_what_a_set_was_told_to_give_up_does_not_count_as_available_any_more():
    # It says that 8 are available, and was told to have 6: those two are on their way out.
    decision = decide(ten(), an_old(6, has=8, available=8), a_new(7))

    assert sizes(decision) == {"old": 1}


def test_no_healthy_pod_goes_for_what_a_set_has_said_of_its_past():
    # It says that 8 are available, from before it was told to have 5, and 7 again: it is unknown how many it has.
    new = a_new(7, has=8, available=8, generation=3, observed=1)

    held = decide(ten(), an_old(6), new)

    assert held.actions == ()
    assert held.reasons == ("waiting for the status of new",)
    assert sizes(decide(ten(), an_old(6), a_new(7, has=7, available=5, generation=3))) == {"old": 3}
    assert sizes(decide(ten(), an_old(8), a_new(3, generation=3, observed=1))) == {"new": 5}


def test_the_size_says_what_it_was_made_for():
    (patch,) = decide(ten(), an_old(8), a_new(3, most=9)).actions

    assert isinstance(patch, Patch)
    assert patch.body == {
        "metadata": {"annotations": {"deployment.kubernetes.io/max-replicas": "13"}},
        "spec": {"replicas": 5},
    }


def test_at_rest_nothing_is_done():
    done = decide(ten(), an_old(0), a_new(10)).status
    decision = decide(ten(status=done), an_old(0), a_new(10))

    assert decision.actions == ()
    assert decision.status == done


def test_going_back_makes_the_earlier_set_the_newest_again():
    deployment = a_deployment(10, image="web:1", annotations=AT_TWO)

    decision = decide(deployment, an_old(8, most=13), a_new(5, available=0))

    first, _, last = decision.actions
    history = "deployment.kubernetes.io/revision-history"
    assert isinstance(first, Patch)
    assert (first.key.name, first.body) == ("old", {"metadata": {"annotations": {REVISION: "3", history: "1"}}})
    assert sizes(decision) == {"new": 0}  # Its pods do not work, and are not missed.
    assert last == Patch(
        DEPLOYMENTS, KEY, "web", {"metadata": {"annotations": {REVISION: "3"}}}, freshness=Freshness.MAY_BE_STALE
    )


def test_a_late_rollout_neither_grows_nor_takes_old_pods_while_its_own_do_not_work():
    late = {
        "type": "Progressing",
        "status": "False",
        "reason": "ProgressDeadlineExceeded",
        "message": 'ReplicaSet "new" has timed out progressing.',
        "replicaSet": "new",
        "lastUpdateTime": at(-5),
        "lastTransitionTime": at(-5),
    }
    sets = (an_old(8, available=7), a_new(3, available=0))

    assert decide(ten(status={"replicas": 11, "conditions": [late]}), *sets).actions == ()
    assert sizes(decide(ten(), *sets)) == {"new": 5}
    # Undone, it is another rollout.
    undone = a_deployment(10, image="web:1", annotations=AT_TWO, status={"conditions": [late]})
    assert sizes(decide(undone, *sets)) == {"old": 10}


def test_other_sets_of_the_same_name_give_way_to_another_name():
    taken = a_set(f"web-{compute_hash(a_template(), 0)}", 1, owner="another", image="other:1")

    decision = decide(a_deployment(3), taken)

    assert made(decision)["metadata"]["name"] == f"web-{compute_hash(a_template(), 1)}"
    assert decision.status["collisionCount"] == 1


def test_sets_beyond_the_history_go_when_all_is_done_and_not_before():
    older = a_set("older", 0, owner="web", image="web:0", revision=1, created_at=-2000)
    deployment = ten(revisionHistoryLimit=1)
    old = an_old(0, revision=2, image="web:x")

    (gone,) = decide(deployment, older, old, a_new(10, revision=3)).actions[1:]
    assert gone == Delete(
        REPLICASETS, KEY._replace(name="older"), "older", resource_version="1", freshness=Freshness.FRESH_READ
    )
    assert all(not isinstance(each, Delete) for each in decide(deployment, older, old, a_new(10, available=9)).actions)


def test_a_set_that_may_not_be_made_is_why_nothing_moves():
    decision = decide(a_deployment(3))

    found = DEPLOYMENT_CONTROLLER.after_failure(decision, decision.actions[0], Forbidden("no quota", status=403))

    (condition,) = found.conditions
    assert (condition.type, condition.status, condition.reason) == ("Progressing", "False", "ReplicaSetCreateError")


# Failure domains.


def test_a_rollback_keeps_the_only_ready_pod_of_a_zone_until_another_is_ready_there():
    nodes = [a_node(f"n-{zone}", zone) for zone in "abc"]
    # Back to `old`. What is undone has the only ready pod in zone c.
    deployment = a_deployment(6, image="web:1", surge=2, unavailable=1, annotations={REVISION: "3"})
    bad = a_new(2, available=2, desired=6)
    pods = [
        a_pod(f"good-{number}", owner="old", node=f"n-{zone}", labels={"app": "web", "pod-template-hash": "old"})
        for number, zone in enumerate("aabba")
    ]
    labels = {"app": "web", "pod-template-hash": "new"}
    pods += [
        a_pod("bad-a", owner="new", node="n-a", labels=labels),
        a_pod("bad-c", owner="new", node="n-c", labels=labels),
    ]
    late = a_pod("good-5", owner="old", node="n-c", ready=False, labels={"app": "web", "pod-template-hash": "old"})

    good = an_old(6, available=5, revision=3, desired=6)
    assert sizes(decide(deployment, good, bad, pods=[*pods, late], nodes=nodes)) == {"new": 1}
    last = a_new(1, available=1, desired=6)
    remaining = [pod for pod in pods if pod["metadata"]["name"] != "bad-a"]
    held = decide(deployment, good, last, pods=[*remaining, late], nodes=nodes)
    assert sizes(held) == {}
    assert held.reasons == ("keeping old pods that are the last in their failure domain",)
    ready = a_pod("good-5", owner="old", node="n-c", labels={"app": "web", "pod-template-hash": "old"})
    good = an_old(6, available=6, revision=3, desired=6)
    assert sizes(decide(deployment, good, last, pods=[*remaining, ready], nodes=nodes)) == {"new": 0}


# Recreate.


def test_to_recreate_all_old_pods_go_first_and_must_be_gone():
    deployment = ten(strategy=RECREATE)

    assert sizes(decide(deployment, an_old(10))) == {"old": 0}
    assert decide(deployment, an_old(0, has=4)).actions == ()
    assert decide(deployment, an_old(0, terminating=1)).actions == ()
    assert decide(deployment, an_old(0, generation=3, observed=2)).actions == ()
    assert made(decide(deployment, an_old(0)))["spec"]["replicas"] == 10


def test_a_recreated_set_follows_the_number_of_replicas():
    assert sizes(decide(ten(strategy=RECREATE), an_old(0), a_new(7, desired=7))) == {"new": 10}


# Another number of replicas.


def test_one_set_takes_all_of_a_new_number():
    assert sizes(decide(ten(), an_old(0), a_new(4, desired=4))) == {"new": 10}
    assert sizes(decide(a_deployment(0, image="web:2", annotations=AT_TWO), an_old(0), a_new(4, desired=4))) == {
        "new": 0
    }


def test_two_sets_share_a_new_number_in_proportion_before_the_rollout_goes_on():
    deployment = a_deployment(20, image="web:2", annotations=AT_TWO, surge=0)

    decision = decide(deployment, an_old(5, most=10), a_new(5, most=10))

    assert sizes(decision) == {"new": 10, "old": 10}


def test_two_sets_share_a_smaller_number_only_when_both_have_said_what_they_have():
    # The new one says that 5 are available, from before it was told to have 2, and 5 again: maybe only 2 are.
    deployment = a_deployment(4, image="web:2", annotations=AT_TWO, surge=0)
    new = a_new(5, most=10, generation=3, observed=1)

    held = decide(deployment, an_old(5, most=10), new)

    assert held.actions == ()
    assert held.reasons == ("scaling to 4 replicas, waiting for the status of new",)
    assert sizes(decide(deployment, an_old(5, most=10), a_new(5, most=10, generation=3))) == {"new": 2, "old": 2}


def test_when_the_new_set_has_all_the_old_ones_get_nothing():
    new = a_new(10, desired=10)

    assert sizes(decide(ten(), an_old(2, desired=9), new)) == {"old": 0}


# Paused.


def test_a_paused_deployment_makes_no_new_set_and_still_follows_the_number_of_replicas():
    deployment = a_deployment(12, image="web:2", annotations=AT_ONE, paused=True)

    decision = decide(deployment, an_old(10))

    assert not any(isinstance(each, Create) for each in decision.actions)
    assert sizes(decision) == {"old": 12}


def test_a_paused_rollout_stays_as_it_is():
    assert sizes(decide(ten(paused=True), an_old(8, most=13), a_new(5, most=13))) == {}


# Whose they are.


def test_an_orphaned_set_that_matches_is_taken_over_first():
    (patch,) = decide(a_deployment(3), a_set("stray", 3)).actions

    assert isinstance(patch, Patch)
    assert (patch.kind, patch.key.name, patch.uid, patch.resource_version) == (REPLICASETS, "stray", "stray", "1")


def test_a_deployment_that_is_deleted_moves_nothing():
    deployment = ten()
    deployment["metadata"]["deletionTimestamp"] = at(0)

    assert decide(deployment, an_old(8), a_new(3)).actions == ()


def test_a_deleted_deployment_leads_to_no_decision():
    assert DEPLOYMENT_CONTROLLER.decide(a_view(DEPLOYMENT_CONTROLLER), KEY, None) == Decision()
