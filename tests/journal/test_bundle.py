"""A bundle opens as the journal that it was made of, or says why not."""

from typing import Any

import msgspec
import pytest

from mainstay.journal.bundle import MAGIC, BadBundle, Bundle, Contents, open_bundle, packed, write_bundle
from mainstay.journal.bundle_contents import BundleObject, gathered
from mainstay.journal.coverage import GapReason
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.record import (
    ChangeRecord,
    EntryRecord,
    LostRecord,
    MemoryRecord,
    RecordedMemory,
    Subject,
    ViewPart,
    WriteRecord,
    compute_digest,
    moment,
)
from tests.journal.builders import AT, a_decision

SECOND = 1_000_000
NOW = moment(AT + 1_000 * SECOND)


def an_object(name: str, uid: str = "", owner: str = "", **more: Any) -> bytes:
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": uid or f"uid-{name}"}
    if owner:
        metadata["ownerReferences"] = [{"uid": owner}]
    return msgspec.json.encode({"metadata": metadata, **more})


def a_change(revision: int, key: str, value: bytes | None, decision: str = "") -> ChangeRecord:
    return ChangeRecord(revision, key, value, AT + revision * SECOND, decision)


def a_journal() -> MemoryJournal:
    """A hundred revisions, one a second: a deployment, its set, its pods, and another pod without an owner."""
    namespace = msgspec.json.encode({"metadata": {"name": "kube-system", "uid": "the-cluster"}})
    definition = msgspec.json.encode({"metadata": {"name": "widgets.example.com"}})
    entries = [
        EntryRecord("core/namespaces/kube-system", 4, namespace),
        EntryRecord("apiextensions.k8s.io/customresourcedefinitions/widgets.example.com", 5, definition),
    ]
    journal = MemoryJournal(10, entries)
    journal.change(a_change(11, "apps/deployments/default/web", an_object("web")))
    journal.change(a_change(12, "apps/replicasets/default/web-a", an_object("web-a", owner="uid-web"), "d-12"))
    journal.change(a_change(13, "example.com/widgets/default/one", an_object("one")))
    for revision in range(14, 101):
        number = revision % 5
        name, owner = (f"web-a-{number}", "uid-web-a") if number else ("alone", "")
        journal.change(a_change(revision, f"core/pods/default/{name}", an_object(name, owner=owner), f"d-{revision}"))
        journal.decided(
            a_decision(
                id=f"d-{revision}",
                at=AT + revision * SECOND,
                subject=Subject("pods", "default", name, f"uid-{name}"),
                view=(ViewPart("pods", revision - 1), ViewPart("nodes", max(revision - 30, 10))),
            )
        )
        journal.wrote(WriteRecord(revision, "pods", "default", name, AT + revision * SECOND, "patch", "scheduler"))
    return journal


def at(revision: int) -> Any:
    return moment(AT + revision * SECOND)


async def the_bundle(journal: MemoryJournal, since: int, until: int | None = None, *about: BundleObject) -> bytes:
    contents = await gathered(
        journal,
        since=at(since),
        until=None if until is None else at(until),
        build="test",
        made_at=NOW,
        about=about,
    )
    written: list[bytes] = []
    size = write_bundle(contents, written.append)
    data = b"".join(written)
    assert size == len(data)
    return data


async def reopened(journal: MemoryJournal, since: int, until: int | None = None, *about: BundleObject) -> Bundle:
    return open_bundle(await the_bundle(journal, since, until, *about))


async def test_it_has_every_change_decision_and_write_of_its_time_and_the_state_before(sim):
    journal = a_journal()
    bundle = await reopened(journal, 90)

    assert bundle.head.cluster == "the-cluster"
    assert (bundle.head.begins, bundle.head.ends) == (60, 100)
    assert bundle.head.redactions == ("values of Secrets",)
    for kind in ("pods", "namespaces", "deployments.apps", "replicasets.apps", "widgets.example.com"):
        for revision in (60, 75, 100):
            there = await journal.state({kind: revision})
            assert (await bundle.journal.state({kind: revision})).kinds == there.kinds
            assert there.kinds[kind]
    wanted = await journal.changes(after=60)
    assert (await bundle.journal.changes(after=60)) == wanted
    wanted_decisions = await journal.decisions(since=at(90))
    assert (await bundle.journal.decisions(since=at(90))).records == wanted_decisions.records
    assert (await bundle.journal.writes(after=60)).records == (await journal.writes(after=60)).records
    assert (await bundle.journal.extent()).reached == 100


async def test_it_begins_early_enough_for_the_oldest_view_of_its_decisions(sim):
    bundle = await reopened(a_journal(), 90, 95)

    (first, *_) = (await bundle.journal.decisions(since=at(90))).records
    assert first.view == (ViewPart("pods", 89), ViewPart("nodes", 60))
    for seen in first.view:
        assert (await bundle.journal.state({seen.kind: seen.revision})).is_complete
    assert bundle.head.ends == 94
    assert not (await bundle.journal.state({"pods": 59})).is_complete
    assert not (await bundle.journal.state({"pods": 95})).is_complete


