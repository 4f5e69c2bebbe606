"""Many bindings in one request."""

from typing import Any

from mainstay.server.placement.batch_binding import ITEMS_MAX
from mainstay.store import open_memory
from mainstay.store.errors import OutcomeUnknown
from mainstay.store.interface import Check, Committed, Store, TransactionRefused, Write
from mainstay.store.local import LocalStore
from tests.server.placement.ledger_cases import NODES, a_node, a_sized_pod, history_of, require_ledgers
from tests.server.world import PODS, Answer, Client, a_server

BINDINGS = "/apis/mainstay.dev/v1/bindings"


def an_item(name: str, node: str = "n1", **rest: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "default", "name": name}, "target": {"name": node}, "observed": 1, **rest}


async def bind_all(client: Client, *items: dict[str, Any], query: str = "", **headers: str) -> Answer:
    body = {"kind": "BindingList", "apiVersion": "mainstay.dev/v1", "items": items}
    return await client.ask("POST", BINDINGS + query, body, **headers)


def outcomes(answer: Answer) -> list[str]:
    assert answer.status == 200, answer
    assert answer.body["kind"] == "BindingResultList"
    return [each.get("reason") or each["status"] for each in answer.body["items"]]


async def a_cluster(client: Client, pods: int, cpu: str = "4") -> None:
    await client.create(NODES, a_node(cpu=cpu, pods="1000"))
    for number in range(pods):
        await client.create(PODS, a_sized_pod(f"p{number}"))


async def test_each_binding_is_accepted_or_refused_on_its_own_and_in_its_place(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await a_cluster(client, 6, "2")
        await client.create(NODES, a_node("n2", unschedulable=True))
        await client.ask("POST", f"{PODS}/p5/binding", {"metadata": {"name": "p5"}, "target": {"name": "n1"}})

        answer = await bind_all(
            client,
            an_item("p0", "n3"),
            an_item("p1"),
            an_item("p2"),
            an_item("none"),
            an_item("p3", "n2"),
            an_item("p4", strict=True),
            an_item("p5"),
            {"metadata": {"namespace": "default", "name": "p0", "uid": "x"}, "target": {"name": "n1"}},
            an_item("p0", ""),
        )

        assert outcomes(answer) == [
            "NodeGone",
            "Bound",
            "CapacityChanged",
            "NotFound",
            "NodeNotAccepting",
            "Stale",
            "AlreadyBound",
            "PodDeleted",
            "BadRequest",
        ]
        assert [each.get("code") for each in answer.body["items"]] == [409, None, 409, 404, 409, 409, 409, 409, 400]
        assert "cpu: requested 1, free 0" in answer.body["items"][2]["message"]
        version = (await client.get(f"{PODS}/p1"))["metadata"]["resourceVersion"]
        assert answer.body["items"][1] == {"status": "Bound", "revision": int(version)}
        assert require_ledgers(await history_of(store)) == 2


async def test_each_has_a_revision_of_its_own_and_all_go_to_the_log_together(sim, monkeypatch):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await a_cluster(client, 50, "50")
        groups = []
        honest = LocalStore._publish

        def publish(self: LocalStore, group: Any) -> None:
            groups.append(len(group))
            honest(self, group)

        monkeypatch.setattr(LocalStore, "_publish", publish)
        answer = await bind_all(client, *(an_item(f"p{number}") for number in range(50)))

        revisions = [each["revision"] for each in answer.body["items"]]
        assert revisions == list(range(revisions[0], revisions[0] + 50))
        assert groups == [50]
        assert require_ledgers(await history_of(store)) == 50


async def test_an_item_that_is_sent_again_as_the_same_operation_has_the_same_outcome(sim):
    async with a_server(sim) as client:
        await a_cluster(client, 2)
        first = await bind_all(client, an_item("p0", operation="op-1"))
        again = await bind_all(client, an_item("p0", operation="op-1"), an_item("p1", operation="op-1"))

        assert again.body["items"][0] == first.body["items"][0]
        assert outcomes(again) == ["Bound", "OperationReused"]
        assert (await bind_all(client, an_item("p1"), Mainstay_Operation="op-2")).status == 400


async def test_an_unknown_outcome_is_reported_as_unknown(sim):
    class Forgetful:
        """Does what it is asked for, and loses the answer."""

        def __init__(self, inner: Store) -> None:
            self._inner = inner
            self.loses = False

        def __getattr__(self, name: str) -> Any:
            if name in ("local", "memory"):
                return None
            return getattr(self._inner, name)

        async def commit(self, checks: list[Check], writes: list[Write]) -> Committed | TransactionRefused:
            answer = await self._inner.commit(checks, writes)
            if self.loses:
                raise OutcomeUnknown("lost")
            return answer

    inner = await open_memory()
    store: Any = Forgetful(inner)
    async with a_server(sim, store=store) as client:
        await a_cluster(client, 2)
        store.loses = True
        answer = await bind_all(client, an_item("p0"))
        store.loses = False

        text = "the outcome is unknown: the write may or may not have happened, read before you repeat it"
        assert answer.body["items"][0] == {"status": "Unknown", "code": 504, "reason": "Timeout", "message": text}
        assert outcomes(await bind_all(client, an_item("p0"), an_item("p1"))) == ["AlreadyBound", "Bound"]
        assert require_ledgers(await history_of(inner)) == 2


async def test_a_deposed_leader_binds_nothing(sim):
    async with a_server(sim) as client:
        await a_cluster(client, 1)
        answer = await bind_all(client, an_item("p0"), Mainstay_Term="kube-system/scheduler=7")
        assert outcomes(answer) == ["Fenced"]


async def test_a_batch_that_makes_no_sense_is_refused_as_a_whole(sim):
    async with a_server(sim) as client:
        assert (await client.ask("POST", BINDINGS, b"[]")).status == 400
        assert (await client.ask("POST", BINDINGS, b"items: []", "application/yaml")).status == 415
        assert (await bind_all(client, *[an_item("p")] * (ITEMS_MAX + 1))).status == 400
        assert (await client.ask("GET", BINDINGS)).status == 405
        assert (await bind_all(client, Authorization="Bearer usertoken")).status == 403
        assert (await bind_all(client)).body["items"] == []


async def test_a_dry_run_binds_nothing(sim):
    async with a_server(sim) as client:
        await a_cluster(client, 1)
        assert outcomes(await bind_all(client, an_item("p0"), query="?dryRun=All")) == ["Bound"]
        assert "nodeName" not in (await client.get(f"{PODS}/p0"))["spec"]


async def test_batches_are_listed_in_discovery(sim):
    async with a_server(sim) as client:
        listed = (await client.get("/apis/mainstay.dev/v1"))["resources"]
        assert [each["verbs"] for each in listed if each["name"] == "bindings"] == [["create"]]
