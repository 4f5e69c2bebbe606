"""The high-water mark: what is left of it after a crash, and after damage."""

import contextlib

import pytest

from mainstay.sim.disk import PowerLost, SimDisk, Survival
from mainstay.sim.run.choices import Choices
from mainstay.store.errors import Corrupt
from mainstay.store.high_water import SLOT_BYTES, HighWaterFile
from mainstay.store.log_chain import HighWater
from tests.store.test_disk_log import Always

NAME = "mark"


def a_mark(number: int) -> HighWater:
    return HighWater(number, number * 7)


@pytest.mark.parametrize("survival", list(Survival))
def test_a_power_cut_leaves_the_last_mark_or_the_one_that_was_being_written(survival):
    for operation in range(1, 25):
        disk = SimDisk(Always(survival), "disk")
        mark = HighWaterFile(disk, NAME)
        mark.create(a_mark(1))
        disk.cut_power_before(operation)
        acknowledged = 1
        with contextlib.suppress(PowerLost):
            for number in range(2, 20):
                mark.write(a_mark(number))
                acknowledged = number

        assert HighWaterFile(disk.after_power_cut(), NAME).read() in (a_mark(acknowledged), a_mark(acknowledged + 1))


def test_a_file_without_a_whole_slot_is_damage_and_one_slot_is_enough():
    disk = SimDisk(Choices(), "disk")
    mark = HighWaterFile(disk, NAME)
    mark.create(a_mark(1))
    mark.write(a_mark(2))
    disk.flip(NAME, 8 * SLOT_BYTES + 70)
    assert HighWaterFile(disk, NAME).read() in (a_mark(1), a_mark(2))
    disk.flip(NAME, 70)

    with pytest.raises(Corrupt, match="mark is damaged: it does not tell which revision was acknowledged last"):
        HighWaterFile(disk, NAME).read()


@pytest.mark.parametrize("size", [24, 30, SLOT_BYTES, SLOT_BYTES + 10, 2 * SLOT_BYTES - 1])
def test_a_file_that_was_cut_short_is_made_whole_on_opening(size):
    disk = SimDisk(Choices(), "disk")
    HighWaterFile(disk, NAME).create(a_mark(5))
    disk.put(NAME, disk.copy(NAME)[:size])
    mark = HighWaterFile(disk, NAME)

    mark.settle(mark.read(), a_mark(5))

    for number in (6, 7, 8):
        mark.write(a_mark(number))
        assert HighWaterFile(disk, NAME).read() == a_mark(number)
