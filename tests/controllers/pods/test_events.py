"""What people are told of what controllers do, as part of the decision to do it."""

from mainstay.api.object_key import ObjectKey
from mainstay.client.errors import Forbidden, Unavailable
from mainstay.loop.decision import Create, Decision, Patch, Tell
from tests.controllers.objects import (
    DEPLOYMENT_CONTROLLER,
    KEY,
    REPLICA_SETS,
    Object,
    a_deployment,
    a_pod,
    a_set,
    a_view,
)


def about_a_set(replica_set: Object, *pods: Object) -> Decision:
    view = a_view(REPLICA_SETS, sets=[replica_set], pods=pods)
    return REPLICA_SETS.decide(view, ObjectKey("default", "set"), None)


def about_a_deployment(deployment: Object, *sets: Object) -> Decision:
    view = a_view(DEPLOYMENT_CONTROLLER, deployments=[deployment], sets=sets)
    return DEPLOYMENT_CONTROLLER.decide(view, KEY, None)


def test_each_pod_that_is_made_is_told_of_once_it_is_made():
    decision = about_a_set(a_set(replicas=2))

    first, second = decision.actions
    assert isinstance(first, Create)
    assert isinstance(second, Create)
    assert decision.events == (
        Tell("SuccessfulCreate", f"Created pod: {first.object['metadata']['name']}", after=first),
        Tell("SuccessfulCreate", f"Created pod: {second.object['metadata']['name']}", after=second),
    )


def test_each_pod_that_is_drained_is_told_of():
    decision = about_a_set(a_set(replicas=0), a_pod("p0"))

    assert decision.events == (Tell("SuccessfulDelete", "Deleted pod: p0", after=decision.actions[0]),)


def test_a_set_that_has_what_it_wants_tells_nothing():
    assert about_a_set(a_set(replicas=1), a_pod("p0")).events == ()


def test_a_refused_pod_is_a_warning_and_other_failures_are_not():
    decision = about_a_set(a_set(replicas=1))
    (action,) = decision.actions

    refused = REPLICA_SETS.after_failure(decision, action, Forbidden("exceeded quota"))
    unanswered = REPLICA_SETS.after_failure(decision, action, Unavailable("no answer"))

    assert refused.events[-1] == Tell("FailedCreate", "Error creating: exceeded quota", is_warning=True)
    assert unanswered.events == decision.events


def test_a_deployment_tells_how_its_sets_change_in_size():
    made = about_a_deployment(a_deployment(3))
    (create, *_) = made.actions
    assert isinstance(create, Create)
    name = create.object["metadata"]["name"]
    assert made.events == (Tell("ScalingReplicaSet", f"Scaled up replica set {name} from 0 to 3", after=create),)

    own = a_set("set", 3, owner="web", desired=3)
    scaled = about_a_deployment(a_deployment(5), own)
    (patch,) = [each for each in scaled.actions if isinstance(each, Patch) and "spec" in each.body]
    assert scaled.events == (Tell("ScalingReplicaSet", "Scaled up replica set set from 3 to 5", after=patch),)
