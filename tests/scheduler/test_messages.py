"""Why a pod has no node, in words."""

from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.pod_resources import amount
from mainstay.scheduler.messages import MESSAGE_LENGTH_MAX, render_message, render_summary
from mainstay.scheduler.policy import DEFAULT
from mainstay.scheduler.reasons import Cure, Refusal, RefusalReason, Unschedulable, find_gravest
from mainstay.scheduler.what_if import Objects, what_if
from tests.scheduler.objects import a_node, a_pod, spread_over


def refused(*nodes, **pod) -> str:
    [decision] = what_if(Objects(nodes=nodes), [a_pod("web", **pod)], DEFAULT, "7")
    assert isinstance(decision, Unschedulable)
    return render_message(decision)


def test_it_counts_and_names_the_nodes_of_each_reason():
    full = Objects(
        nodes=(a_node("n1", cpu="2"), a_node("n2", cpu="2"), a_node("n3", taints=["gpu:NoSchedule"])),
        pods=(a_pod("a", cpu="1500m", node="n1"), a_pod("b", cpu="1", node="n2")),
    )
    [decision] = what_if(full, [a_pod("web", cpu="1500m")], DEFAULT, "7")

    assert isinstance(decision, Unschedulable)
    assert render_message(decision) == (
        "0/3 nodes are available: 2 Insufficient cpu (1500m requested, at most 1 free: n1, n2), "
        "1 node(s) had untolerated taint {gpu:NoSchedule} (n3). "
        "It may fit when a node is added, a node gets more allocatable resources, a node is uncordoned or loses "
        "a taint, a pod ends or leaves its node or a reservation ends."
    )


def test_a_node_with_several_failing_constraints_is_named_under_each():
    text = refused(a_node("n1", cpu="1", taints=["gpu:NoSchedule"]), cpu="2", nodeSelector={"disk": "fast"})

    assert "1 Insufficient cpu (2 requested, too small even when empty: n1)" in text
    assert "1 node(s) didn't match Pod's node affinity/selector (n1)" in text
    assert "1 node(s) had untolerated taint {gpu:NoSchedule} (n1)" in text


def test_there_may_be_no_nodes_at_all():
    assert refused() == (
        "0/0 nodes are available: no nodes available to schedule pods. It may fit when a node is added."
    )


def test_of_many_nodes_some_are_named():
    text = refused(*[a_node(f"n{number:04d}", cpu="1") for number in range(5000)], cpu="2")

    assert "5000 Insufficient cpu" in text
    assert "n0000, n0001, n0002, n0003, n0004 and 4995 more" in text


def test_a_missing_topology_label_is_named():
    text = refused(a_node("n1"), labels={"app": "web"}, topologySpreadConstraints=[spread_over("rack")])

    assert "node(s) didn't match pod topology spread constraints (missing required label), rack (n1)" in text


def test_amounts_are_written_as_people_write_them():
    table = [("cpu", 1500), ("cpu", 2000), ("memory", 2 * 2**30), ("memory", 1000), ("pods", 3), ("memory", 0)]

    assert [amount(*each) for each in table] == ["1500m", "2", "2Gi", "1000", "3", "0"]


def test_a_summary_has_a_word_for_each_reason():
    no = Unschedulable(3, (Refusal(RefusalReason.INSUFFICIENT_RESOURCE, "Fit", ("n1", "n2"), (), "cpu"),))

    assert render_summary(no) == ("InsufficientResource cpu ×2",)


REFUSALS = st.builds(
    Refusal,
    reason=st.sampled_from([reason for reason in RefusalReason if reason is not RefusalReason.NO_NODES]),
    plugin=st.just("plugin"),
    nodes=st.lists(st.text(min_size=1, max_size=250), min_size=1, max_size=10).map(tuple),
    cures=st.lists(st.sampled_from(list(Cure)), max_size=11).map(tuple),
    detail=st.text(max_size=300),
    wanted=st.none() | st.integers(0, 2**53),
    free=st.lists(st.integers(-(2**53), 2**53), max_size=5).map(tuple),
)


@given(st.lists(REFUSALS, max_size=30).map(tuple), st.randoms())
def test_it_is_bounded_and_does_not_depend_on_the_order_of_reasons(refusals, shuffling):
    shuffled = list(dict.fromkeys(refusals))
    distinct = tuple(shuffled)
    text = render_message(Unschedulable(10, distinct))

    assert len(text) <= MESSAGE_LENGTH_MAX
    shuffling.shuffle(shuffled)
    is_told_apart = len({(len(each.nodes), each.reason, each.detail) for each in distinct}) == len(distinct)
    assert not is_told_apart or render_message(Unschedulable(10, tuple(shuffled))) == text


def test_of_several_reasons_the_gravest_stands_for_all_whatever_the_order():
    reasons = (RefusalReason.UNTOLERATED_TAINT, RefusalReason.ZONE_QUOTA_EXCEEDED, RefusalReason.NODE_AFFINITY)
    for order in (reasons, reasons[::-1]):
        refusals = tuple(Refusal(reason, "", ("n1",), ()) for reason in order)
        assert Unschedulable(1, refusals).cause == "ZoneQuotaExceeded"


def test_a_bound_on_skews_is_the_reason_where_only_it_refuses_a_node():
    full = Refusal(RefusalReason.INSUFFICIENT_RESOURCE, "", ("b1", "b2"), ())

    def name(*nodes: str) -> str:
        return Unschedulable(3, (full, Refusal(RefusalReason.ZONE_SKEW_TOO_LARGE, "", nodes, ()))).cause

    assert (name("a1"), name("a1", "b1")) == ("ZoneSkewTooLarge", "ZoneSkewTooLarge")
    assert name("b1") == "InsufficientResource"


def test_each_reason_can_stand_for_all():
    assert [find_gravest([reason]) for reason in RefusalReason] == list(RefusalReason)
    assert find_gravest(["a word of a later version"]) == find_gravest([]) == ""
