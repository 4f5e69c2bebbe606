"""A journal that is ahead of its store: it is set aside, a new one is begun, and every answer says so."""

import contextlib

import pytest

from mainstay.journal.former_epoch import set_aside
from mainstay.journal.former_names import find_former
from mainstay.journal.reader import Reader
from mainstay.sim.disk import PowerLost, SimDisk
from mainstay.sim.run.choices import Choices
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.interface import Put
from tests.journal.test_history import a_recorder, recorded


async def a_journal(sim: Simulation, disk: SimDisk, commits: int) -> None:
    store = await open_memory()
    recorder = await a_recorder(store, disk, sim)
    for number in range(commits):
        await store.commit([], [Put(f"core/pods/default/p{number}", b'{"metadata":{}}')])
        await recorded(store, recorder)
    await recorder.close()
    disk.close()


async def test_a_journal_that_is_not_ahead_stays_as_it_is(sim):
    disk = sim.get_disk("journal")
    await a_journal(sim, disk, 5)
    before = disk.names()

    assert set_aside(disk, 6) == ""
    assert disk.names() == before


async def test_a_new_history_is_recorded_beside_the_former_one_and_answers_say_so(sim):
    disk = sim.get_disk("journal")
    await a_journal(sim, disk, 20)

    assert set_aside(disk, 3) == "former-1"
    assert Reader(disk).reached() == 0
    await a_journal(sim, disk, 8)

    reader = Reader(disk)
    assert reader.reached() == 9
    (said,) = map(str, reader.changes(kind="pods").damages)
    assert said.startswith("JournalAheadOfStore: the store was restored from an older backup")
    assert "former-1.*" in said
    assert [str(each) for each in reader.decisions().damages] == [said]
    assert reader.damages() == (), "nothing is damaged"
    assert set_aside(disk, 2) == "former-2"
    assert find_former(disk.names()) == ["former-1", "former-2"]


@pytest.mark.parametrize("operation", range(1, 40))
async def test_setting_aside_may_be_cut_short_anywhere(sim, operation):
    disk = SimDisk(Choices(), "journal")
    await a_journal(sim, disk, 12)
    disk.cut_power_before(operation)
    with contextlib.suppress(PowerLost):
        set_aside(disk, 3)
    disk = disk.after_power_cut()

    set_aside(disk, 3)

    assert Reader(disk).reached() == 0
    assert not [name for name in disk.names() if name.startswith(("history-", "snapshot-"))]
