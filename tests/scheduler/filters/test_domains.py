"""Filters that judge zones and other domains as a whole: topology spread and zone quotas."""

from typing import Any

import pytest

from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.decide import decide
from mainstay.scheduler.pod_class import pod_to_place
from mainstay.scheduler.policy import DEFAULT
from mainstay.scheduler.reasons import Cure, Placed, Refusal, RefusalReason, Unschedulable
from mainstay.scheduler.what_if import Objects, build_columns
from tests.scheduler.objects import a_node, a_pod, a_zone_quota, required_affinity, spread_over

Object = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
WEB = {"app": "web"}


def allowed(objects: Objects, pod: Object) -> list[str]:
    """Which nodes can take a pod: each is asked for by name, which spread constraints do not look at."""
    found = []
    for node in objects.nodes:
        name = node["metadata"]["name"]
        asked = {**pod, "spec": {**pod["spec"], "nodeName": name}}
        if isinstance(decide(Vectors(build_columns(objects)), pod_to_place(asked), DEFAULT, "s"), Placed):
            found.append(name)
    return found


def webs(**nodes: int) -> tuple[Object, ...]:
    """So many pods of the app `web` on each node."""
    return tuple(a_pod(f"{n}-{i}", node=n, labels=WEB) for n, count in nodes.items() for i in range(count))


def spreading(*constraints: Object, **more: Any) -> Object:
    return a_pod(labels=WEB, topologySpreadConstraints=list(constraints), **more)


