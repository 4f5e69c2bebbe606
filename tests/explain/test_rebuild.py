"""What a controller saw and remembered, built again from the journal."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS
from mainstay.api.object_key import ObjectKey
from mainstay.client.indexes import NODE, label
from mainstay.controllers.service_account.controller import RootAuthorities, ServiceAccounts
from mainstay.explain.rebuild import CannotRebuild, RebuiltObjects, rebuild
from mainstay.journal.keys import build_key
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.record import (
    ChangeRecord,
    DecisionRecord,
    Ending,
    Outcome,
    RecordedMemory,
    Subject,
    ViewPart,
    WhyNot,
    micros,
    whole,
)
from mainstay.loop.controller import Controller, Reads
from mainstay.loop.decider import decide_per_key
from mainstay.loop.decision import Create, Decision
from mainstay.loop.view import View, ViewClosed

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
APP = label("app")


@dataclass(frozen=True, slots=True)
class Tried:
    at: datetime
    times: int = 0


class Counting(Controller):
    name = "counting"
    kind = NODES
    reads = (Reads(PODS, indexes=(NODE, APP)),)

    def decide(self, view: View, key: ObjectKey, memory: Tried | None) -> Decision:
        return Decision(reasons=(str(len(view.by(PODS, NODE.name, key.name))),), memory=memory)


COUNTING = decide_per_key(Counting())


def a_journal(*written: tuple[int, KindName, str, dict[str, Any] | None], begins: int = 0) -> MemoryJournal:
    """Of these revisions: each writes an object, by its path, or removes it."""
    journal = MemoryJournal(begins)
    for revision, kind, path, obj in written:
        namespace, _, name = path.rpartition("/")
        value = None
        if obj is not None:
            metadata = {"name": name, "uid": f"uid-{path}", **({"namespace": namespace} if namespace else {})}
            value = msgspec.json.encode({**obj, "metadata": {**metadata, **obj.get("metadata", {})}})
        journal.change(ChangeRecord(revision, build_key(kind.text, namespace, name), value, micros(NOON)))
    return journal


def a_record(*view: ViewPart, subject: str = "n1", memory: RecordedMemory | None = None, **more: Any) -> DecisionRecord:
    return DecisionRecord(
        "counting-1",
        micros(NOON),
        "counting",
        "",
        Subject("nodes", "", subject),
        Outcome(Ending.DONE),
        view=view,
        now=micros(NOON),
        seed="seed",
        memory=memory or RecordedMemory(),
        **more,
    )


def on(node: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": labels}, "spec": {"nodeName": node}}


async def test_each_kind_is_as_it_was_at_its_own_revision():
    journal = a_journal(
        (1, NODES, "n1", {}),
        (2, PODS, "default/a", on("n1")),
        (3, PODS, "default/b", on("n1")),
        (4, PODS, "default/a", None),
        (5, NODES, "n2", {}),
    )

    rebuilt = await rebuild(RebuiltObjects(journal), a_record(ViewPart("nodes", 1), ViewPart("pods", 3)), COUNTING)

    assert [each["metadata"]["name"] for each in rebuilt.view.all(PODS)] == ["a", "b"]
    assert [each["metadata"]["name"] for each in rebuilt.view.all(NODES)] == ["n1"]
    assert rebuilt.view.revisions == {NODES: 1, PODS: 3}
    assert rebuilt.view.now == NOON
    assert rebuilt.view.seed == "seed"
    assert rebuilt.gaps == ()


async def test_objects_are_as_a_server_gives_them_and_are_found_by_the_indexes_of_the_controller():
    journal = a_journal((1, NODES, "n1", {}), (2, PODS, "default/a", on("n1", app="web")), (3, PODS, "x/b", on("n2")))

    rebuilt = await rebuild(RebuiltObjects(journal), a_record(ViewPart("nodes", 3), ViewPart("pods", 3)), COUNTING)

    [pod] = rebuilt.view.by(PODS, APP.name, "web")
    assert (pod["kind"], pod["apiVersion"], pod["metadata"]["resourceVersion"]) == ("Pod", "v1", "2")
    assert [each["metadata"]["name"] for each in rebuilt.view.by(PODS, NODE.name, "n2")] == ["b"]


async def test_only_what_a_cache_had_selected_is_there():
    journal = a_journal(
        (1, NAMESPACES, "default", {}),
        (2, SERVICE_ACCOUNTS, "default/default", {}),
        (3, SERVICE_ACCOUNTS, "default/other", {}),
        (4, SERVICE_ACCOUNTS, "shop/default", {}),
    )
    seen = (ViewPart("namespaces", 4), ViewPart("serviceaccounts", 4, fields="metadata.name=default"))

    rebuilt = await rebuild(
        RebuiltObjects(journal), a_record(*seen, subject="default"), decide_per_key(ServiceAccounts())
    )

    found = [each["metadata"] for each in rebuilt.view.all(SERVICE_ACCOUNTS)]
    assert [(each["namespace"], each["name"]) for each in found] == [("default", "default"), ("shop", "default")]
    only_shop = ViewPart("serviceaccounts", 4, namespace="shop")
    past = RebuiltObjects(journal)
    assert len((await past.cache(only_shop, SERVICE_ACCOUNTS, ()))[0]) == 1
    labelled = ViewPart("serviceaccounts", 4, labels="app=web")
    assert len((await past.cache(labelled, SERVICE_ACCOUNTS, ()))[0]) == 0


async def test_an_unknown_field_is_reported_instead_of_guessed():
    journal = a_journal((1, SERVICE_ACCOUNTS, "default/default", {}))

    with pytest.raises(CannotRebuild, match=r"selected by 'spec\.colour', which this build does not know") as raised:
        await RebuiltObjects(journal).cache(
            ViewPart("serviceaccounts", 1, fields="spec.colour=red"), SERVICE_ACCOUNTS, ()
        )

    assert raised.value.why is WhyNot.VIEW_NOT_NAMED


async def test_what_the_controller_remembered_is_a_value_of_its_own_type_again():
    journal = a_journal((1, NODES, "n1", {}))
    memory = whole(msgspec.msgpack.encode(Tried(NOON, 3)))

    rebuilt = await rebuild(
        RebuiltObjects(journal), a_record(ViewPart("nodes", 1), ViewPart("pods", 1), memory=memory), COUNTING
    )

    assert rebuilt.memory == Tried(NOON, 3)


async def test_what_a_controller_was_made_with_is_not_taken_for_its_memory():
    journal = a_journal((1, NAMESPACES, "default", {}))
    memory = whole(msgspec.msgpack.encode(("pem", None)))
    record = a_record(ViewPart("namespaces", 1), ViewPart("configmaps", 1), subject="default", memory=memory)

    decider = decide_per_key(RootAuthorities(""), RootAuthorities)
    rebuilt = await rebuild(RebuiltObjects(journal), record, decider)

    assert rebuilt.memory == ("pem", None)
    (decided,) = decider.decide(rebuilt.view, rebuilt.memory)
    assert decided.source is not None
    (action,) = decided.source.actions
    assert isinstance(action, Create)
    assert action.object["data"] == {"ca.crt": "pem"}


async def test_a_missing_memory_and_an_invalid_one_are_reported():
    journal = a_journal((1, NODES, "n1", {}))
    seen = (ViewPart("nodes", 1), ViewPart("pods", 1))

    with pytest.raises(CannotRebuild, match="no checkpoint has it"):
        await rebuild(
            RebuiltObjects(journal), a_record(*seen, memory=RecordedMemory(5_000, digest=b"x" * 16)), COUNTING
        )
    with pytest.raises(CannotRebuild, match="its memory has the format of another build"):
        await rebuild(RebuiltObjects(journal), a_record(*seen, memory=whole(msgspec.msgpack.encode([1, 2]))), COUNTING)
    with pytest.raises(CannotRebuild, match="overloaded"):
        await rebuild(RebuiltObjects(journal), a_record(*seen, why_not=(WhyNot.DETAIL_DROPPED,)), COUNTING)
    with pytest.raises(CannotRebuild, match="does not name its view"):
        await rebuild(RebuiltObjects(journal), a_record(), COUNTING)


async def test_what_the_journal_does_not_have_is_a_gap():
    journal = a_journal((11, NODES, "n1", {}), begins=10)

    rebuilt = await rebuild(RebuiltObjects(journal), a_record(ViewPart("nodes", 11), ViewPart("pods", 5)), COUNTING)

    assert rebuilt.gaps


def test_a_closed_view_keeps_its_name_while_the_caches_go_on():
    view = View.of({NODES: [{"metadata": {"name": "n1"}}]}, NOON)
    cache = view._caches[NODES]
    before = view.revisions

    view.close()
    cache.reached(99)

    assert view.revisions == before != {NODES: 99}
    with pytest.raises(ViewClosed):
        view.all(NODES)
