"""What only the log on a disk of its own has to show: frames that are torn or damaged, and its rewriting."""

import contextlib

import pytest

from mainstay.env import frames
from mainstay.sim.disk import PowerLost, SimDisk, Survival
from mainstay.sim.run.choices import Choices
from mainstay.store import disk_log
from mainstay.store.disk_log import DiskLog
from mainstay.store.errors import Corrupt
from mainstay.store.interface import Put, RangePage
from mainstay.store.local import LocalStore
from tests.twins import store as twins


async def a_log_full_of_garbage(disk: SimDisk) -> RangePage:
    """A log that will be rewritten when it is opened next."""
    store = await LocalStore.open(DiskLog(disk))
    for number in range(50):
        await store.commit([], [Put("hot", bytes(100) + str(number).encode()), Put(f"k{number % 3}", b"v")])
    await store.compact(await store.revision())
    page = await store.range("")
    await store.close()
    return page


async def power_cut_while_rewriting(choices: Choices) -> None:
    """Cut the power before each operation of opening in turn. Whatever survives, nothing may be gone."""
    for operation in range(1, 20):
        disk = SimDisk(choices, "disk")
        before = await a_log_full_of_garbage(disk)
        disk.cut_power_before(operation)
        opening = DiskLog(disk)
        with contextlib.suppress(PowerLost):
            opening._open()
        store = await LocalStore.open(DiskLog(disk.after_power_cut()))
        assert await store.range("") == before
        await store.close()


@pytest.mark.parametrize("survival", list(Survival))
async def test_a_rewrite_that_is_cut_short_anywhere_loses_nothing(survival):
    await power_cut_while_rewriting(Always(survival))


async def test_a_log_that_is_renamed_before_it_was_synced_is_caught(monkeypatch):
    twins.renames_before_it_has_synced(monkeypatch)

    with pytest.raises(Corrupt, match="the log ends at revision 1, but revision 51 was acknowledged"):
        await power_cut_while_rewriting(Always(Survival.NOTHING))


class Always(Choices):
    """Makes the same choice wherever there is one."""

    __slots__ = ("_answer",)

    def __init__(self, answer: int) -> None:
        super().__init__()
        self._answer = answer

    def choose(self, label: str, options: int) -> int:
        return min(self._answer, options - 1)


async def test_a_damaged_length_is_not_taken_for_the_end_of_the_log():
    disk = SimDisk(Choices(), "disk")
    store = await LocalStore.open(DiskLog(disk))
    for number in range(20):
        await store.commit([], [Put(f"{number}", b"value")])
    await store.close()
    data = bytearray(disk.read(disk_log.FILE))
    second = len(disk_log._MAGIC) + frames.HEAD_BYTES + frames._HEADER.unpack_from(data, len(disk_log._MAGIC))[0]
    for bit in range(8 * frames.HEAD_BYTES):
        damaged = bytearray(data)
        damaged[second + bit // 8] ^= 1 << bit % 8
        other = SimDisk(Choices(), "other")
        other.append(disk_log.FILE, bytes(damaged))
        other.sync(disk_log.FILE)
        with pytest.raises(Corrupt):
            await LocalStore.open(DiskLog(other))


async def test_a_full_disk_does_not_keep_a_log_from_being_opened():
    disk = SimDisk(Choices(), "disk")
    before = await a_log_full_of_garbage(disk)
    disk.capacity_bytes = 0

    store = await LocalStore.open(DiskLog(disk))

    assert await store.range("") == before
    assert disk_log.NEW_FILE not in disk.names()
    await store.close()
