"""Reading: what a decision saw, several directories at once, and journals that are written, damaged, or copied."""

from datetime import timedelta

import pytest

from mainstay.api.object_key import ObjectKey
from mainstay.env import SystemClock, SystemDisk, tasks
from mainstay.journal.coverage import GapReason
from mainstay.journal.decisions import DecisionRecorder
from mainstay.journal.files import Suffix
from mainstay.journal.history import HistoryRecorder
from mainstay.journal.reader import Reader
from mainstay.journal.record import ViewPart, micros
from mainstay.journal.segments import SegmentLimits
from mainstay.server.decisions.history_source import StoreHistory
from mainstay.sim.disk import SimDisk
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.interface import Put, Store
from tests.journal.builders import a_decision
from tests.journal.test_segments import damage, files

SMALL = SegmentLimits(segment_bytes=500, snapshot_changes=10)


def labelled(app: str) -> bytes:
    return b'{"metadata":{"labels":{"app":"%s"}}}' % app.encode()


async def recorded(sim: Simulation, store: Store, disk: SimDisk, limits: SegmentLimits = SMALL) -> HistoryRecorder:
    recorder = HistoryRecorder(disk, StoreHistory(store), sim.get_clock("journal"), limits)
    await recorder.start()
    await recorder.reach(await store.revision())
    return recorder


async def test_a_view_is_what_each_cache_of_the_decision_held(sim):
    store, disk = await open_memory(), sim.get_disk("journal")
    recorder = await recorded(sim, store, disk)
    for name, app in (("a/one", "web"), ("a/two", "db"), ("b/one", "web"), ("a/one", "db")):
        await store.commit([], [Put(f"core/pods/{name}", labelled(app))])
    await recorder.reach(5)
    everything, old = ViewPart("pods", 5), ViewPart("pods", 4, labels="app=web")
    in_namespace = ViewPart("pods", 5, namespace="a", labels="app in (db)")

    view = Reader(disk).view(a_decision(view=(everything, old, in_namespace)))

    one, two, other = ObjectKey("a", "one"), ObjectKey("a", "two"), ObjectKey("b", "one")
    assert view.is_complete
    assert {seen: {key: stored.revision for key, stored in part.items()} for seen, part in view.parts.items()} == {
        everything: {one: 5, two: 3, other: 4},
        old: {one: 2, other: 4},
        in_namespace: {one: 5, two: 3},
    }
    assert view.parts[everything][one].decoded() == {"metadata": {"labels": {"app": "db"}, "resourceVersion": "5"}}


async def test_decisions_and_history_may_be_in_several_directories(sim):
    store, history, scheduler = await open_memory(), sim.get_disk("server"), sim.get_disk("scheduler")
    recorder = await recorded(sim, store, history)
    await store.commit([], [Put("core/pods/a/one", labelled("web"))])
    await recorder.reach(2)
    log = DecisionRecorder(scheduler, sim.get_clock("scheduler"))
    await log.start()
    decision = a_decision(view=(ViewPart("pods", 2),))
    log.record(decision)
    await log.flush()

    reader = Reader(history, scheduler)

    assert reader.decision(decision.id) == decision
    assert reader.view(decision).is_complete
    assert not Reader(scheduler).view(decision).is_complete
    assert Reader(history).decision(decision.id) is None


async def test_a_view_is_complete_only_where_the_history_was_recorded(sim):
    store, disk = await open_memory(), sim.get_disk("journal")
    await store.commit([], [Put("core/pods/a/one", labelled("web"))])
    await recorded(sim, store, disk)
    reader = Reader(disk)

    def is_complete(*revisions: int) -> bool:
        return reader.view(a_decision(view=tuple(ViewPart("pods", revision) for revision in revisions))).is_complete

    assert is_complete(2)
    assert is_complete()
    assert not is_complete(1)
    assert not is_complete(2, 3)


async def test_changes_are_found_by_time(sim):
    store, disk = await open_memory(), sim.get_disk("journal")
    recorder = await recorded(sim, store, disk)
    times = []
    for number in range(10):
        times.append(sim.get_clock("journal").wall())
        await store.commit([], [Put(f"core/pods/a/p{number}", labelled("web"))])
        await recorder.reach(number + 2)
        await tasks.sleep(timedelta(seconds=1))
    reader = Reader(disk)

    found = reader.changes(since=times[3], before=times[6])

    assert [change.revision for change in found.records] == [5, 6, 7]
    assert found.is_complete
    assert [change.revision for change in reader.changes(since=times[8]).records] == [10, 11]


async def many_changes(sim: Simulation, disk: SimDisk) -> HistoryRecorder:
    store = await open_memory()
    recorder = await recorded(sim, store, disk)
    for number in range(60):
        await store.commit([], [Put(f"core/pods/a/p{number % 5}", labelled(f"{number}"))])
        await recorder.reach(number + 2)
    return recorder


