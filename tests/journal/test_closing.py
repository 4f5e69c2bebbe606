"""Segments that are closed with the help of another process."""

from pathlib import Path

import pytest

from mainstay.env import SystemDisk
from mainstay.journal import closed_segment
from mainstay.journal import segments as segments_module
from mainstay.journal.closed_segment import ClosingHelper
from mainstay.journal.files import Series, Suffix
from mainstay.journal.segments import SegmentLimits, Segments
from tests.journal.builders import AT
from tests.journal.test_segments import a_disk, files, opened, revisions, write


class Answered:
    """An answer that comes when the test says so."""

    def __init__(self, content: bytes | None) -> None:
        self.is_there = False
        self._content = content

    def content(self) -> bytes:
        if self._content is None:
            raise BrokenPipeError("it has ended")
        return self._content


class PretendHelper(ClosingHelper):
    """Computes at once, and tells later."""

    def __init__(self, *, fails: bool = False) -> None:
        self.asked: list[Answered] = []
        self._fails = fails

    def start(self, series: Series, number: int, content: bytes) -> Answered:  # type: ignore[override]
        data = closed_segment.answer(closed_segment._encode(closed_segment._Question(series, number, content)))
        self.asked.append(Answered(None if self._fails else data))
        return self.asked[-1]


@pytest.fixture(autouse=True)
def every_segment_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments_module, "HELPED_FROM_BYTES", 0)


def helped(disk: object, helper: ClosingHelper) -> Segments:
    segments = Segments(disk, Series.HISTORY, SegmentLimits(segment_bytes=2_000), helper)  # type: ignore[arg-type]
    segments.open()
    return segments


def test_a_segment_is_read_as_it_is_until_its_closed_form_has_been_computed():
    disk, helper = a_disk(), PretendHelper()
    segments = helped(disk, helper)
    write(segments, 1, 40)
    assert (len(helper.asked), files(disk, Suffix.CLOSED), revisions(disk)) == (1, [], list(range(1, 41)))

    while not helper.asked[-1].is_there:
        helper.asked[-1].is_there = True
        segments.roll_if_old(AT)

    assert files(disk, Suffix.CLOSED)
    assert revisions(disk) == list(range(1, 41))


def test_it_is_the_same_as_without_help():
    with_help, without = a_disk(), a_disk()
    helper = PretendHelper()
    segments = helped(with_help, helper)
    write(segments, 1, 40)
    while not helper.asked[-1].is_there:
        helper.asked[-1].is_there = True
        segments.roll_if_old(AT)
    segments.close()
    alone = opened(without)
    write(alone, 1, 40)
    alone.roll()

    assert {name: with_help.read(name) for name in with_help.names()} == {
        name: without.read(name) for name in without.names()
    }


def test_a_helper_that_fails_is_done_without():
    disk, helper = a_disk(), PretendHelper(fails=True)
    segments = helped(disk, helper)
    write(segments, 1, 40)
    helper.asked[0].is_there = True
    segments.roll_if_old(AT)

    assert files(disk, Suffix.CLOSED)
    assert revisions(disk) == list(range(1, 41))


def test_a_helper_that_is_too_slow_is_not_waited_for():
    disk, helper = a_disk(), PretendHelper()
    segments = helped(disk, helper)
    write(segments, 1, 100)

    assert len(files(disk, Suffix.OPEN)) <= segments_module.UNCLOSED_MAX + 1
    assert revisions(disk) == list(range(1, 101))

    segments.close()
    assert files(disk, Suffix.OPEN) == []
    assert revisions(disk) == list(range(1, 101))


def test_a_real_helper_closes_segments_on_a_real_disk(tmp_path: Path):
    disk, helper = SystemDisk(tmp_path), ClosingHelper()
    segments = helped(disk, helper)
    write(segments, 1, 40)
    assert segments._helped is not None
    segments._helped[1].content()
    segments.roll_if_old(AT)
    assert files(disk, Suffix.CLOSED)
    segments.close()
    helper.close()
    assert revisions(disk) == list(range(1, 41))
    disk.close()
