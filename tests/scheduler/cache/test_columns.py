"""Columns are told what changes, and say what that may cure."""

from typing import Any

from mainstay.scheduler.cache.charge import build_unconfirmed_charge
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.decide import decide, scores
from mainstay.scheduler.pod_class import pod_to_place
from mainstay.scheduler.policy import DEFAULT
from mainstay.scheduler.reasons import Cure, Placed
from tests.scheduler.objects import a_node, a_pod, a_reservation, a_zone_quota, spread_over

Object = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"


def with_nodes(*nodes: Object) -> NodeColumns:
    columns = NodeColumns()
    for node in nodes:
        columns.node_changed(node, node["metadata"]["name"])
    return columns


def node_for(columns: NodeColumns, pod: Object) -> str | None:
    decision = decide(Vectors(columns), pod_to_place(pod), DEFAULT, "s")
    return decision.node if isinstance(decision, Placed) else None


def test_a_node_that_changed_says_what_that_may_cure() -> None:
    columns = NodeColumns()

    assert columns.node_changed(a_node("n1", cpu="2"), "n1") == (Cure.NODE_ADDED,)
    assert columns.node_changed(a_node("n1", cpu="4"), "n1") == (Cure.NODE_ALLOCATABLE,)
    assert columns.node_changed(a_node("n1", cpu="1"), "n1") == ()
    assert columns.node_changed(a_node("n1", cpu="1", labels={"disk": "fast"}), "n1") == (Cure.NODE_LABELS,)
    assert columns.node_changed(a_node("n1", cpu="1", taints=["t:NoSchedule"]), "n1") == (
        Cure.NODE_LABELS,
        Cure.NODE_TAINTS,
    )
    assert columns.node_changed(a_node("n1", cpu="1", unschedulable=True), "n1") == (Cure.NODE_TAINTS,)
    assert columns.node_changed(a_node("n1", cpu="1"), "n1") == (Cure.NODE_TAINTS,)
    assert columns.node_changed(None, "n1") == (Cure.NODE_REMOVED,)
    assert columns.node_changed(None, "n1") == ()