A1, A2 = a_node("a1", zone="a"), a_node("a2", zone="a")
B1, C1 = a_node("b1", zone="b"), a_node("c1", zone="c")
NO_ZONE = a_node("x1")
SPREAD: dict[str, tuple[tuple[Object, ...], tuple[Object, ...], Object, list[str]]] = {
    "nothing is there": ((A1, B1, C1), (), spreading(spread_over(ZONE)), ["a1", "b1", "c1"]),
    "one zone is ahead": ((A1, B1, C1), webs(a1=1), spreading(spread_over(ZONE)), ["b1", "c1"]),
    "two zones are ahead": ((A1, B1, C1), webs(a1=1, b1=1), spreading(spread_over(ZONE)), ["c1"]),
    "all are level": ((A1, B1), webs(a1=2, b1=2), spreading(spread_over(ZONE)), ["a1", "b1"]),
    "a zone is counted as a whole": ((A1, A2, B1), webs(a1=1), spreading(spread_over(ZONE)), ["b1"]),
    "a larger skew": ((A1, B1), webs(a1=1), spreading(spread_over(ZONE, max_skew=2)), ["a1", "b1"]),
    "a larger skew, used up": ((A1, B1), webs(a1=2), spreading(spread_over(ZONE, max_skew=2)), ["b1"]),
    "nodes without the label": ((A1, NO_ZONE), (), spreading(spread_over(ZONE)), ["a1"]),
    "pods on nodes without the label do not count": (
        (A1, B1, NO_ZONE),
        webs(x1=5),
        spreading(spread_over(ZONE)),
        ["a1", "b1"],
    ),
    "pods of another namespace": (
        (A1, B1),
        (a_pod("o", namespace="other", node="a1", labels=WEB),),
        spreading(spread_over(ZONE)),
        ["a1", "b1"],
    ),
    "pods that the selector does not match": (
        (A1, B1),
        (a_pod("o", node="a1", labels={"app": "db"}),),
        spreading(spread_over(ZONE)),
        ["a1", "b1"],
    ),
    "pods that are about to end": (
        (A1, B1),
        (a_pod("o", node="a1", labels=WEB, deleting=True),),
        spreading(spread_over(ZONE)),
        ["a1", "b1"],
    ),
    "a selector that is absent matches nothing": (
        (A1, B1),
        webs(a1=3),
        spreading(spread_over(ZONE, app=None)),
        ["a1", "b1"],
    ),
    "an empty selector matches all": (
        (A1, B1),
        (a_pod("o", node="a1"),),
        spreading(spread_over(ZONE, app=None, labelSelector={})),
        ["b1"],
    ),
    "a pod that does not match itself": (
        (A1, B1),
        webs(a1=1),
        a_pod(labels={"app": "db"}, topologySpreadConstraints=[spread_over(ZONE)]),
        ["a1", "b1"],
    ),
    "hosts": ((A1, A2, B1), webs(a1=1, b1=1), spreading(spread_over(HOSTNAME)), ["a2"]),
    "zones and hosts": ((A1, A2, B1), webs(a1=1), spreading(spread_over(ZONE), spread_over(HOSTNAME)), ["b1"]),
    "a full node's zone still counts": (
        (A1, a_node("b1", zone="b", pods="0"), C1),
        webs(a1=1, c1=1),
        spreading(spread_over(ZONE)),
        [],
    ),
    "too few domains: the least is nothing": (
        (A1, B1),
        webs(a1=1, b1=1),
        spreading(spread_over(ZONE, minDomains=3)),
        [],
    ),
    "enough domains": (
        (A1, B1, C1),
        webs(a1=1, b1=1, c1=1),
        spreading(spread_over(ZONE, minDomains=3)),
        ["a1", "b1", "c1"],
    ),
    "a soft constraint refuses no pod": ((A1, B1), webs(a1=5), spreading(spread_over(ZONE, hard=False)), ["a1", "b1"]),
    "the zone of a node that the affinity forbids is none": (
        (A1, B1),
        webs(a1=1),
        spreading(spread_over(ZONE), affinity=required_affinity([(ZONE, "In", ["a"])])),
        ["a1"],
    ),
    "unless the affinity is ignored": (
        (A1, B1),
        webs(a1=1),
        spreading(spread_over(ZONE, nodeAffinityPolicy="Ignore"), affinity=required_affinity([(ZONE, "In", ["a"])])),
        [],
    ),
    "the zone of a node with a taint is one": (
        (A1, a_node("b1", zone="b", taints=["t:NoSchedule"])),
        webs(a1=1),
        spreading(spread_over(ZONE)),
        [],
    ),
    "unless taints are honored": (
        (A1, a_node("b1", zone="b", taints=["t:NoSchedule"])),
        webs(a1=1),
        spreading(spread_over(ZONE, nodeTaintsPolicy="Honor")),
        ["a1"],
    ),
    "only pods with the same value of a label": (
        (A1, B1),
        (a_pod("o", node="a1", labels={**WEB, "version": "1"}),),
        a_pod(
            labels={**WEB, "version": "2"},
            topologySpreadConstraints=[spread_over(ZONE, matchLabelKeys=["version", "missing"])],
        ),
        ["a1", "b1"],
    ),
    "labels to match beside no selector": (
        (A1, B1),
        (a_pod("o", node="a1", labels={"version": "2"}),),
        a_pod(
            labels={"version": "2"}, topologySpreadConstraints=[spread_over(ZONE, app=None, matchLabelKeys=["version"])]
        ),
        ["b1"],
    ),
    "a selector with expressions": (
        (A1, B1),
        webs(a1=1),
        spreading(
            spread_over(
                ZONE,
                app=None,
                labelSelector={"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]},
            )
        ),
        ["b1"],
    ),
}


@pytest.mark.parametrize("case", SPREAD)
def test_pods_are_spread_within_the_skew(case: str) -> None:
    nodes, pods, pod, wanted = SPREAD[case]

    assert allowed(Objects(nodes, pods), pod) == wanted


def test_a_skew_is_told_with_what_is_allowed_and_what_it_would_be() -> None:
    nodes = (A1, a_node("b1", zone="b", pods="0"), NO_ZONE)
    decision = decide(
        Vectors(build_columns(Objects(nodes, webs(a1=3)))), pod_to_place(spreading(spread_over(ZONE))), DEFAULT, "s"
    )

    assert isinstance(decision, Unschedulable)
    plugin, labels = "PodTopologySpread", (Cure.NODE_ADDED, Cure.NODE_LABELS)
    assert [each for each in decision.refusals if each.plugin == plugin] == [
        Refusal(RefusalReason.TOPOLOGY_LABEL_MISSING, plugin, ("x1",), labels, ZONE),
        Refusal(
            RefusalReason.SKEW_TOO_LARGE,
            plugin,
            ("a1",),
            (*labels, Cure.NODE_REMOVED, Cure.NODE_TAINTS, Cure.POD_REMOVED, Cure.POD_PLACED, Cure.POD_LABELS),
            ZONE,
            1,
            (4,),
        ),
    ]
    assert set(decision.cures) > {Cure.POD_PLACED, Cure.POD_REMOVED}


QUOTAS: dict[str, tuple[tuple[Object, ...], tuple[Object, ...], Object, list[str]]] = {
    "enough is left": ((a_zone_quota("a", cpu="2"),), (), a_pod(cpu="2"), ["a1", "b1", "x1"]),
    "too little is left": ((a_zone_quota("a", cpu="2"),), (), a_pod(cpu="3"), ["b1", "x1"]),
    "requests are the same": ((a_zone_quota("a", requests__cpu="2"),), (), a_pod(cpu="3"), ["b1", "x1"]),
    "limits are not looked at": ((a_zone_quota("a", limits__cpu="1"),), (), a_pod(cpu="3"), ["a1", "b1", "x1"]),
    "pods in the zone use it": (
        (a_zone_quota("a", cpu="2"),),
        (a_pod("o", node="a1", cpu="1"),),
        a_pod(cpu="1500m"),
        ["b1", "x1"],
    ),
    "pods elsewhere do not": (
        (a_zone_quota("a", cpu="2"),),
        (a_pod("o", node="b1", cpu="1"),),
        a_pod(cpu="1500m"),
        ["a1", "b1", "x1"],
    ),
    "pods of other namespaces do not": (
        (a_zone_quota("a", cpu="2"),),
        (a_pod("o", namespace="other", node="a1", cpu="1"),),
        a_pod(cpu="1500m"),
        ["a1", "b1", "x1"],
    ),
    "pods that are over do not": (
        (a_zone_quota("a", cpu="2"),),
        (a_pod("o", node="a1", cpu="1", phase="Succeeded"),),
        a_pod(cpu="1500m"),
        ["a1", "b1", "x1"],
    ),
    "a quota of another namespace": (
        (a_zone_quota("a", namespace="other", cpu="0"),),
        (),
        a_pod(cpu="1"),
        ["a1", "b1", "x1"],
    ),
    "so many pods": (
        (a_zone_quota("a", pods="1"),),
        (a_pod("o", node="a1"),),
        a_pod(),
        ["b1", "x1"],
    ),
    "what is not asked for is not used up": (
        (a_zone_quota("a", cpu="1"),),
        (a_pod("o", node="a1", cpu="2"),),
        a_pod(memory="1Gi"),
        ["a1", "b1", "x1"],
    ),
    "the tighter of two": (
        (a_zone_quota("a", name="one", cpu="4"), a_zone_quota("a", name="two", cpu="1")),
        (),
        a_pod(cpu="2"),
        ["b1", "x1"],
    ),
    "both zones": ((a_zone_quota("a", cpu="1"), a_zone_quota("b", name="b", cpu="1")), (), a_pod(cpu="2"), ["x1"]),
    "a zone that is not there": ((a_zone_quota("z", cpu="0"),), (), a_pod(cpu="2"), ["a1", "b1", "x1"]),
}


@pytest.mark.parametrize("case", QUOTAS)
def test_a_zone_takes_what_the_quota_leaves(case: str) -> None:
    quotas, pods, pod, wanted = QUOTAS[case]

    assert allowed(Objects((A1, B1, NO_ZONE), pods, zone_quotas=quotas), pod) == wanted


def test_a_quota_is_told_with_what_is_wanted_and_what_is_left() -> None:
    objects = Objects((A1, A2), (a_pod("o", node="a1", cpu="1"),), zone_quotas=(a_zone_quota("a", cpu="2500m"),))

    decision = decide(Vectors(build_columns(objects)), pod_to_place(a_pod(cpu="2")), DEFAULT, "s")

    assert isinstance(decision, Unschedulable)
    cures = (Cure.NODE_ADDED, Cure.NODE_LABELS, Cure.POD_REMOVED, Cure.ZONE_QUOTA)
    assert decision.refusals == (
        Refusal(RefusalReason.ZONE_QUOTA_EXCEEDED, "ZoneQuota", ("a1", "a2"), cures, "a/cpu", 2000, (1500, 1500)),
    )
