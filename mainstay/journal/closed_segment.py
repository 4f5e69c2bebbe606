"""What a segment looks like once it is closed: a plain function of what was in the open one, and where it is computed.

To close a segment all of its records are looked at and compressed, which takes about half a second for four megabytes.
In a server under load that would be taken from those who ask it something. So a large segment is given to a helper
process, which has time (env/helper.py). Meanwhile the open one stays as it is, and is read as such. Small segments, and
those for which a helper is of no use, are closed where they are.
"""

from typing import Final, NamedTuple

import msgspec

from mainstay.env.helper import Helper, HelperAnswer, serve
from mainstay.journal.files import Builder, FileIndex, Series, read_frames

HELPED_FROM_BYTES: Final = 512 * 1024

_encode = msgspec.msgpack.Encoder().encode


class ClosedSegment(NamedTuple):
    """The content of a closed file, its index, and the names in it. None: there was nothing in the open one."""

    data: bytes
    file_index: FileIndex
    names: bytes


def closed(series: Series, number: int, content: bytes) -> ClosedSegment | None:
    """The closed form of an open segment. The index lists what is damaged in it."""
    contents, damages, _ = read_frames(content)
    if not contents and not damages:
        return None
    builder = Builder(series, number, tuple(damages))
    data = b"".join([builder.add(each) for each in contents])
    rest, index, names = builder.finish()
    return ClosedSegment(data + rest, index, names)


class _Question(msgspec.Struct, array_like=True):
    series: Series
    number: int
    content: bytes


class _Answer(msgspec.Struct, array_like=True):
    closed: ClosedSegment | None


_question = msgspec.msgpack.Decoder(_Question).decode
_answer = msgspec.msgpack.Decoder(_Answer).decode


class ClosingHelper:
    """Computes closed forms in another process. One for all series of a journal."""

    def __init__(self) -> None:
        self._helper = Helper(__name__)

    def start(self, series: Series, number: int, content: bytes) -> HelperAnswer:
        """Begin. `read_result` what comes is the closed form."""
        return self._helper.ask(_encode(_Question(series, number, content)))

    def close(self) -> None:
        self._helper.close()


def read_result(answer: HelperAnswer) -> ClosedSegment | None:
    """What the helper has computed: waits for it. Raises `OSError` if it has not."""
    return _answer(answer.content()).closed


def answer(content: bytes) -> bytes:
    """In the helper."""
    question = _question(content)
    return _encode(_Answer(closed(question.series, question.number, question.content)))


if __name__ == "__main__":
    serve(answer)