async def test_a_damaged_segment_is_a_gap_only_for_answers_that_need_it(sim):
    disk = sim.get_disk("journal")
    await many_changes(sim, disk)
    before = Reader(disk).state({"pods": 61})
    segment = [name for name in files(disk, Suffix.CLOSED) if name.startswith("history")][2]
    damage(disk, segment, 50)
    reader = Reader(disk)

    changes = reader.changes()

    (gap,) = changes.gaps
    assert gap.reason == GapReason.DAMAGED
    assert [change.revision for change in changes.records] == [
        revision for revision in range(2, 62) if not gap.after < revision <= gap.until
    ]
    assert [each.file for each in reader.damages()] == [segment]
    assert [each.file for each in changes.damages] == [segment]
    assert reader.state({"pods": 61}) == before
    inside = reader.state({"pods": gap.until})
    assert [each.reason for each in inside.gaps] == [GapReason.DAMAGED]
    assert reader.changes(after=gap.until).is_complete


async def test_a_damaged_snapshot_is_passed_over_for_an_earlier_one(sim):
    disk = sim.get_disk("journal")
    await many_changes(sim, disk)
    before = Reader(disk).state({"pods": 61})
    snapshots = [name for name in files(disk, Suffix.CLOSED) if name.startswith("snapshot")]
    damage(disk, snapshots[-1], 50)

    after = Reader(disk).state({"pods": 61})

    assert after.is_complete
    assert after.kinds == before.kinds
    assert after.based_on < before.based_on
    assert [each.file for each in after.damages] == [snapshots[-1]]


async def test_a_segment_that_is_not_there_is_a_gap(sim):
    disk = sim.get_disk("journal")
    await many_changes(sim, disk)
    segment = [name for name in files(disk, Suffix.CLOSED) if name.startswith("history")][2]
    for suffix in ("zst", "index", "names"):
        disk.remove(segment.replace("zst", suffix))

    (gap,) = Reader(disk).changes().gaps

    assert gap.reason == GapReason.ABSENT


async def test_a_copy_of_a_journal_reads_like_the_journal(sim):
    disk, copy = sim.get_disk("journal"), sim.get_disk("copy")
    await many_changes(sim, disk)
    for name in disk.names():
        copy.append(name, disk.read(name))

    assert Reader(copy).state({"pods": 30}) == Reader(disk).state({"pods": 30})
    assert Reader(copy).changes() == Reader(disk).changes()
    assert Reader(copy).recorded() == Reader(disk).recorded() == ((1, 61),)


async def test_a_file_that_is_closed_while_it_is_looked_for_is_looked_for_again(sim):
    disk: SimDisk = sim.get_disk("journal")
    recorder = await many_changes(sim, disk)

    class Closing(SimDisk):
        """The writer closes its segment just after a reader has seen that it is there."""

        is_done = False

        def names(self) -> list[str]:
            names = disk.names()
            if not self.is_done:
                self.is_done = True
                recorder._segments.roll()
            return names

        def read(self, name: str) -> bytes:
            return disk.read(name)

    assert any(name.endswith("open") for name in disk.names())
    reader = Reader(Closing(sim.choices, "reader"))

    assert len(reader.changes().records) == 60


async def test_a_journal_that_is_not_there_any_more_is_not_looked_for_for_ever(sim):
    class Vanishing(SimDisk):
        def names(self) -> list[str]:
            return ["history-000000000001.zst"]

    with pytest.raises(FileNotFoundError):
        Reader(Vanishing(sim.choices, "reader")).changes()


@pytest.mark.real_loop
async def test_it_works_on_a_real_disk_while_it_is_being_written(tmp_path):
    store, disk = await open_memory(), SystemDisk(tmp_path)
    recorder = HistoryRecorder(disk, StoreHistory(store), SystemClock(), SMALL)
    decisions = DecisionRecorder(disk, SystemClock(), SMALL)
    await recorder.start()
    await decisions.start()
    reader = Reader(SystemDisk(tmp_path))
    for number in range(40):
        await store.commit([], [Put(f"core/pods/a/p{number % 5}", labelled(f"{number}"))])
        decisions.record(a_decision(number=number, at=micros(SystemClock().wall())))
        if number % 10 == 9:
            await recorder.reach(number + 2)
            await decisions.flush()
            assert len(reader.state({"pods": number + 2}).kinds["pods"]) == 5
    await recorder.close()
    await decisions.close()
    disk.close()

    assert [change.revision for change in reader.changes().records] == list(range(2, 42))
    assert len(reader.decisions().records) == 40
    assert reader.damages() == ()
    assert not [name for name in disk.names() if name.endswith((".open", ".new"))]
