"""Decisions as objects: `kubectl get decisions`, selected, watched, and shown only to whom they concern."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from mainstay.api.kind_names import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    DECISIONS,
    NAMESPACES,
    ROLE_BINDINGS,
    SAMPLING_POLICIES,
)
from mainstay.api.kinds import sampling as shape
from mainstay.api.kinds.decisions import DECISION
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, BadRequest, Expired, Forbidden, Invalid, NotFound
from mainstay.env import tasks
from mainstay.journal import sampling
from mainstay.journal.record import (
    DecisionRecord,
    Ending,
    LookedAt,
    Outcome,
    RecordedAction,
    RecordedCondition,
    Subject,
    WriteResult,
    encode,
    micros,
)
from mainstay.journal.trace_id import derive_trace_id
from mainstay.server.auth.authorization import User
from mainstay.server.decisions import feed as decision_feed
from mainstay.server.decisions import reads
from mainstay.server.decisions.objects import build_object, rendered
from mainstay.server.decisions.reads import _field
from mainstay.server.decisions.redaction import HIDDEN, find_rights, redacted
from mainstay.sim.simulation import Simulation
from tests.journal.builders import AT, a_decision
from tests.server.access import some_authorizers
from tests.server.decisions.journal_world import Served, a_journaled_server

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


def about(kind: str, name: str, number: int, namespace: str = "default", **parts: Any) -> DecisionRecord:
    return a_decision(number=number, subject=Subject(kind, namespace, name, f"uid-{name}", 1), **parts)


async def names(served: Served, namespace: str = "default", **how: Any) -> list[str]:
    return [each["metadata"]["name"] for each in (await served.admin.list(DECISIONS, namespace, **how)).items]


# Getting and listing.


async def test_a_decision_is_shown_as_an_object_with_all_that_its_record_says(sim: Simulation):
    record = about(
        "pods",
        "web-1",
        7,
        outcome=Outcome(Ending.WAKE_AT, "Waiting", "for room", AT + 5_000_000),
        looked_at=(LookedAt("nodes", name="n1", revision=3),),
        actions=(RecordedAction("create", "pods", "default", "web-1", "binding", b"\x01\x02"),),
        writes=(WriteResult("pods", "default", "web-1", 918_812),),
        conditions=(RecordedCondition("PodScheduled", "False", "Unschedulable", "no room"),),
        audits=("audit-1",),
        queue_wait_us=1_500,
        priority=10,
    )
    async with a_journaled_server(sim) as served:
        await served.tell([record])
        shown = await served.admin.get(DECISIONS, record.id, "default")

    assert (shown["kind"], shown["apiVersion"]) == ("Decision", "mainstay.dev/v1")
    assert shown["subject"] == {
        "kind": "Pod", "resource": "pods", "namespace": "default", "name": "web-1", "uid": "uid-web-1", "generation": 1,
    }  # fmt: skip
    assert (shown["outcome"], shown["reason"], shown["message"]) == ("WakeAt", "Waiting", "for room")
    assert shown["wakeAt"] == "2023-11-14T22:13:25.000000Z"
    assert shown["view"] == [{"kind": "replicasets.apps", "revision": 10}, {"kind": "pods", "revision": 12}]
    assert shown["lookedAt"] == [{"kind": "nodes", "name": "n1", "revision": 3}]
    assert shown["writes"] == [{"kind": "pods", "namespace": "default", "name": "web-1", "revision": 918_812}]
    assert shown["actions"][0]["digest"] == "0102"
    assert (shown["traceID"], shown["auditIDs"]) == (derive_trace_id(record.id), ["audit-1"])
    assert (shown["queueWaitMicroseconds"], shown["priority"]) == (1_500, 10)
    assert shown["kept"] == "actions=full"
    assert shown["metadata"]["creationTimestamp"] == "2023-11-14T22:13:20Z"


async def test_a_list_is_newest_first_and_in_the_namespace_of_its_subjects(sim: Simulation):
    async with a_journaled_server(sim) as served:
        await served.tell(
            [
                about("pods", "a", 1),
                about("pods", "b", 2, "shop"),
                about("nodes", "n1", 3, ""),
                about("deployments.apps", "d", 4),
            ]
        )

        assert await names(served) == ["replicasets-4", "replicasets-3", "replicasets-1"]
        assert await names(served, "shop") == ["replicasets-2"]
        assert await names(served, "") == [f"replicasets-{number}" for number in (4, 3, 2, 1)]
        assert await names(served, "", limit=2) == ["replicasets-4", "replicasets-3"]
        assert await names(served, labels="a=b") == []
        with pytest.raises(NotFound):
            await served.admin.get(DECISIONS, "replicasets-2", "default")
        assert (await served.admin.get(DECISIONS, "replicasets-3", "default"))["subject"]["kind"] == "Node"


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("subject.kind=Pod", [3, 1]),
        ("subject.kind=pods", [3, 1]),
        ("subject.kind=po", [3, 1]),
        ("subject.kind=Node", [4]),
        ("subject.kind=deploy", [2]),
        ("subject.kind=deployments.apps", [2]),
        ("subject.kind=widgets.example.com", [5]),
        ("subject.kind!=Pod", [5, 4, 2]),
        ("subject.kind=Pod,subject.name=a", [1]),
        ("subject.kind=Pod,subject.namespace=default,subject.name=a", [1]),
        ("subject.namespace=", [4]),
        ("subject.uid=uid-b", [3]),
        ("component=scheduler", [1]),
        ("outcome=Refused", [3]),
        ("outcome!=Refused,component!=scheduler", [5, 4, 2]),
        ("reason=TooFull", [3]),
        ("metadata.name=replicasets-2", [2]),
        ("metadata.name=replicasets-2,outcome=Refused", []),
        ("reason=Nonsense", []),
    ],
)
async def test_decisions_are_selected_by_fields(sim: Simulation, selector: str, found: list[int]):
    async with a_journaled_server(sim) as served:
        await served.tell(
            [
                about("pods", "a", 1, component="scheduler"),
                about("deployments.apps", "a", 2),
                about("pods", "b", 3, outcome=Outcome(Ending.REFUSED, "TooFull")),
                about("nodes", "a", 4, ""),
                about("widgets.example.com", "w", 5),
            ]
        )

        assert await names(served, fields=selector) == [f"replicasets-{number}" for number in found]


def test_a_record_is_selected_like_the_object_that_is_made_of_it():
    record = about("deployments.apps", "web", 1, outcome=Outcome(Ending.RETRY, "Conflict"))
    shown = build_object(record)

    assert DECISION.selectable is not None
    assert {field: read(shown) for field, read in DECISION.selectable.items()} == {
        field: _field(record, field) for field in DECISION.selectable
    }


async def test_what_no_kind_offers_cannot_be_selected_by(sim: Simulation):
    async with a_journaled_server(sim) as served:
        with pytest.raises(BadRequest, match="field label not supported: seed"):
            await served.admin.list(DECISIONS, "default", fields="seed=1")


async def test_a_reader_who_is_shown_only_some_is_told_so(sim: Simulation, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reads, "LOOKED_AT_ONCE", 10)
    monkeypatch.setattr(reads, "LOOKED_AT_MAX", 60)
    async with a_journaled_server(sim) as served:
        await served.tell([about("pods", f"p{number}", number) for number in range(100)])
        some = await served.admin.request("GET", DECISIONS.path("default"), query={"limit": "5"})
        none = await served.admin.request(
            "GET", DECISIONS.path("default"), query={"fieldSelector": "reason=x", "limit": "5"}
        )
        deep = await names(served, fields="subject.kind=Pod,subject.name=p3")

    assert "only the latest 5 decisions are shown" in some.headers["warning"]
    assert "only the latest 60 decisions were looked at" in none.headers["warning"]
    assert deep == ["replicasets-3"]


async def test_decisions_of_one_moment_are_all_found_though_they_do_not_fit_into_one_look(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reads, "LOOKED_AT_ONCE", 4)
    async with a_journaled_server(sim) as served:
        await served.tell([about("pods", f"p{number}", number, at=AT + number // 3) for number in range(20)])

        found = await names(served, fields="reason!=x", limit=3)

    assert len(found) == 3


async def test_the_table_shows_what_an_operator_looks_for(sim: Simulation):
    failed = WriteResult("pods", "default", "web-2", error="Conflict")
    async with a_journaled_server(sim) as served:
        await served.tell(
            [
                about("pods", "web", 1, writes=(WriteResult("pods", "default", "web", 7),), at=micros(now(served))),
                about("pods", "two", 2, writes=(failed,), outcome=Outcome(Ending.RETRY, "Conflict")),
                about("nodes", "n1", 3, "", outcome=Outcome(Ending.DONE)),
            ]
        )
        answer = await served.admin.request("GET", DECISIONS.path("default"), headers=TABLE)
        table = json.loads(answer.body)

    shown = [column["name"] for column in table["columnDefinitions"] if not column["priority"]]
    assert shown == ["Age", "Component", "Object", "Outcome", "Reason", "Wrote", "Name"]
    cells = {row["cells"][6]: row["cells"][1:6] for row in table["rows"]}
    assert cells == {
        "replicasets-1": ["replicasets", "Pod/web", "Done", "AtWantedSize", "pods/web@7"],
        "replicasets-2": ["replicasets", "Pod/two", "Retry", "Conflict", "1 failed"],
        "replicasets-3": ["replicasets", "Node/n1", "Done", "<none>", "<none>"],
    }
    assert table["rows"][0]["cells"][0] == "0s"


def now(served: Served) -> Any:
    return served.sim.env("server").clock.wall()


async def test_a_server_without_a_journal_has_no_decisions_and_says_why(sim: Simulation):
    async with a_journaled_server(sim, has_journal=False) as served:
        for ask in (served.admin.list(DECISIONS, "default"), served.admin.get(DECISIONS, "x", "default")):
            with pytest.raises(NotFound, match="has no journal"):
                await ask


async def test_decisions_cannot_be_written_as_objects(sim: Simulation):
    async with a_journaled_server(sim) as served:
        with pytest.raises(ApiError) as refused:
            await served.admin.create(DECISIONS, {"metadata": {"name": "x", "namespace": "default"}})
        with pytest.raises(Forbidden):
            await served.clients["alice"].list(DECISIONS, "default")

    assert refused.value.status == 405


# Watching.


async def taken(watch: Any, count: int) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    async with asyncio.timeout(30):
        async for event in watch:
            if event.type == "BOOKMARK":
                continue
            found.append((event.type, json.loads(event.object)["metadata"]["name"]))
            if len(found) == count:
                return found
    return found


async def test_a_watch_begins_where_a_list_has_ended(sim: Simulation):
    async with a_journaled_server(sim) as served:
        await served.tell([about("pods", "a", 1)])
        listed = await served.admin.list(DECISIONS, "default")
        await served.tell([about("pods", "b", 2), about("pods", "c", 3, "shop")])
        async with served.admin.watch(DECISIONS, "default", resource_version=listed.revision) as watch:
            await served.tell([about("pods", "d", 4), about("nodes", "n", 5, "")])
            found = await taken(watch, 3)

    assert found == [("ADDED", "replicasets-2"), ("ADDED", "replicasets-4"), ("ADDED", "replicasets-5")]


async def test_a_watch_without_a_version_begins_with_the_latest_and_is_selected(sim: Simulation):
    async with a_journaled_server(sim) as served:
        await served.tell([about("pods", "a", 1), about("pods", "b", 2), about("nodes", "n", 3, "")])
        async with served.admin.watch(DECISIONS, fields="subject.kind=pods") as watch:
            first = await taken(watch, 2)
            await served.tell([about("nodes", "n", 4, ""), about("pods", "c", 5)])
            rest = await taken(watch, 1)

    assert [name for _, name in (*first, *rest)] == ["replicasets-1", "replicasets-2", "replicasets-5"]


async def test_a_watch_from_before_what_is_held_is_told_to_list_again(sim: Simulation, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(decision_feed, "HELD_MAX", 3)
    async with a_journaled_server(sim) as served:
        listed = await served.admin.list(DECISIONS, "default")
        await served.tell([about("pods", f"p{number}", number) for number in range(10)])
        async with served.admin.watch(DECISIONS, resource_version=listed.revision) as watch:
            with pytest.raises(Expired):
                await taken(watch, 1)


async def test_a_batch_that_is_sent_again_is_watched_once(sim: Simulation):
    async with a_journaled_server(sim) as served:
        listed = await served.admin.list(DECISIONS, "default")
        for _ in range(2):
            await served.tell([about("pods", "a", 1)])
        await served.tell([about("pods", "b", 2)])
        async with served.admin.watch(DECISIONS, resource_version=listed.revision) as watch:
            assert await taken(watch, 2) == [("ADDED", "replicasets-1"), ("ADDED", "replicasets-2")]


async def test_numbers_of_decisions_grow_though_the_clock_stands_still(sim: Simulation):
    feed = decision_feed.DecisionFeed(sim.env("server").clock, rendered)
    began = feed.revision
    for number in range(3):
        feed.add((encode(a_decision(number=number)),))

    assert feed.revision == began + 3


# What a reader is shown.


def a_tenant(kind: str, namespace: str, name: str) -> bool:
    """May read all of `shop`, and nothing else."""
    return namespace == "shop"


def test_a_decision_about_what_a_reader_may_not_get_is_left_out():
    assert redacted(build_object(about("pods", "web", 1, "bank")), a_tenant) is None
    assert redacted(build_object(about("nodes", "n1", 1, "")), a_tenant) is None


def test_what_a_decision_says_of_others_is_taken_out_and_counted():
    record = about(
        "pods",
        "web",
        1,
        "shop",
        outcome=Outcome(Ending.RETRY, "NoRoom", "bank/ledger-0 holds node-a17, shop/api waits"),
        reasons=("node-a17: NotEnoughCPU", "preempting ledger-0 is not allowed", "node-a1 is not node-a17"),
        conditions=(RecordedCondition("PodScheduled", "False", "NoRoom", "ledger-0 is in the way"),),
        looked_at=(
            LookedAt("nodes", "", "node-a17", 3),
            LookedAt("pods", "bank", "ledger-0", 4),
            LookedAt("pods", "shop", "api", 5),
        ),
        writes=(WriteResult("pods", "shop", "web", 9), WriteResult("pods", "bank", "ledger-0", 10)),
        user="system:node:node-a17",
    )

    shown = redacted(build_object(record), a_tenant)

    assert shown is not None
    assert shown["message"] == f"{HIDDEN}/{HIDDEN} holds {HIDDEN}, shop/api waits"
    assert shown["reasons"] == [
        f"{HIDDEN}: NotEnoughCPU",
        f"preempting {HIDDEN} is not allowed",
        f"node-a1 is not {HIDDEN}",
    ]
    assert shown["conditions"][0]["message"] == f"{HIDDEN} is in the way"
    assert [each["name"] for each in shown["lookedAt"]] == ["api"]
    assert [each["name"] for each in shown["writes"]] == ["web"]
    assert (shown["redacted"], "user" in shown) == (3, False)
    assert "ledger" not in str(shown)
    assert "bank" not in str(shown)


def test_rights_are_those_by_which_objects_are_read():
    assert find_rights(User("root", ("system:masters",)), some_authorizers()) is None
    of_node = find_rights(User("system:node:a", ("system:nodes",)), some_authorizers())
    assert of_node is not None
    assert of_node("services", "shop", "web")
    assert not of_node("pods", "shop", "web")


async def let_alice_see(served: Served, namespace: str) -> None:
    """All decisions, as far as they are about what she may get: objects of one namespace."""
    rule = {"apiGroups": [DECISIONS.group], "resources": [DECISIONS.plural], "verbs": ["get", "list", "watch"]}
    alice = {"apiGroup": CLUSTER_ROLES.group, "kind": "User", "name": "alice"}
    await served.admin.create(NAMESPACES, {"metadata": {"name": namespace}})
    await served.admin.create(CLUSTER_ROLES, {"metadata": {"name": "decisions"}, "rules": [rule]})
    for kind, role in ((CLUSTER_ROLE_BINDINGS, "decisions"), (ROLE_BINDINGS, "view")):
        reference = {"apiGroup": kind.group, "kind": "ClusterRole", "name": role}
        metadata = {"name": "alice", **({"namespace": namespace} if kind.namespaced else {})}
        await served.admin.create(kind, {"metadata": metadata, "roleRef": reference, "subjects": [alice]})


async def test_a_reader_with_fewer_rights_lists_gets_and_watches_less(sim: Simulation):
    hidden, shown = about("pods", "x", 1, "bank"), about("pods", "y", 2, "shop")
    async with a_journaled_server(sim) as served:
        await let_alice_see(served, "shop")
        await served.tell([hidden, shown])
        alice: Client = served.clients["alice"]
        listed = await alice.list(DECISIONS)
        with pytest.raises(NotFound):
            await alice.get(DECISIONS, hidden.id, "bank")
        async with alice.watch(DECISIONS, resource_version=listed.revision) as watch:
            await served.tell([about("pods", "x", 3, "bank"), about("pods", "z", 4, "shop")])
            watched = await taken(watch, 1)
        everything = await served.admin.list(DECISIONS)

    assert [each["metadata"]["name"] for each in listed.items] == [shown.id]
    assert watched == [("ADDED", "replicasets-4")]
    assert len(everything.items) == 4


# Sampling.


def a_policy(*rules: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "default"}, "spec": {"rules": list(rules), **spec}}


async def kept(served: Served) -> dict[str, str]:
    return {each.id: each.kept for each in (await served.journal.decisions()).records}


async def test_a_policy_says_what_is_kept_and_what_was_left_out_is_told(sim: Simulation):
    quiet = {"name": "quiet", "when": {"components": ["replicasets"]}, "keep": "nothing"}
    async with a_journaled_server(sim) as served:
        await served.admin.create(SAMPLING_POLICIES, a_policy({"name": "failures", "when": {"failures": True}}, quiet))
        await tasks.sleep(timedelta(seconds=1))
        refused = about("pods", "b", 2, outcome=Outcome(Ending.REFUSED, "TooFull"))
        await served.tell([about("pods", "a", 1), refused, about("pods", "c", 3), about("pods", "d", 4, component="x")])

        assert await kept(served) == {"replicasets-2": "failures=full", "replicasets-4": "otherwise=full"}
        (left_out,) = (await served.journal.decisions()).left_out
        assert (left_out.rule, left_out.component, left_out.records) == ("quiet", "replicasets", 2)
        assert b'decision_records_dropped_total{why="sampled"} 2.0' in served.metrics.render()

        await served.admin.delete(SAMPLING_POLICIES, "default")
        await tasks.sleep(timedelta(seconds=1))
        await served.tell([about("pods", "e", 5)])
        assert (await kept(served))["replicasets-5"] == "actions=full"


async def test_a_dry_run_keeps_everything_and_says_what_it_would_have_kept(sim: Simulation):
    async with a_journaled_server(sim) as served:
        await served.admin.create(SAMPLING_POLICIES, a_policy({"name": "none", "keep": "nothing"}, dryRun=True))
        await tasks.sleep(timedelta(seconds=1))
        await served.tell([about("pods", "a", 1)])

        assert await kept(served) == {"replicasets-1": "dry-run none=nothing"}


async def test_during_an_incident_everything_is_kept(sim: Simulation):
    rules = ({"name": "incident", "when": {"incidents": True}}, {"name": "none", "keep": "nothing"})
    async with a_journaled_server(sim) as served:
        until = {"until": "2023-11-14T22:14:00Z", "reason": "orders are lost"}
        await served.admin.create(SAMPLING_POLICIES, a_policy(*rules, incident=until))
        await tasks.sleep(timedelta(seconds=1))
        await served.tell([about("pods", "a", 1), about("pods", "b", 2, at=AT + 60_000_000)])

        assert await kept(served) == {"replicasets-1": "incident=full"}


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ({"metadata": {"name": "other"}, "spec": {}}, "must be default: a cluster has one policy"),
        ({"metadata": {"name": "default"}}, "spec: Required value"),
        (a_policy({"when": {}}), r"spec.rules\[0\].name: Required value"),
        (a_policy({"name": "a b"}), r"spec.rules\[0\].name"),
        (a_policy({"name": "a"}, {"name": "a"}), r"spec.rules\[1\].name: Duplicate value"),
        (a_policy({"name": "a", "keep": "most"}), r"spec.rules\[0\].keep"),
        (a_policy({"name": "a", "oneIn": 0}), r"spec.rules\[0\].oneIn"),
        (a_policy({"name": "a", "when": {"phase": "x"}}), r"spec.rules\[0\].when.phase: Forbidden: unknown field"),
        (a_policy({"name": "a", "when": {"kinds": "pods"}}), r"spec.rules\[0\].when.kinds"),
        (a_policy(incident={"until": "tomorrow"}), "spec.incident.until"),
        (a_policy(more=1), "spec.more: Forbidden: unknown field"),
    ],
)
async def test_a_policy_that_makes_no_sense_is_refused_with_the_place(sim: Simulation, policy: Any, text: str):
    async with a_journaled_server(sim) as served:
        with pytest.raises(Invalid, match=text):
            await served.admin.create(SAMPLING_POLICIES, policy)


def test_the_rules_that_are_admitted_are_those_that_can_be_followed():
    def fields(struct: Any) -> dict[str, str]:
        return dict(zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True))

    assert fields(shape.SamplingMatchSpec) == fields(sampling.SamplingMatch)
    assert fields(shape.SamplingRuleSpec) == fields(sampling.SamplingRule)
    assert set(shape.SamplingRuleSpec.__annotations__["keep"].__args__) == {str(each) for each in sampling.DetailLevel}
    assert shape.RULES_MAX == sampling.RULES_MAX


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 5_000], ids=["lists", "objects"])
async def test_a_body_that_is_nested_too_deeply_is_refused_where_refusals_are_noted(sim: Simulation, body: bytes):
    async with a_journaled_server(sim) as served:
        headers = {"Content-Type": "application/json"}
        path = "/api/v1/namespaces/default/configmaps"
        with pytest.raises(ApiError) as refused:
            await served.admin.request("POST", path, body=body, headers=headers)
    assert refused.value.status == 400