async def test_what_its_decisions_rest_on_is_there_however_old(sim):
    journal = a_journal()
    told = a_decision(id="ghosts", at=AT - 3600 * SECOND)
    journal.decided(told)

    contents = await gathered(
        journal, since=at(90), build="test", made_at=NOW, rests_on=lambda decisions: ["ghosts", "gone", decisions[0].id]
    )

    bundle = open_bundle(b"".join(packed(contents)))
    assert await bundle.journal.decision("ghosts") == told
    assert bundle.counts.decisions == len(bundle.journal.records())


async def test_large_memories_come_along(sim):
    journal, content = a_journal(), b"m" * 5_000
    digest = compute_digest(content)
    journal.remember(MemoryRecord("node-health", digest, AT, content))
    decision = a_decision(id="large", at=AT + 95 * SECOND, memory=RecordedMemory(5_000, digest=digest))
    journal.decided(decision)
    gone = a_decision(id="gone", at=AT + 95 * SECOND, memory=RecordedMemory(5_001, digest=b"gone"))
    journal.decided(gone)

    bundle = await reopened(journal, 90)

    assert await bundle.journal.memory(decision) == content
    assert await bundle.journal.memory(gone) is None


async def test_one_about_an_object_has_the_decisions_about_it_its_owners_and_what_it_owns(sim):
    journal = a_journal()
    whole = await reopened(journal, 50)
    about = await reopened(journal, 50, None, BundleObject("deployments.apps", "default", "web"))
    about_pod = await reopened(journal, 50, None, BundleObject("pods", "default", "alone"))

    subjects = {each.subject.name for each in about.journal.records()}
    assert subjects == {"web-a-1", "web-a-2", "web-a-3", "web-a-4"}
    assert {each.subject.name for each in about_pod.journal.records()} == {"alone"}
    assert about.head.about == ("deployments.apps default/web",)
    # What was left out is told, and the state and its changes are whole.
    (left_out,) = (await about.journal.decisions()).left_out
    assert left_out.records == whole.counts.decisions - about.counts.decisions > 0
    assert (await about.journal.decisions()).is_complete
    assert (about.counts.objects, about.counts.changes) == (whole.counts.objects, whole.counts.changes)


async def test_losses_and_gaps_of_the_journal_are_in_the_bundle_too(sim):
    journal = a_journal()
    journal.lost.append(LostRecord(AT + 92 * SECOND, AT + 93 * SECOND, 7, 0))
    incomplete = await reopened(journal, 90)
    assert [each.records for each in (await incomplete.journal.decisions(since=at(90))).lost] == [7]

    gap = (70, 72, "Missed")
    contents = await gathered(journal, since=at(90), build="test", made_at=NOW)
    contents = Contents(msgspec.structs.replace(contents.head, gaps=(gap,)), contents.records)
    bundle = open_bundle(b"".join(packed(contents)))

    state = await bundle.journal.state({"pods": 80})
    assert [(each.after, each.until, each.reason) for each in state.gaps] == [(70, 72, GapReason.MISSED)]
    assert (await bundle.journal.state({"pods": 69})).is_complete


async def test_a_bundle_that_was_cut_off_or_damaged_says_so_at_every_byte(sim):
    journal = MemoryJournal(0)
    journal.change(a_change(1, "core/pods/default/a", an_object("a")))
    journal.decided(a_decision())
    data = await the_bundle(journal, 0)
    assert open_bundle(data).counts.changes == 1

    for end in range(len(data)):
        with pytest.raises(BadBundle):
            open_bundle(data[:end])
    for place in range(len(data)):
        damaged = data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :]
        with pytest.raises(BadBundle):
            open_bundle(damaged)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"\x1f\x8b\x08", "not a bundle; create one with `mainstay record"),
        (b"MAINSTAY BUNDLE 2\nrest", "newer version"),
        (MAGIC, "truncated after 18 bytes"),
    ],
)
def test_what_is_no_bundle_is_told_with_what_to_do(data: bytes, said: str):
    with pytest.raises(BadBundle, match=said):
        open_bundle(data)


async def test_records_of_a_later_version_are_passed_over(sim):
    journal = a_journal()
    contents = await gathered(journal, since=at(90), build="test", made_at=NOW)

    class Later(msgspec.Struct, array_like=True, frozen=True, tag="zz"):
        what: str

    data = b"".join(packed(Contents(contents.head, [*contents.records, Later("news")])))  # type: ignore[list-item]

    assert open_bundle(data).counts.decisions == contents.counts.decisions


async def test_a_journal_without_anything_makes_a_bundle_without_anything(sim):
    bundle = await reopened(MemoryJournal(0), 0)

    assert bundle.counts.decisions == 0
    assert (await bundle.journal.state({"pods": 0})).kinds["pods"] == {}
