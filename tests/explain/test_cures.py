"""The smallest change that lets a pod run: each kind of it, on views of a few nodes."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from mainstay.api.object_key import ObjectKey
from mainstay.explain.cures.values import CureKind, TriedCure
from mainstay.loop import deletion_order
from mainstay.scheduler.policy import DEFAULT
from mainstay.scheduler.reasons import Placed
from mainstay.scheduler.what_if import Objects, what_if
from mainstay.scheduler.why.cures.search import find_cures
from mainstay.scheduler.why.cures.trial import (
    Edit,
    GhostsGone,
    NodeAdded,
    NodeEdit,
    PodEdit,
    PodsGone,
    QuotaEdit,
    ReservationGone,
    Trial,
    applied,
)
from tests.scheduler.objects import a_node, a_pod, a_reservation, a_zone_quota, required_affinity, spread_over
from tests.scheduler.random_clusters import ZONE, random_node, random_objects, random_pod, with_random_ghosts

Object = dict[str, Any]
SEED = "seed"


def found(objects: Objects, pod: Object) -> tuple[TriedCure, ...]:
    return find_cures(objects, pod, DEFAULT, SEED)


def by_change(objects: Objects, pod: Object) -> dict[tuple[CureKind, ...], TriedCure]:
    return {cure.changes: cure for cure in found(objects, pod)}


def of_deployment(pod: Object, name: str, digits: str = "5f6d") -> Object:
    """A pod of a Deployment, by way of its ReplicaSet."""
    metadata = pod["metadata"]
    owner = {"kind": "ReplicaSet", "name": f"{name}-{digits}", "uid": f"uid-{name}", "controller": True}
    labels = {**metadata.get("labels", {}), "pod-template-hash": digits}
    return {**pod, "metadata": {**metadata, "ownerReferences": [owner], "labels": labels}}


def running(pod: Object) -> Object:
    return {**pod, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}


def test_a_pod_that_has_a_place_needs_no_cure() -> None:
    assert found(Objects(nodes=(a_node("n1"),)), a_pod(cpu="1")) == ()


def test_a_cordon_is_taken_off() -> None:
    cure = found(Objects(nodes=(a_node("n1", unschedulable=True),)), a_pod(cpu="1"))[0]
    assert cure.changes == (CureKind.UNCORDON,)
    assert cure.sentence == "uncordon n1: then n1 can take it"
    assert (cure.command, cure.nodes, cure.node) == ("kubectl uncordon n1", ("n1",), "n1")


def test_a_cordoned_node_with_its_own_taint_needs_one_change() -> None:
    node = a_node("n1", unschedulable=True, taints=["node.kubernetes.io/unschedulable:NoSchedule"])
    assert found(Objects(nodes=(node,)), a_pod())[0].changes == (CureKind.UNCORDON,)


def test_a_taint_is_tolerated_by_the_workload_or_taken_off_a_node() -> None:
    nodes = tuple(a_node(f"n{number}", taints=["gpu=yes:NoSchedule"]) for number in range(1, 6))
    own = [{"key": "old", "operator": "Exists"}]
    admitted = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}
    cures = by_change(Objects(nodes=nodes), of_deployment(a_pod("web-1", tolerations=[*own, admitted]), "web"))
    tolerated, untainted = cures[CureKind.TOLERATE,], cures[CureKind.UNTAINT,]
    assert tolerated.sentence == (
        "add a toleration for gpu=yes:NoSchedule: then 5 nodes can take it (n1, n2, n3 and 2 more)"
    )
    assert tolerated.command == (
        "kubectl patch deployment web -n default -p "
        '\'{"spec":{"template":{"spec":{"tolerations":[{"key":"old","operator":"Exists"},'
        '{"key":"gpu","operator":"Equal","value":"yes","effect":"NoSchedule"}]}}}}\''
    )
    assert untainted.command == "kubectl taint node n1 gpu=yes:NoSchedule-"
    assert untainted.nodes == ("n1",)


def test_an_immutable_pod_gets_advice_without_a_command() -> None:
    cures = by_change(Objects(nodes=(a_node(taints=["gpu:NoSchedule"]),)), a_pod())
    assert cures[CureKind.TOLERATE,].command == ""
    assert "delete and recreate it" in cures[CureKind.TOLERATE,].sentence


def test_taints_of_health_are_waited_for_and_never_tolerated() -> None:
    node = a_node("n1", taints=["node.kubernetes.io/not-ready:NoSchedule", "node.kubernetes.io/not-ready:NoExecute"])
    cures = by_change(Objects(nodes=(node,)), of_deployment(a_pod(), "web"))
    assert set(cures) == {(CureKind.WAIT_FOR_NODE,), (CureKind.ADD_NODE,)}
    assert cures[CureKind.WAIT_FOR_NODE,].is_wait
    assert cures[CureKind.WAIT_FOR_NODE,].command == "mainstay why node/n1"


def test_a_request_is_lowered_to_what_is_free_where_most_is() -> None:
    nodes = (a_node("n1", cpu="2"), a_node("n2", cpu="4"))
    pods = (a_pod("a", node="n2", cpu="500m", phase="Running"),)
    cure = by_change(Objects(nodes=nodes, pods=pods), of_deployment(a_pod(cpu="4"), "web"))[CureKind.LOWER_REQUEST,]
    assert cure.sentence == "lower its request for cpu from 4 to 3500m: then n2 can take it"
    assert cure.command == "kubectl set resources deployment/web -n default -c main --requests=cpu=3500m"


def test_several_resources_that_are_short_are_lowered_together() -> None:
    pod = of_deployment(a_pod(cpu="5", memory="9Gi"), "web")
    cure = by_change(Objects(nodes=(a_node(),)), pod)[CureKind.LOWER_REQUEST,]
    assert "cpu from 5 to 4 and memory from 9Gi to 8Gi" in cure.sentence
    assert cure.command.endswith("--requests=cpu=4,memory=8Gi")


def test_no_advice_to_ask_for_next_to_nothing() -> None:
    assert (CureKind.LOWER_REQUEST,) not in by_change(Objects(nodes=(a_node(cpu="100m"),)), a_pod(cpu="4"))


def test_a_node_is_labelled_as_the_pod_asks() -> None:
    nodes = (a_node("n1"), a_node("n2", labels={"disk": "slow"}))
    cure = by_change(Objects(nodes=nodes), a_pod(nodeSelector={"disk": "fast"}))[CureKind.LABEL_NODE,]
    assert cure.command == "kubectl label node n1 disk=fast"
    assert cure.nodes == ("n1",)


def test_a_label_that_says_something_else_is_overwritten_only_when_asked_to() -> None:
    nodes = (a_node("n2", labels={"disk": "slow"}),)
    cures = by_change(Objects(nodes=nodes), of_deployment(a_pod(nodeSelector={"disk": "fast"}), "web"))
    assert cures[CureKind.LABEL_NODE,].command == "kubectl label node n2 disk=fast --overwrite"
    selected = cures[CureKind.SELECT_OTHERS,]
    assert selected.sentence == "select disk=slow instead of fast: then n2 can take it"
    assert selected.command == (
        'kubectl patch deployment web -n default -p \'{"spec":{"template":{"spec":{"nodeSelector":{"disk":"slow"}}}}}\''
    )


def test_advice_never_relabels_the_zone_or_the_name_of_a_node() -> None:
    nodes = (a_node("n1", zone="a"),)
    for selector in ({ZONE: "b"}, {"kubernetes.io/hostname": "n7"}, {"kubernetes.io/arch": "arm64"}):
        assert (CureKind.LABEL_NODE,) not in by_change(Objects(nodes=nodes), a_pod(nodeSelector=selector))


def test_required_affinity_is_met_by_the_fewest_labels() -> None:
    affinity = required_affinity([("disk", "In", ["fast"]), ("cores", "Gt", ["4"])], [("disk", "Exists", [])])
    cure = by_change(Objects(nodes=(a_node("n1"),)), a_pod(affinity=affinity))[CureKind.LABEL_NODE,]
    assert cure.command == "kubectl label node n1 disk=true"


def test_a_zone_quota_is_raised_by_what_is_missing() -> None:
    quotas = (a_zone_quota("a", name="small", cpu="2"), a_zone_quota("a", name="large", requests__cpu="5"))
    pods = (a_pod("old", node="n1", cpu="1500m", phase="Running"),)
    objects = Objects(nodes=(a_node("n1", zone="a", cpu="16"),), pods=pods, zone_quotas=quotas)
    cure = by_change(objects, a_pod(cpu="1"))[CureKind.RAISE_ZONE_QUOTA,]
    assert cure.sentence == "raise zone quota small (a): cpu to 2500m: then n1 can take it"
    assert cure.command == (
        'kubectl patch zonequota small -n default --type=merge -p \'{"spec":{"hard":{"cpu":"2500m"}}}\''
    )


def test_what_those_before_it_would_take_is_no_cure_for_it() -> None:
    """Another pod has waited for longer, and gets the first room that there is."""
    first = a_pod("first", cpu="1")
    pod = a_pod("second", cpu="1")
    pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    quota = (a_zone_quota("a", cpu="2"),)
    pods = (running(a_pod("old", node="n1", cpu="2")), first)
    objects = Objects(nodes=(a_node("n1", zone="a", cpu="16"),), pods=pods, zone_quotas=quota)
    assert by_change(objects, first)[CureKind.RAISE_ZONE_QUOTA,].sentence.startswith(
        "raise zone quota quota (a): cpu to 3"
    )
    assert by_change(objects, pod)[CureKind.RAISE_ZONE_QUOTA,].sentence.startswith(
        "raise zone quota quota (a): cpu to 4"
    )
    cordoned = Objects(nodes=(a_node("n1", cpu="1", unschedulable=True),), pods=(first,))
    assert (CureKind.UNCORDON,) in by_change(cordoned, first)
    assert (CureKind.UNCORDON,) not in by_change(cordoned, pod)


def test_a_skew_is_allowed_to_be_larger() -> None:
    nodes = (a_node("n1", zone="a"), a_node("n2", zone="b", cpu="0"))
    pods = (a_pod("old", node="n1", labels={"app": "web"}, phase="Running"),)
    pod = of_deployment(a_pod(labels={"app": "web"}, cpu="1", topologySpreadConstraints=[spread_over(ZONE)]), "web")
    cure = by_change(Objects(nodes=nodes, pods=pods), pod)[CureKind.RELAX_SPREAD,]
    assert cure.sentence == f"allow a skew of 2 over {ZONE} (now 1): then n1 can take it"


def test_a_reservation_that_ends_is_waited_for() -> None:
    reservation = a_reservation("r1", "n1", namespace="other", cpu="3")
    reservation["spec"]["expiresAt"] = "2026-01-01T00:05:00Z"
    cure = found(Objects(nodes=(a_node("n1"),), reservations=(reservation,)), a_pod(cpu="2"))[0]
    assert cure.changes == (CureKind.WAIT_FOR_RESERVATION,)
    assert cure.is_wait
    assert cure.until == "2026-01-01T00:05:00Z"
    assert cure.command == "kubectl delete reservation r1 -n other"


def test_pods_that_are_ending_are_waited_for() -> None:
    pods = (a_pod("old", node="n1", cpu="3", phase="Running", deleting=True),)
    cure = found(Objects(nodes=(a_node("n1"),), pods=pods), a_pod(cpu="2"))[0]
    assert cure.changes == (CureKind.WAIT_FOR_PODS,)
    assert cure.sentence == "wait until default/old on n1 has terminated: then n1 can take it"
    assert cure.until == "2026-01-01T00:00:00Z"


def test_ghosts_are_waited_for() -> None:
    ghost = {"uid": "g", "namespace": "default", "name": "g", "resources": {"cpu": "3", "pods": "1"}}
    objects = Objects(nodes=(a_node("n1"),), unconfirmed=(("n1", (ghost,)),))
    cure = found(objects, a_pod(cpu="2"))[0]
    assert cure.changes == (CureKind.WAIT_FOR_GHOSTS,)
    assert cure.sentence == "wait until n1 confirms that 1 force-deleted pod has terminated: then n1 can take it"


def test_another_workload_is_scaled_down_by_as_few_as_are_enough() -> None:
    """Its controller would first take the one on n2, where most of them are; the one on n1 is the third to go."""
    pods = [of_deployment(running(a_pod(f"b{n}", node="n2", cpu="1")), "batch") for n in range(3)]
    pods.append(of_deployment(running(a_pod("b3", node="n1", cpu="3")), "batch"))
    objects = Objects(nodes=(a_node("n1"), a_node("n2", cpu="3")), pods=tuple(pods))
    cure = by_change(objects, a_pod(cpu="3"))[CureKind.SCALE_DOWN,]
    assert cure.command.startswith("kubectl scale deployment/batch -n default --replicas=")
    left = int(cure.command.rpartition("=")[2])
    gone = deletion_order.chosen(pods, 4 - left, zones={})
    kept = objects.with_changes(without_pods=[ObjectKey("default", pod["metadata"]["name"]) for pod in gone])
    assert isinstance(what_if(kept, [a_pod(cpu="3")], DEFAULT, SEED)[0], Placed)


def test_the_fewest_pods_are_removed_and_where_they_are_recreated_is_said() -> None:
    pods = (
        of_deployment(running(a_pod("big", node="n1", cpu="3")), "db"),
        running(a_pod("small", node="n2", cpu="500m")),
        running(a_pod("small-2", node="n2", cpu="500m")),
    )
    objects = Objects(nodes=(a_node("n1"), a_node("n2", cpu="4")), pods=pods)
    cure = by_change(objects, a_pod(cpu="4"))[CureKind.REMOVE_PODS,]
    assert cure.sentence == ("delete default/big on n1: then n1 can take it, and 1 replacement fits on n2")
    assert cure.command == "kubectl delete pod -n default big"


def test_a_pod_that_would_return_to_the_same_room_is_not_removed() -> None:
    """The next one is made at once, and takes its place again before the room is seen to be free."""
    pods = (of_deployment(running(a_pod("big", node="n1", cpu="3")), "db"),)
    assert (CureKind.REMOVE_PODS,) not in by_change(Objects(nodes=(a_node("n1"),), pods=pods), a_pod(cpu="4"))


def test_pods_of_a_higher_priority_stay() -> None:
    pods = (running(a_pod("important", node="n1", cpu="3", priority=1000)),)
    assert (CureKind.REMOVE_PODS,) not in by_change(Objects(nodes=(a_node("n1"),), pods=pods), a_pod(cpu="2"))


def test_the_holder_of_the_port_is_removed() -> None:
    port = [{"containerPort": 80, "hostPort": 80}]
    pods = (running(a_pod("a", node="n1", ports=port)), running(a_pod("b", node="n1")))
    cure = by_change(Objects(nodes=(a_node("n1"),), pods=pods), a_pod(ports=port))[CureKind.REMOVE_PODS,]
    assert cure.command == "kubectl delete pod -n default a"


def test_two_changes_are_found_when_one_is_not_enough() -> None:
    node = a_node("n1", cpu="2", taints=["gpu:NoSchedule"], unschedulable=True)
    cures = found(Objects(nodes=(node,)), of_deployment(a_pod(cpu="1"), "web"))
    assert cures[0].changes == (CureKind.UNCORDON, CureKind.TOLERATE)
    assert cures[0].sentence == "uncordon n1 and add a toleration for gpu:NoSchedule: then n1 can take it"
    assert cures[0].command.startswith("kubectl uncordon n1 && kubectl patch deployment web")
    assert all(len(cure.changes) == 2 or cure.changes == (CureKind.ADD_NODE,) for cure in cures)


def test_where_there_are_no_nodes_one_is_added() -> None:
    cure = found(Objects(), a_pod(cpu="2", memory="1Gi"))[0]
    assert cure.sentence == "add a node with at least cpu 2, memory 1Gi: then it fits there"


def test_a_node_that_would_not_do_is_not_suggested() -> None:
    """A spread over zones, of which the low one is full: another node in the high one does not help."""
    nodes = (a_node("n1", zone="a"), a_node("n2", zone="b", cpu="1"))
    pods = (
        running(a_pod("old", node="n1", labels={"app": "web"})),
        running(a_pod("full", node="n2", cpu="1", priority=9)),
    )
    pod = a_pod(labels={"app": "web"}, cpu="1", topologySpreadConstraints=[spread_over(ZONE)])
    cure = by_change(Objects(nodes=nodes, pods=pods), pod)[CureKind.ADD_NODE,]
    assert cure.sentence == f"add one more node like n1, labelled {ZONE}=b: then it fits there"


def test_a_reservation_that_keeps_a_pod_from_elsewhere_is_waited_for() -> None:
    reservation = a_reservation("r1", "n1", cpu="1")
    objects = Objects(nodes=(a_node("n1", cpu="1"), a_node("n2")), reservations=(reservation,))
    cures = by_change(objects, a_pod(cpu="2", reservation="r1"))
    assert cures[CureKind.WAIT_FOR_RESERVATION,].nodes == ("n2",)


@pytest.mark.parametrize("seed", range(150))
def test_what_a_trial_says_is_what_the_scheduler_would_decide(seed: int) -> None:
    """Columns that were changed and changed back again, against columns made for the question."""
    random = Random(seed)
    objects = with_random_ghosts(random, random_objects(random))
    pod = random_pod(random, "new")
    trial = Trial(objects, pod, DEFAULT, SEED)
    for _ in range(8):
        edits = _some_edits(random, objects)
        changed, asked = applied(objects, pod, edits)
        expected = what_if(changed, [asked], DEFAULT, SEED)[0]
        outcome = trial.outcome(edits)
        assert outcome.node == (expected.node if isinstance(expected, Placed) else "")
        assert (outcome.node in outcome.nodes) is bool(outcome.node)
    assert trial.decision() == what_if(objects, [pod], DEFAULT, SEED)[0]


def _some_edits(random: Random, objects: Objects) -> list[Edit]:
    names = [node["metadata"]["name"] for node in objects.nodes]
    other = random_node(random, "other")
    edits: list[Edit] = [
        NodeEdit(random.choice(names), lambda node: {**node, "spec": {}}),
        NodeEdit(random.choice(names), lambda node: {**node, "status": other["status"]}),
        NodeAdded(random_node(random, "added")),
        GhostsGone(random.choice(names)),
        PodEdit(lambda pod: {**pod, "spec": {**pod["spec"], "nodeSelector": {}}}),
        PodsGone(tuple(random.sample(objects.pods, min(len(objects.pods), 2)))),
    ]
    edits += [ReservationGone(each) for each in objects.reservations]
    for quota in objects.zone_quotas:
        raised = {**quota, "spec": {**quota["spec"], "hard": {"cpu": "9"}}}
        edits.append(QuotaEdit(quota, raised))
    return random.sample(edits, random.randint(0, 3))


@pytest.mark.parametrize("seed", range(150))
def test_every_cure_of_a_random_cluster_is_true_when_it_is_tried_afresh(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    objects = with_random_ghosts(random, random_objects(random))
    pod = random_pod(random, "new")
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = random.choice(("2", "3", "8"))
    tried: list[tuple[list[Edit], str]] = []
    outcome = Trial.outcome

    def noting(self: Trial, edits: list[Edit], replacements: Any = ()) -> Any:
        answer = outcome(self, edits, replacements)
        if not replacements:
            tried.append((list(edits), answer.node))
        return answer

    monkeypatch.setattr(Trial, "outcome", noting)
    cures = found(objects, pod)
    assert len(tried) <= 150
    for edits, node in tried:
        changed, asked = applied(objects, pod, edits)
        expected = what_if(changed, [asked], DEFAULT, SEED)[0]
        assert node == (expected.node if isinstance(expected, Placed) else "")
    worked = {node for _, node in tried if node}
    assert {cure.node for cure in cures if CureKind.REMOVE_PODS not in cure.changes} <= worked
    assert [cure.cost for cure in cures] == sorted(cure.cost for cure in cures)
    if isinstance(what_if(objects, [pod], DEFAULT, SEED)[0], Placed):
        assert cures == ()


def test_the_same_view_gives_the_same_cures() -> None:
    random = Random(7)
    objects = random_objects(random)
    pod = random_pod(random, "new")
    shuffled = list(objects.nodes)
    random.shuffle(shuffled)
    assert found(objects, pod) == found(replace(objects, nodes=tuple(shuffled)), pod)
