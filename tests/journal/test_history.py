"""What the recorder writes down of a store's history, and what a reader makes of it."""

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mainstay.api.object_key import ObjectKey
from mainstay.env import tasks
from mainstay.env.invariants import BrokenInvariant
from mainstay.journal.coverage import GapReason
from mainstay.journal.errors import HistoryAhead, JournalInUse
from mainstay.journal.history import RETRY_AFTER, HistoryBatch, HistoryRecorder
from mainstay.journal.reader import Reader
from mainstay.journal.segments import SegmentLimits
from mainstay.server.decisions.history_source import StoreHistory
from mainstay.sim.disk import SimDisk
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.interface import Committed, DeleteEntry, Put, Store, Write
from mainstay.store.local import LocalStore
from tests.journal.builders import a_pod, a_secret
from tests.twins import journal as twins

SMALL = SegmentLimits(segment_bytes=700, snapshot_changes=5)
KEYS = [
    "core/pods/default/a",
    "core/pods/default/b",
    "core/pods/other/a",
    "core/nodes/n1",
    "apps/deployments/default/a",
]
KINDS = ("pods", "nodes", "deployments.apps")

Model = dict[int, dict[str, tuple[int, bytes]]]
"""What the store had at each revision: by key, the revision that wrote it and the value."""


async def commit(store: Store, model: Model, *writes: Write) -> int:
    answer = await store.commit([], writes)
    assert isinstance(answer, Committed)
    state = dict(model[max(model)]) if model else {}
    for write in writes:
        if isinstance(write, Put):
            state[write.key] = answer.revision, write.value
        else:
            state.pop(write.key, None)
    model[answer.revision] = state
    return answer.revision


def told(reader: Reader, vector: dict[str, int]) -> dict[str, tuple[int, bytes]]:
    """A state of the journal, as a model has it."""
    state = reader.state(vector)
    assert state.is_complete, state.gaps
    result = {}
    for kind, objects in state.kinds.items():
        plural, _, group = kind.partition(".")
        for key, stored in objects.items():
            where = f"{key.namespace}/{key.name}" if key.namespace else key.name
            result[f"{group or 'core'}/{plural}/{where}"] = stored.revision, stored.value
    return result


def at(model: Model, revision: int) -> dict[str, tuple[int, bytes]]:
    return model[max(each for each in model if each <= revision)]


async def a_recorder(store: Store, disk: SimDisk, sim: Simulation, limits: SegmentLimits = SMALL) -> HistoryRecorder:
    recorder = HistoryRecorder(disk, StoreHistory(store), sim.get_clock("journal"), limits)
    await recorder.start()
    return recorder


async def recorded(store: Store, recorder: HistoryRecorder) -> None:
    await recorder.reach(await store.revision())


async def random_history(sim: Simulation, choices: list[tuple[int, int]]) -> None:
    """Write as chosen, record all of it, and compare the rebuilt state at every revision with what the store had."""
    store, disk = await open_memory(), sim.get_disk("journal")
    model: Model = {1: {}}
    recorder = await a_recorder(store, disk, sim)
    await recorder.reach(1)
    for number, (key, what) in enumerate(choices):
        write: Write = DeleteEntry(KEYS[key]) if what == 0 else Put(KEYS[key], a_pod(f"{number}", what=what))
        await commit(store, model, write)
        if what == 1:
            await recorded(store, recorder)
            await store.compact(await store.revision())
        if what == 2:
            await recorder.close()
            disk.close()
            recorder = await a_recorder(store, disk, sim)
    await recorded(store, recorder)
    reader = Reader(disk)
    latest = max(model)
    for revision in range(1, latest + 1):
        assert told(reader, dict.fromkeys(KINDS, revision)) == at(model, revision)
    # Each kind at a revision of its own, as caches are.
    vector = {"pods": latest, "nodes": max(1, latest - 2), "deployments.apps": max(1, latest - 1)}
    wanted = {
        key: value
        for kind, prefix in (("pods", "core/pods/"), ("nodes", "core/nodes/"), ("deployments.apps", "apps/"))
        for key, value in at(model, vector[kind]).items()
        if key.startswith(prefix)
    }
    assert told(reader, vector) == wanted


HISTORIES = st.lists(st.tuples(st.integers(0, len(KEYS) - 1), st.integers(0, 9)), max_size=40)


def rebuild_random_histories() -> None:
    @settings(max_examples=60, phases=[Phase.generate])
    @given(choices=HISTORIES)
    def rebuild(choices: list[tuple[int, int]]) -> None:
        with Simulation(1) as sim:
            sim.run(random_history(sim, choices))

    rebuild()