def test_a_heartbeat_changes_nothing() -> None:
    columns = with_nodes(a_node("n1"))
    version = columns.version
    node = a_node("n1")
    node["status"]["conditions"] = [{"type": "Ready", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]

    assert columns.node_changed(node, "n1") == ()
    assert columns.version == version


def test_a_pod_that_comes_or_goes_says_what_that_may_cure() -> None:
    columns = with_nodes(a_node("n1"))
    pending, bound = a_pod("p", cpu="1"), a_pod("p", cpu="1", node="n1")

    assert columns.pod_changed(None, pending) == ()
    assert columns.pod_changed(pending, bound) == (Cure.POD_PLACED,)
    assert columns.pod_changed(bound, {**bound, "status": {"phase": "Running"}}) == ()
    assert columns.pod_changed(bound, a_pod("p", cpu="2", node="n1")) == ()
    assert columns.pod_changed(bound, a_pod("p", cpu="1", node="n1")) == (Cure.POD_REMOVED,)
    assert columns.pod_changed(bound, a_pod("p", cpu="1", node="n1", deleting=True)) == (Cure.POD_LABELS,)
    assert columns.pod_changed(bound, a_pod("p", cpu="1", node="n1", phase="Succeeded")) == (Cure.POD_REMOVED,)
    assert columns.pod_changed(bound, None) == ()


def test_a_pod_of_the_same_name_is_another_one() -> None:
    columns = with_nodes(a_node("n1", cpu="2"))
    first = a_pod("p", uid="1", cpu="2", node="n1")
    columns.pod_changed(None, first)

    assert columns.pod_changed(first, a_pod("p", uid="2", cpu="2")) == (Cure.POD_REMOVED,)
    assert node_for(columns, a_pod("q", cpu="2")) == "n1"


def test_an_assumed_pod_counts_until_it_is_forgotten() -> None:
    columns = with_nodes(a_node("n1", cpu="2"))
    assumed = pod_to_place(a_pod("p", cpu="1"))

    assert columns.assume(assumed, "n1") == (Cure.POD_PLACED,)
    assert columns.find_node(assumed.uid) == "n1"
    assert node_for(columns, a_pod("q", cpu="2")) is None
    assert columns.forget(assumed.uid) == (Cure.POD_REMOVED,)
    assert columns.forget(assumed.uid) == ()
    assert columns.find_node(assumed.uid) is None
    assert node_for(columns, a_pod("q", cpu="2")) == "n1"


def test_a_pod_that_is_written_before_it_is_bound_stays_assumed() -> None:
    columns = with_nodes(a_node("n1", cpu="2"))
    pending = a_pod("p", cpu="1")
    columns.assume(pod_to_place(pending), "n1")

    columns.pod_changed(pending, {**pending, "status": {"phase": "Pending", "conditions": []}})

    assert node_for(columns, a_pod("q", cpu="2")) is None


def test_a_pod_that_is_known_to_be_bound_is_not_forgotten() -> None:
    """The answer to a bind was lost, but the watch has shown that it happened."""
    columns = with_nodes(a_node("n1", cpu="2"))
    pending = a_pod("p", cpu="1")
    columns.assume(pod_to_place(pending), "n1")
    columns.pod_changed(pending, a_pod("p", cpu="1", node="n1"))

    assert columns.forget("uid-default-p") == ()
    assert node_for(columns, a_pod("q", cpu="2")) is None


def test_a_pod_that_another_scheduler_bound_counts_where_it_is() -> None:
    columns = with_nodes(a_node("n1", cpu="2"), a_node("n2", cpu="2"))
    pending = a_pod("p", cpu="2")
    columns.assume(pod_to_place(pending), "n1")

    cures = columns.pod_changed(pending, a_pod("p", cpu="2", node="n2"))

    assert cures == (Cure.POD_REMOVED, Cure.POD_PLACED)
    assert node_for(columns, a_pod("q", cpu="2")) == "n1"


def test_an_assumed_pod_that_is_deleted_is_gone() -> None:
    columns = with_nodes(a_node("n1", cpu="2"))
    pending = a_pod("p", cpu="2")
    columns.assume(pod_to_place(pending), "n1")

    assert columns.pod_changed(pending, None) == (Cure.POD_REMOVED,)
    assert node_for(columns, a_pod("q", cpu="2")) == "n1"


def test_pods_on_a_node_that_is_gone_count_again_when_it_comes_back() -> None:
    columns = with_nodes(a_node("n1", cpu="2"))
    columns.pod_changed(None, a_pod("p", cpu="2", node="n1"))
    columns.node_changed(None, "n1")
    assert node_for(columns, a_pod("q")) is None
    columns.node_changed(a_node("n1", cpu="2"), "n1")

    assert node_for(columns, a_pod("q", cpu="1")) is None
    assert node_for(columns, a_pod("q")) == "n1"


def test_pods_may_be_told_before_their_node() -> None:
    columns = NodeColumns()
    columns.pod_changed(None, a_pod("p", cpu="2", node="n1"))
    columns.node_changed(a_node("n1", cpu="2"), "n1")

    assert node_for(columns, a_pod("q", cpu="1")) is None


def test_a_pod_on_a_node_that_is_not_there_may_change() -> None:
    columns = with_nodes(a_node("n1", cpu="2"))
    first, second = a_pod("p", cpu="1", node="gone"), a_pod("p", cpu="2", node="gone")
    columns.pod_changed(None, first)
    columns.pod_changed(first, second)
    columns.node_changed(a_node("n2", cpu="8"), "n2")
    columns.node_changed(a_node("gone", cpu="2"), "gone")

    assert columns.find_node("uid-default-p") == "gone"
    assert list(scores(Vectors(columns), pod_to_place(a_pod("q", cpu="1")), DEFAULT)) == ["n1", "n2"]


def test_reservations_and_quotas_say_what_they_may_cure() -> None:
    columns = with_nodes(a_node("n1", zone="a"))
    active, released = a_reservation("r", "n1", cpu="1"), a_reservation("r", "n1", phase="Released", cpu="1")
    quota = a_zone_quota("a", cpu="1")

    assert columns.reservation_changed(None, active) == (Cure.RESERVATION_MADE,)
    assert columns.reservation_changed(active, active) == ()
    assert columns.reservation_changed(active, released) == (Cure.RESERVATION_RELEASED,)
    assert columns.reservation_changed(released, None) == ()
    assert columns.zone_quota_changed(None, quota) == (Cure.ZONE_QUOTA,)
    assert columns.zone_quota_changed(quota, None) == (Cure.ZONE_QUOTA,)


def test_a_pod_takes_its_reserved_room_once_whatever_is_told_first() -> None:
    """Two pods with a reservation each fill a node. The first is assumed, then bound, then its reservation is over."""
    columns = with_nodes(a_node("n1", cpu="4"))
    reservations = [a_reservation(name, "n1", cpu="2") for name in ("r1", "r2")]
    for reservation in reservations:
        columns.reservation_changed(None, reservation)
    first, second = a_pod("p1", cpu="2", reservation="r1"), a_pod("p2", cpu="2", reservation="r2")
    other = a_pod("other", cpu="1")

    def expected() -> None:
        assert node_for(columns, second) == "n1"
        assert node_for(columns, other) is None

    columns.assume(pod_to_place(first), "n1")
    expected()
    columns.forget("uid-default-p1")
    expected()
    columns.assume(pod_to_place(first), "n1")
    bound = a_pod("p1", cpu="2", reservation="r1", node="n1")
    columns.pod_changed(first, bound)
    expected()
    columns.reservation_changed(reservations[0], a_reservation("r1", "n1", phase="Confirmed", cpu="2"))
    expected()
    columns.pod_changed(bound, None)
    assert node_for(columns, other) == "n1"


def test_amounts_beyond_all_machines_fit_nowhere() -> None:
    columns = with_nodes(a_node("n1", memory="9000E"))

    assert node_for(columns, a_pod("p", memory="8000E")) is None
    assert node_for(columns, a_pod("p", memory="1Ti")) == "n1"
    columns.pod_changed(None, a_pod("q", memory="99999999E", node="n1"))
    assert node_for(columns, a_pod("p", memory="1Ti")) is None
    assert node_for(columns, a_pod("p")) == "n1"


def test_a_quota_counts_pods_that_were_there_before_it_and_nodes_that_change_zones() -> None:
    columns = with_nodes(a_node("n1", zone="a"))
    columns.pod_changed(None, a_pod("p", cpu="1", node="n1"))
    columns.zone_quota_changed(None, a_zone_quota("a", cpu="1500m"))
    assert node_for(columns, a_pod("q", cpu="1")) is None

    columns.node_changed(a_node("n2", zone="a"), "n2")
    columns.node_changed(a_node("n1", zone="b"), "n1")

    assert columns.quotas.shortages("default", {"cpu": 1500}) == []
    assert columns.quotas.shortages("default", {"cpu": 1501})[0].left == 1500


# Growing, forgetting, catching up.


def test_rows_grow_with_the_nodes_and_are_used_again() -> None:
    columns, vectors_for = NodeColumns(), a_pod("q", cpu="1", nodeSelector={"disk": "fast"})
    vectors = Vectors(columns)
    for number in range(300):
        labels = {"disk": "fast" if number == 299 else "slow"}
        columns.node_changed(a_node(f"n{number}", labels=labels), f"n{number}")
        columns.pod_changed(None, a_pod(f"p{number}", cpu="1", node=f"n{number}", labels={"app": "web"}))
        if number in (10, 70, 200):
            assert scores(vectors, pod_to_place(vectors_for), DEFAULT) == {}
    assert list(scores(vectors, pod_to_place(vectors_for), DEFAULT)) == ["n299"]

    for number in range(299):
        columns.pod_changed(a_pod(f"p{number}", cpu="1", node=f"n{number}"), None)
        columns.node_changed(None, f"n{number}")
    capacity = len(columns.taints)
    for number in range(300, 590):
        columns.node_changed(a_node(f"n{number}"), f"n{number}")

    assert len(columns.taints) == capacity
    assert list(scores(vectors, pod_to_place(vectors_for), DEFAULT)) == ["n299"]
    assert len(scores(vectors, pod_to_place(a_pod("q")), DEFAULT)) == 291


def test_a_resource_that_comes_up_later_gets_a_column_of_its_own() -> None:
    columns = with_nodes(a_node("n1"))
    vectors, wants = Vectors(columns), pod_to_place(a_pod("q", requests={"example.com/gpu": "1"}))
    assert scores(vectors, wants, DEFAULT) == {}

    columns.node_changed(a_node("n2", resources={"example.com/gpu": "1", "example.com/fpga": "1"}), "n2")

    assert list(scores(vectors, wants, DEFAULT)) == ["n2"]


def test_a_reader_that_is_far_behind_starts_over() -> None:
    columns = with_nodes(a_node("n1", cpu="2"), a_node("n2", cpu="2"))
    vectors, asked = Vectors(columns), pod_to_place(a_pod("q", cpu="2"))
    assert len(scores(vectors, asked, DEFAULT)) == 2
    for number in range(10_001):
        placed = pod_to_place(a_pod(f"p{number}", cpu="1"))
        columns.assume(placed, "n1")
        if number < 10_000:
            columns.forget(placed.uid)

    assert list(scores(vectors, asked, DEFAULT)) == ["n2"]


def test_labels_of_nodes_that_are_gone_are_dropped() -> None:
    columns = NodeColumns()
    for number in range(1500):
        columns.node_changed(a_node(f"n{number}"), f"n{number}")
        columns.node_changed(None, f"n{number - 2}")
        columns.label("kubernetes.io/hostname")

    assert len(columns.label("kubernetes.io/hostname").values) < 1100
    assert node_for(columns, a_pod("q", nodeSelector={"kubernetes.io/hostname": "n1499"})) == "n1499"


def test_only_so_many_classes_are_kept(monkeypatch: Any) -> None:
    monkeypatch.setattr("mainstay.scheduler.cache.vectors.BYTES_MAX", 0)
    columns = with_nodes(a_node("n1", zone="a"), a_node("n2", zone="b"))
    vectors = Vectors(columns)
    constraints = [spread_over(ZONE)]
    for number in range(50):
        pod = a_pod("q", cpu=f"{number}m", labels={"app": "web"}, topologySpreadConstraints=constraints)
        assert len(scores(vectors, pod_to_place(pod), DEFAULT)) == 2

    assert len(vectors) == 16


def test_pods_that_name_their_nodes_keep_nothing() -> None:
    columns = with_nodes(*(a_node(f"n{number}") for number in range(5)))
    vectors = Vectors(columns)
    for number in range(5):
        assert list(scores(vectors, pod_to_place(a_pod("q", node=f"n{number}")), DEFAULT)) == [f"n{number}"]

    assert len(vectors) == 0


GHOST = {"uid": "g", "namespace": "default", "resources": {"cpu": "1"}, "ports": [{"hostPort": 80}]}


def test_a_ghost_takes_room_and_ports_until_it_is_gone() -> None:
    columns = with_nodes(a_node("n1", cpu="2"))

    assert columns.unconfirmed_changed("n1", {"g": build_unconfirmed_charge(GHOST)}) == ()
    assert node_for(columns, a_pod("q", cpu="2")) is None
    assert node_for(columns, a_pod("q", cpu="1")) == "n1"
    assert node_for(columns, a_pod("q", ports=[{"hostPort": 80}])) is None
    assert columns.unconfirmed_changed("n1", {}) == (Cure.POD_REMOVED, Cure.GHOSTS_GONE)
    assert node_for(columns, a_pod("q", cpu="2", ports=[{"hostPort": 80}])) == "n1"


def test_a_ghost_that_is_still_there_as_a_pod_counts_once() -> None:
    columns = with_nodes(a_node("n1", cpu="2"))
    pod = a_pod("p", uid="g", cpu="1", node="n1")
    columns.pod_changed(None, pod)

    columns.unconfirmed_changed("n1", {"g": build_unconfirmed_charge(GHOST)})
    assert node_for(columns, a_pod("q", cpu="1")) == "n1"
    columns.pod_changed(pod, None)
    assert node_for(columns, a_pod("q", cpu="2")) is None
    columns.pod_changed(None, pod)  # The store has gone back.
    columns.unconfirmed_changed("n1", {})
    columns.pod_changed(pod, None)
    assert node_for(columns, a_pod("q", cpu="2")) == "n1"


def test_ghosts_end_with_their_node() -> None:
    columns = with_nodes(a_node("n1", cpu="2"))
    columns.unconfirmed_changed("n1", {"g": build_unconfirmed_charge(GHOST)})

    columns.node_changed(None, "n1")
    assert columns.unconfirmed_changed("n1", {"g": build_unconfirmed_charge(GHOST)}) == ()
    columns.node_changed(a_node("n1", cpu="2"), "n1")
    assert node_for(columns, a_pod("q", cpu="2")) == "n1"

    columns.unconfirmed_changed("n1", {"g": build_unconfirmed_charge(GHOST)})
    another = a_node("n1", cpu="2")
    another["metadata"]["uid"] = "another"
    columns.node_changed(another, "n1")
    assert node_for(columns, a_pod("q", cpu="2")) == "n1"
