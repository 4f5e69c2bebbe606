"""The ledger of a node: its arithmetic, who may be bound, and what a Node and a recount make of it."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mainstay.api.causes import BindingCause
from mainstay.api.errors import StatusError
from mainstay.server.placement.ledger.charge import Charge, build_charge, charge_key, encode_charge
from mainstay.server.placement.ledger.history import (
    NO_HISTORY,
    LedgerHistory,
    LedgerPart,
    find_unseen,
    note_change,
)
from mainstay.server.placement.ledger.ledger import (
    EMPTY,
    Ledger,
    LedgerMismatch,
    build_write,
    charged,
    confirm_gone,
    encode_ledger,
    held,
    ledger_in,
    ledger_key,
    let_go,
    mark_unconfirmed,
    released,
)
from mainstay.server.placement.ledger.nodes import LedgerNode, has_other_facts, read_facts, with_node, without_node
from mainstay.server.placement.ledger.recount import HOLDS_MAX, STEP, compute_drift, find_drift, recount
from mainstay.server.placement.ledger.refusals import LedgerRefusal, shown
from mainstay.server.placement.ledger.room import BindOptions, bears_cordon, find_refusal, shortages
from mainstay.server.placement.observed import Observed, parse_observed
from mainstay.server.storage.stored import stored
from mainstay.store import open_memory
from mainstay.store.interface import DeleteEntry, Entry, Put, Write
from tests.server.placement.ledger_cases import a_charge, a_ledger, a_node, a_sized_pod, require_sums

PORT = "TCP/80/0.0.0.0"
ASKED = BindOptions()


def entry(ledger: Ledger) -> Entry:
    return Entry("~ledger/n1", encode_ledger(ledger), 5, 5, 1)


# Arithmetic.


def test_a_pod_that_comes_and_goes_leaves_the_ledger_as_it_was():
    before = charged(a_ledger(), a_charge("a", 500, PORT))
    after = charged(before, a_charge("b", 1500, "UDP/53/0.0.0.0", memory=7))

    assert (after.used, after.ports) == (
        {"cpu": 2000, "pods": 2, "memory": 7},
        {PORT: 1, "UDP/53/0.0.0.0": 1},
    )
    assert released(after, a_charge("b", 1500, "UDP/53/0.0.0.0", memory=7)) == before


def test_what_was_never_charged_cannot_be_given_back():
    with pytest.raises(LedgerMismatch, match="1000 of cpu are to be given back, but only 500 are taken"):
        released(charged(a_ledger(), a_charge("a", 500)), a_charge("b", 1000))


def test_a_ledger_is_kept_as_long_as_it_says_something():
    ledger = charged(EMPTY, a_charge("a"))

    written = build_write("k", ledger, None)
    assert isinstance(written, Put)
    assert replace(ledger_in(Entry("k", written.value, 1, 1, 1)), history=NO_HISTORY) == ledger
    assert ledger_in(Entry("k", encode_ledger(ledger), 1, 1, 1)) == ledger
    assert build_write("k", released(ledger, a_charge("a")), None) == DeleteEntry("k")
    assert ledger_in(None) == EMPTY


def test_a_ghost_takes_its_room_until_it_is_laid_to_rest_and_only_once():
    ledger = mark_unconfirmed(charged(a_ledger(), a_charge("a")), a_charge("a"))

    assert ledger.used == {"cpu": 1000, "pods": 1}
    resting = confirm_gone(ledger, ["other", "a", "a"])
    assert resting == a_ledger()
    assert confirm_gone(resting, ["a"]) == resting


amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "pods", "gpu"]), st.integers(1, 50), max_size=4)
ports = st.lists(
    st.sampled_from([PORT, "TCP/80/10.0.0.1", "UDP/80/0.0.0.0", "TCP/443/0.0.0.0"]), unique=True, max_size=2
)


@st.composite
def charges(draw: st.DrawFn) -> list[Charge]:
    count = draw(st.integers(0, 8))
    return [Charge(f"u{n}", f"default/p{n}", "n1", draw(amounts), tuple(draw(ports))) for n in range(count)]


@given(charges(), st.randoms(use_true_random=False))
def test_the_ledger_is_the_sum_of_the_charges_in_whatever_order_they_come_and_go(pods: list[Charge], order: Any):
    ledger, there = a_ledger(), []
    for each in pods:
        ledger = charged(ledger, each)
        there.append(each)
        if order.random() < 0.5:
            ledger = released(ledger, there.pop(order.randrange(len(there))))
    total: dict[str, int] = {}
    for each in there:
        for name, amount in each.amounts.items():
            total[name] = total.get(name, 0) + amount

    assert ledger.used == total
    assert ledger_in(entry(ledger)) == ledger
    for each in there:
        ledger = released(ledger, each)
    assert ledger == a_ledger()


@given(charges(), amounts, amounts)
def test_accepted_bindings_never_take_more_than_there_is(pods: list[Charge], has: dict[str, int], hold: dict[str, int]):
    ledger = held(Ledger(node_uid="u", allocatable={name: amount * 3 for name, amount in has.items()}), hold)
    for each in pods:
        if find_refusal(ledger, 1, each, ASKED) is None:
            ledger = charged(ledger, each)
            assert not shortages(ledger, dict.fromkeys(each.amounts, 0))
        else:
            assert shortages(ledger, each.amounts) or each.ports
    assert let_go(ledger, hold).held == {}


# Who may be bound.


@pytest.mark.parametrize(
    ("ledger", "charge", "asked", "cause", "words"),
    [
        (a_ledger(), a_charge("a", 4000), ASKED, None, ""),
        (a_ledger(), a_charge("a", 4001), ASKED, "CapacityChanged", "cpu: requested 4001m, free 4"),
        (a_ledger(), a_charge("a", 1, gpu=1), ASKED, "CapacityChanged", "gpu: requested 1, free 0"),
        (a_ledger(pods=0), a_charge("a", 1), ASKED, "CapacityChanged", "pods: requested 1, free 0"),
        # A node that has shrunk takes nothing more of what it has too little of, but the rest.
        (a_ledger(used={"cpu": 5000}), a_charge("a", 1), ASKED, "CapacityChanged", "cpu: requested 1m, free 0"),
        (a_ledger(used={"memory": 5}), a_charge("a", 1), ASKED, None, ""),
        (held(a_ledger(), {"cpu": 3500}), a_charge("a"), ASKED, "ReservationHeld", "cpu: requested 1, free 500m"),
        (a_ledger(promised={"cpu": 3500}), a_charge("a"), ASKED, "CapacityChanged", "cpu: requested 1, free 500m"),
        (a_ledger(is_accepting=False), a_charge("a"), ASKED, "NodeNotAccepting", "unschedulable"),
        (a_ledger(is_accepting=False), a_charge("a"), BindOptions(bears_cordon=True), None, ""),
        (EMPTY, a_charge("a", 10**9), ASKED, None, ""),
        (EMPTY, a_charge("a"), BindOptions(needs_node=True), "NodeGone", "node n1 not found"),
        (a_ledger(ports={PORT: 1}), a_charge("a", 1, "TCP/80/10.0.0.1"), ASKED, "PortTaken", "TCP/80/10.0.0.1"),
        (a_ledger(held_ports={PORT: 1}), a_charge("a", 1, PORT), ASKED, "PortTaken", "TCP/80/0.0.0.0"),
        (a_ledger(ports={"TCP/80/10.0.0.2": 1}), a_charge("a", 1, "TCP/80/10.0.0.1"), ASKED, None, ""),
        (
            a_ledger(history=LedgerHistory(LedgerPart.NODES)),
            a_charge("a"),
            BindOptions(Observed(pods=9, nodes=6, is_strict=True)),
            "Stale",
            "node n1 changed at revision 7 by nodes, of which revision 6 was observed",
        ),
        (a_ledger(), a_charge("a"), BindOptions(Observed(pods=7, nodes=7, is_strict=True)), None, ""),
        (a_ledger(), a_charge("a"), BindOptions(Observed(pods=6, nodes=6)), None, ""),
    ],
)
def test_a_pod_is_bound_only_where_there_is_room(
    ledger: Ledger, charge: Charge, asked: BindOptions, cause: str | None, words: str
):
    refusal = find_refusal(ledger, 7, charge, asked)

    assert (None if refusal is None else str(refusal.cause)) == cause
    assert words in (refusal.message if refusal is not None else "")


# What was seen.

NODE, POD, RESERVED, BACK = LedgerPart.NODES, LedgerPart.PODS, LedgerPart.RESERVATIONS, LedgerPart.NOTHING


def history_of_writes(*writes: tuple[int, LedgerPart] | tuple[int, LedgerPart, str]) -> tuple[LedgerHistory, int]:
    """What is known after these writes, each with its revision; and the last revision."""
    history, before = NO_HISTORY, 0
    for revision, part, *by in writes:
        history, before = note_change(history, before, part, *by), revision
    return history, before


def unseen(history: tuple[LedgerHistory, int], by: str = "", **seen: int) -> str:
    found = find_unseen(*history, Observed(**{"pods": 99, "nodes": 99, **seen}, by=by, is_strict=True))
    return "" if found is None else found[0]


def test_each_part_of_a_ledger_is_compared_with_what_was_seen_of_its_own_kind():
    history = history_of_writes((10, NODE), (20, POD), (30, RESERVED), (40, BACK))

    assert unseen(history, nodes=10, pods=20, reservations=30) == ""
    assert unseen(history, nodes=9, pods=99, reservations=99) == "nodes"
    assert unseen(history, nodes=99, pods=19, reservations=99) == "pods"
    assert unseen(history, nodes=99, pods=99, reservations=29) == "reservations"
    assert unseen(history, nodes=99, pods=99) == ""  # It does not say what it has seen of them.


def test_room_that_is_given_back_is_no_change():
    assert unseen(history_of_writes((10, NODE), (20, POD), (30, BACK)), nodes=10, pods=20) == ""


def test_pods_that_a_scheduler_has_bound_itself_are_no_news_to_it():
    own = history_of_writes((10, NODE), (20, POD, "one"), (30, POD, "one"))
    mixed = history_of_writes((10, NODE), (20, POD, "one"), (30, POD, "two"), (40, POD, "one"))

    assert (unseen(own, "one", pods=5), unseen(own, "two", pods=29), unseen(own, pods=29)) == ("", "pods", "pods")
    assert (unseen(mixed, "one", pods=30), unseen(mixed, "one", pods=29)) == ("", "pods")
    assert (unseen(mixed, "two", pods=40), unseen(mixed, "two", pods=39)) == ("", "pods")


def test_pods_that_are_bound_without_a_name_are_news_to_all():
    history = history_of_writes((10, NODE), (20, POD), (30, POD))

    assert (unseen(history, "one", pods=29), unseen(history, pods=29)) == ("pods", "pods")


def test_a_ledger_of_an_earlier_version_may_have_changed_by_anything():
    assert unseen((NO_HISTORY, 20), nodes=19) == "nodes"
    assert unseen((NO_HISTORY, 20), pods=19) == "pods"
    assert unseen((NO_HISTORY, 20), pods=20, nodes=20) == ""


@pytest.mark.parametrize(
    ("header", "observed"),
    [
        (None, None),
        ("918812", Observed(918812, 918812, 918812)),
        ("918812;strict", Observed(918812, 918812, 918812, is_strict=True)),
        ("pods=12; nodes=7 ;strict", Observed(12, 7, is_strict=True)),
        ("pods=12;nodes=7;reservations=3;by=scheduler-1.a", Observed(12, 7, 3, "scheduler-1.a")),
        ("pods=12", Observed(12)),
    ],
)
def test_a_header_says_what_was_observed(header, observed):
    assert parse_observed(header) == observed


@pytest.mark.parametrize("header", ["soon", "pods=12;strict", "nodes=12;strict", "strict", "pods=x", "by=a b", ";"])
def test_a_header_that_cannot_be_read_is_refused(header):
    with pytest.raises(StatusError) as refusal:
        parse_observed(header)

    assert refusal.value.code == 400


def test_a_refusal_names_everything_that_is_short():
    refusal = find_refusal(a_ledger(pods=0), 1, a_charge("a", 5000, memory=2**30), ASKED)

    assert refusal == LedgerRefusal(
        BindingCause.CAPACITY_CHANGED,
        "node n1 cannot take the pod, insufficient resources: "
        "cpu: requested 5, free 4; memory: requested 1Gi, free 0; pods: requested 1, free 0",
    )


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 3 * 2**20, "3Mi"),
        ("memory", 1000, "1000"),
        ("gpu", 8, "8"),
    ],
)
def test_amounts_are_shown_as_people_write_them(resource: str, amount: int, text: str):
    assert shown(resource, amount) == text


@pytest.mark.parametrize(
    ("toleration", "is_borne"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "node.kubernetes.io/unschedulable"}, True),
        ({"key": "node.kubernetes.io/unschedulable", "value": "yes"}, False),
        ({"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_a_pod_bears_a_cordon_if_it_tolerates_it(toleration: dict[str, str], is_borne: bool):
    assert bears_cordon({"spec": {"tolerations": [toleration]}}) is is_borne


# Who is charged.


def a_stored_pod(name: str, node: str = "", phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    pod = a_sized_pod(name)
    pod["metadata"] |= {"namespace": "default", "uid": f"u-{name}", **metadata}
    if node:
        pod["spec"]["nodeName"] = node
    return {**pod, "status": {"phase": phase}}


def test_a_pod_is_charged_while_it_is_on_a_node_and_has_not_ended():
    on_node = Charge("u-a", "default/a", "n1", {"cpu": 1000, "pods": 1})

    assert build_charge(a_stored_pod("a", "n1")) == on_node
    assert build_charge(a_stored_pod("a", "n1", deletionTimestamp="2026-01-01T00:00:00Z")) == on_node
    assert build_charge(a_stored_pod("a", "n1", "Succeeded")) is None
    assert build_charge(a_stored_pod("a", "n1", "Failed")) is None
    assert build_charge(a_stored_pod("a")) is None


# Nodes.


def a_stored_node(uid: str = "u-n1", **rest: Any) -> dict[str, Any]:
    node = a_node(**rest)
    node["metadata"]["uid"] = uid
    return node


FACTS = LedgerNode("u-n1", True, "a", {"cpu": 4000, "memory": 8 * 2**30, "pods": 10})


def test_a_ledger_knows_what_its_node_says():
    assert read_facts(a_stored_node(zone="a")) == FACTS
    assert read_facts(a_stored_node(zone="a", unschedulable=True)) == replace(FACTS, is_accepting=False)


@pytest.mark.parametrize(
    ("new", "is_other"),
    [
        (a_stored_node(), False),
        (a_stored_node(cpu="5"), True),
        (a_stored_node(unschedulable=True), True),
        (a_stored_node(zone="b"), True),
        ({**a_stored_node(), "status": {**a_node()["status"], "conditions": [{"type": "Ready"}]}}, False),
    ],
)
def test_a_heartbeat_is_none_of_the_ledgers_business(new: dict[str, Any], is_other: bool):
    assert has_other_facts(new, a_stored_node()) is is_other


def test_pods_stay_charged_when_their_node_goes_and_another_comes():
    ledger = charged(with_node(EMPTY, FACTS), a_charge("a"))
    gone = without_node(ledger)

    assert gone == charged(EMPTY, a_charge("a"))
    assert with_node(gone, replace(FACTS, uid="u-2")) == replace(ledger, node_uid="u-2")


def test_ghosts_end_with_their_node():
    ledger = mark_unconfirmed(charged(charged(with_node(EMPTY, FACTS), a_charge("a")), a_charge("b")), a_charge("b"))

    assert without_node(ledger) == charged(EMPTY, a_charge("a"))
    assert with_node(ledger, FACTS) == ledger
    assert with_node(ledger, replace(FACTS, uid="u-2")).used == {"cpu": 1000, "pods": 1}


# Recounting.


def test_a_ledger_that_is_right_has_no_drift():
    pods = {"default/a": a_stored_pod("a", "n1"), "default/done": a_stored_pod("done", "n1", "Failed")}
    charge = Charge("u-a", "default/a", "n1", {"cpu": 1000, "pods": 1})
    ledger = charged(with_node(EMPTY, FACTS), charge)

    assert compute_drift("n1", ledger, a_stored_node(zone="a"), pods, {"default/a": charge}).is_none


def test_drift_is_what_is_missing_what_is_left_over_and_what_the_ledger_should_be():
    pods = {"default/a": a_stored_pod("a", "n1"), "default/b": a_stored_pod("b", "n1")}
    kept = Charge("u-a", "default/a", "n1", {"cpu": 700, "pods": 1})  # As it was charged, whatever the pod says now.
    gone = Charge("u-c", "default/c", "n1", {"cpu": 9, "pods": 1})
    older = Charge("u-old", "default/b", "n1", {"cpu": 8, "pods": 1})
    ghost = a_charge("ghost", 5)
    ledger = mark_unconfirmed(replace(with_node(EMPTY, FACTS), used={"cpu": 1}), ghost)

    drift = compute_drift(
        "n1", ledger, a_stored_node(zone="a"), pods, {"default/a": kept, "default/b": older, "default/c": gone}
    )

    missing = Charge("u-b", "default/b", "n1", {"cpu": 1000, "pods": 1}, zone="a")
    assert (drift.missing, drift.left_over) == ((missing,), (older, gone))
    assert drift.ledger == replace(ledger, used={"cpu": 700 + 1000 + 5, "pods": 3})


async def test_a_recount_makes_ledgers_for_what_was_there_before_there_were_any():
    store = await open_memory()
    count = 2 * STEP + 3
    writes: list[Write] = [Put("core/nodes/n1", stored(a_stored_node()))]
    writes += [Put(f"core/pods/default/p{n}", stored(a_stored_pod(f"p{n}", "n1"))) for n in range(count)]
    await store.commit([], writes)

    assert await recount(store, "n1") is True

    ledgers = require_sums({each.key: each for each in (await store.range("")).entries}, 0)
    assert ledgers["n1"].used == {"cpu": 1000 * count, "pods": count}
    before = await store.revision()
    assert await recount(store, "n1") is True
    assert await store.revision() == before


async def test_a_recount_takes_out_what_is_left_over_and_puts_right_the_sum():
    store = await open_memory()
    wrong = charged(with_node(EMPTY, read_facts(a_stored_node())), a_charge("x", 77))
    await store.commit(
        [],
        [
            Put("core/nodes/n1", stored(a_stored_node())),
            Put(charge_key("default", "x"), encode_charge(a_charge("x", 78))),
            Put(ledger_key("n1"), encode_ledger(wrong)),
        ],
    )

    assert await recount(store, "n1") is True

    assert ledger_in(await store.get(ledger_key("n1"))).used == {}
    assert await store.get(charge_key("default", "x")) is None


# Recounting what is held.


def a_stored_reservation(name: str, node: str = "n1", phase: str = "Active", cpu: str = "1") -> dict[str, Any]:
    workload = {"kind": "Deployment", "name": "risk-api", "uid": "u1"}
    ports = [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}] if name == "with-port" else []
    spec = {"nodeName": node, "workload": workload, "generation": 1, "intent": name, "resources": {"cpu": cpu}}
    metadata = {"namespace": "default", "name": name, "uid": f"u-{name}"}
    return {"metadata": metadata, "spec": {**spec, "ports": ports}, "status": {"phase": phase}}


def reservation_key(name: str) -> str:
    return f"mainstay.dev/reservations/default/{name}"


def test_what_is_held_is_what_active_reservations_hold():
    ledger = held(with_node(EMPTY, FACTS), {"cpu": 700}, [PORT])
    holds = [a_charge("a", 500, PORT), a_charge("b", 300)]
    right = replace(ledger, held={"cpu": 800, "pods": 2}, held_ports={PORT: 1})

    assert compute_drift("n1", ledger, a_stored_node(zone="a"), {}, {}, holds).ledger == right
    assert compute_drift("n1", right, a_stored_node(zone="a"), {}, {}, holds).is_none


@given(
    st.lists(
        st.tuples(st.sampled_from(["n1", "n2"]), st.sampled_from(["Active", "Expired"]), st.integers(1, 9)), max_size=40
    )
)
def test_held_is_the_sum_of_what_is_active_on_the_node_whatever_was_written_there(given: list[tuple[str, str, int]]):
    async def main() -> None:
        store = await open_memory()
        made = [a_stored_reservation(f"r{n}", *each[:2], str(each[2])) for n, each in enumerate(given)]
        writes: list[Write] = [Put(reservation_key(each["metadata"]["name"]), stored(each)) for each in made]
        writes += [Put("core/nodes/n1", stored(a_stored_node()))]
        writes += [Put(ledger_key("n1"), encode_ledger(held(EMPTY, {"cpu": 77}, [PORT])))]
        await store.commit([], writes)

        assert await recount(store, "n1") is True

        total = sum(1000 * cpu for node, phase, cpu in given if (node, phase) == ("n1", "Active"))
        ledger = ledger_in(await store.get(ledger_key("n1")))
        assert (ledger.held, ledger.held_ports) == ({"cpu": total} if total else {}, {})

    asyncio.run(main())


class Meanwhile:
    """A store in which something happens between the count and the commit, once."""

    def __init__(self, store: Any, writes: list[Write]) -> None:
        self._store = store
        self._writes = writes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, checks: Any, writes: Any) -> Any:
        now, self._writes = self._writes, []
        if now:
            await self._store.commit([], now)
        return await self._store.commit(checks, writes)


@pytest.mark.parametrize("has_ledger", [True, False])
async def test_room_that_is_given_back_during_a_recount_is_not_held_again(has_ledger: bool):
    """Its room was not held, so its end has not written the ledger."""
    store = await open_memory()
    writes: list[Write] = [
        Put(reservation_key(name), stored(a_stored_reservation(name))) for name in ("a", "with-port")
    ]
    if has_ledger:
        ledger = with_node(EMPTY, read_facts(a_stored_node()))
        writes += [Put("core/nodes/n1", stored(a_stored_node())), Put(ledger_key("n1"), encode_ledger(ledger))]
    await store.commit([], writes)
    ends: list[Write] = [Put(reservation_key("a"), stored(a_stored_reservation("a", phase="Released")))]

    assert await recount(Meanwhile(store, ends), "n1") is True

    ledger = ledger_in(await store.get(ledger_key("n1")))
    assert (ledger.held, ledger.held_ports) == ({"cpu": 1000}, {PORT: 1})


async def test_more_charges_and_reservations_than_go_into_one_transaction_are_put_right_one_after_the_other():
    store = await open_memory()
    count = HOLDS_MAX + 9
    for number in range(count):
        reservation = a_stored_reservation(f"r{number}", cpu="1m")
        writes: list[Write] = [Put(reservation_key(f"r{number}"), stored(reservation))]
        if number < STEP:
            writes.append(Put(f"core/pods/default/p{number}", stored(a_stored_pod(f"p{number}", "n1"))))
        await store.commit([], writes)

    assert await recount(store, "n1") is True

    ledger = ledger_in(await store.get(ledger_key("n1")))
    assert (ledger.held, ledger.used) == ({"cpu": count}, {"cpu": 1000 * STEP, "pods": STEP})
    assert (await find_drift(store, "n1"))[0].is_none