def test_a_rebuilt_state_is_what_the_store_had_at_that_revision():
    rebuild_random_histories()


@pytest.mark.parametrize("twin", twins.STATE_TWINS, ids=lambda twin: twin.__name__)
def test_a_journal_that_rebuilds_something_else_is_caught(twin, monkeypatch):
    twin(monkeypatch)

    with pytest.raises(AssertionError):
        rebuild_random_histories()


async def test_changes_carry_the_decision_and_the_cause_that_came_with_them(sim):
    store, disk = await open_memory(), sim.get_disk("journal")
    recorder = await a_recorder(store, disk, sim)
    await recorder.reach(1)
    lineage = Put("~lineage/00", b'{"key":"core/pods/default/a","decision":"d-7","cause":"5001"}')
    await store.commit([], [Put("core/pods/default/a", b"{}"), lineage])
    await store.commit([], [Put("core/pods/default/b", b"{}")])
    await store.commit(
        [],
        [
            DeleteEntry("core/pods/default/a"),
            Put(lineage.key, b'{"key":"core/pods/default/a","decision":"d-8","cause":""}'),
        ],
    )
    await recorded(store, recorder)

    changes = Reader(disk).changes(kind="pods")

    assert [(each.revision, each.key, each.value, each.decision, each.cause) for each in changes.records] == [
        (2, "core/pods/default/a", b"{}", "d-7", "5001"),
        (3, "core/pods/default/b", b"{}", "", ""),
        (4, "core/pods/default/a", None, "d-8", ""),
    ]
    assert [each.revision for each in Reader(disk).changes(decision="d-8").records] == [4]
    of_one = Reader(disk).changes(kind="pods", namespace="default", name="a")
    assert [each.revision for each in of_one.records] == [2, 4]
    assert [each.revision for each in Reader(disk).changes(after=2, until=3).records] == [3]


async def test_keys_that_are_no_objects_are_left_out(sim):
    store, disk = await open_memory(), sim.get_disk("journal")
    recorder = await a_recorder(store, disk, sim)
    await recorder.reach(1)
    await store.commit([], [Put("operations/x/y", b"an answer with a token"), Put("terms/a/b", b"4")])
    await recorded(store, recorder)

    assert Reader(disk).changes().records == ()
    assert Reader(disk).recorded() == ((1, 2),)


async def test_the_store_keeps_what_is_not_durable_in_the_journal(sim):
    store, disk = await open_memory(), sim.get_disk("journal")
    recorder = await a_recorder(store, disk, sim)
    await recorder.reach(1)
    disk.capacity_bytes = 0
    for number in range(5):
        await store.commit([], [Put("core/pods/default/a", a_pod(f"{number}"))])
    await tasks.sleep(3 * RETRY_AFTER)

    assert await store.compact(await store.revision()) == 1
    assert recorder.failures > 0
    assert "no room" in recorder.last_failure

    disk.capacity_bytes = None
    await recorded(store, recorder)
    assert await store.compact(await store.revision()) == 6
    assert len(Reader(disk).changes().records) == 5


async def test_an_answer_that_crosses_a_gap_says_so(sim):
    store, disk = await open_memory(), sim.get_disk("journal")
    source = StoreHistory(store)
    model: Model = {1: {}}
    recorder = HistoryRecorder(disk, source, sim.get_clock("journal"), SMALL)
    await recorder.start()
    await commit(store, model, Put("core/pods/default/a", b'{"n":1}'))
    await recorded(store, recorder)
    await recorder.close()
    disk.close()
    source.close()
    for number in range(4):
        await commit(store, model, Put("core/pods/default/b", b'{"n":%d}' % number))
    await store.compact(await store.revision())
    recorder = await a_recorder(store, disk, sim)
    await commit(store, model, Put("core/pods/default/c", b'{"n":9}'))
    await recorded(store, recorder)
    reader = Reader(disk)

    inside = reader.state({"pods": 4})
    across = reader.changes()

    assert recorder.gaps == 1
    assert [(gap.after, gap.until, gap.reason) for gap in inside.gaps] == [(2, 4, GapReason.MISSED)]
    assert [(gap.after, gap.until, gap.reason) for gap in across.gaps] == [(2, 6, GapReason.MISSED)]
    assert [change.revision for change in across.records] == [2, 7]
    assert str(across.gaps[0]) == "revisions 3 to 6 are missing (Missed)"
    assert told(reader, {"pods": 2}) == model[2]
    assert told(reader, {"pods": 6}) == model[6]
    assert told(reader, {"pods": 7}) == model[7]
    assert reader.changes(after=6).is_complete


async def test_what_is_not_recorded_yet_or_no_longer_is_a_gap_as_well(sim):
    store, disk = await open_memory(), sim.get_disk("journal")
    for number in range(5):
        await store.commit([], [Put("core/pods/default/a", b'{"n":%d}' % number)])
    recorder = await a_recorder(store, disk, sim)
    await recorded(store, recorder)
    reader = Reader(disk)

    assert [gap.reason for gap in reader.state({"pods": 3}).gaps] == [GapReason.BEFORE]
    assert [gap.reason for gap in reader.state({"pods": 9}).gaps] == [GapReason.NOT_YET]
    assert reader.state({"pods": 6}).kinds == {"pods": {ObjectKey("default", "a"): (6, b'{"n":4}')}}
    assert Reader(sim.get_disk("empty")).state({"pods": 1}).kinds == {"pods": {}}
    assert not Reader(sim.get_disk("empty")).state({"pods": 1}).is_complete


async def test_a_store_that_was_restored_from_a_backup_is_not_recorded_over_the_old_history(sim):
    store, disk = await open_memory(), sim.get_disk("journal")
    await store.commit([], [Put("core/pods/default/a", b"{}")])
    recorder = await a_recorder(store, disk, sim)
    await recorded(store, recorder)
    await recorder.close()
    disk.close()
    older: LocalStore = await open_memory()
    failures: list[BaseException] = []
    sim.loop.set_exception_handler(lambda loop, context: failures.append(context["exception"]))
    recorder = await a_recorder(older, disk, sim)

    with pytest.raises(HistoryAhead):
        await recorder.reach(5)
    await tasks.sleep(RETRY_AFTER)
    assert [type(failure) for failure in failures] == [HistoryAhead]
    await recorder.close()


async def test_two_recorders_do_not_write_one_journal(sim):
    store, disk = await open_memory(), sim.get_disk("journal")
    await a_recorder(store, disk, sim)

    with pytest.raises(JournalInUse, match="another directory"):
        await a_recorder(store, disk, sim)


async def test_a_snapshot_bounds_what_is_read_for_a_state(sim):
    store, disk = await open_memory(), sim.get_disk("journal")
    recorder = await a_recorder(store, disk, sim)
    for number in range(40):
        await store.commit([], [Put("core/pods/default/a", a_pod(f"{number}"))])
        await recorded(store, recorder)

    state = Reader(disk).state({"pods": 41})

    assert recorder.snapshots >= 7
    assert 41 - state.based_on <= SMALL.snapshot_changes


async def test_old_history_is_forgotten_and_the_rest_stays_readable(sim):
    store, disk = await open_memory(), sim.get_disk("journal")
    limits = SegmentLimits(segment_bytes=700, snapshot_changes=5, keep_bytes=6_000)
    model: Model = {1: {}}
    recorder = await a_recorder(store, disk, sim, limits)
    for number in range(300):
        await commit(store, model, Put(f"core/pods/default/p{number % 4}", a_pod(f"{number}")))
        await recorded(store, recorder)

    reader = Reader(disk)
    oldest = reader.recorded()[0][0]
    assert oldest > 200
    assert sum(len(disk.read(name)) for name in disk.names() if name.endswith((".zst", ".names"))) < 10_000
    assert told(reader, {"pods": 301}) == model[301]
    assert reader.state({"pods": 5}).gaps[0].reason == GapReason.BEFORE


async def test_values_of_secrets_are_in_no_file(sim):
    store, disk = await open_memory(), sim.get_disk("journal")
    await store.commit([], [Put("core/secrets/default/before", a_secret("before", token="tulip-in-a-snapshot"))])
    recorder = await a_recorder(store, disk, sim)
    await recorded(store, recorder)
    await store.commit([], [Put("core/secrets/default/after", a_secret("after", token="tulip-in-a-change"))])
    await recorded(store, recorder)
    reader = Reader(disk)

    secrets = reader.state({"secrets": 3}).kinds["secrets"]

    assert [stored.decoded()["data"] for stored in secrets.values()] == [
        {"token": "(secret, 17 bytes)"},
        {"token": "(secret, 19 bytes)"},
    ]


async def test_a_gap_in_what_waits_to_be_recorded_is_noticed(sim):
    store = await open_memory()
    recorder = await a_recorder(store, sim.get_disk("journal"), sim)
    await recorder.reach(1)
    recorder._take(HistoryBatch(2, ()))
    recorder._taken = 3

    with pytest.raises(BrokenInvariant, match="no gap: history after revision 3: last=2"):
        recorder._take(HistoryBatch(4, ()))
    recorder._taken = 2
    await recorder.close()
