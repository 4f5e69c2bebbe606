"""Frames: pieces of a file with length and checksums, so that a reader can tell a torn write from a whole one.

    length   checksum of content   checksum of those two   content

If a file is synced after each frame, a crash can damage only what comes after the last sync.
So a damaged frame at the very end is the write that a crash cut short, and `read` stops there without a word. A
damaged frame with more behind it is no crash but corruption, and is `Damaged`. The head has a checksum of its own,
because a damaged length must not look like the end of the file.

Nothing here touches a disk. The store's log (store/disk_log.py) and the journal (journal/) are made of frames.
"""

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final

_HEADER: Final = Struct(">II")  # Length and checksum of the content that follows.
_HEADER_CHECKSUM: Final = Struct(">I")
HEAD_BYTES: Final = _HEADER.size + _HEADER_CHECKSUM.size


class Damaged(Exception):
    """A frame is not as it was written, and it is not the last one. `at` says where it begins.

    `resume` is where the next frame begins, if the damaged one still tells; None if the rest cannot be found.
    """

    def __init__(self, message: str, at: int, resume: int | None) -> None:
        super().__init__(message)
        self.at = at
        self.resume = resume


def frame(content: bytes) -> bytes:
    """The bytes to append for this content."""
    header = _HEADER.pack(len(content), zlib.crc32(content))
    return header + _HEADER_CHECKSUM.pack(zlib.crc32(header)) + content


def read(data: bytes, start: int) -> Iterator[tuple[bytes, int]]:
    """The contents of all whole frames from `start`, each with where it ends. Raises `Damaged` before the last one."""
    while start + HEAD_BYTES <= len(data):
        header = data[start : start + _HEADER.size]
        length, expected = _HEADER.unpack(header)
        content_start = start + HEAD_BYTES
        end = content_start + length
        if _HEADER_CHECKSUM.unpack_from(data, start + _HEADER.size) != (zlib.crc32(header),):
            if any(data[content_start:]):
                raise Damaged(
                    f"the head of the frame at byte {start} is damaged, and there is more after it", start, None
                )
            return  # The last write before a crash, whose blocks were never filled.
        content = data[content_start:end]
        if len(content) < length or zlib.crc32(content) != expected:
            if end < len(data):
                raise Damaged(f"the frame at byte {start} is damaged, and there is more after it", start, end)
            return  # The last write before a crash, cut short.
        yield content, end
        start = end


class FrameReader:
    """Reads frames as their bytes come, for a stream or a file that is not held in memory. A frame that is not as it
    was written is `Damaged` wherever it is: nothing here was cut short by a crash."""

    def __init__(self, content_bytes_max: int, start: int = 0) -> None:
        """`start` is where the first frame is in its file, for messages."""
        self._content_bytes_max = content_bytes_max
        self._waiting = bytearray()
        self._at = start

    @property
    def unread(self) -> int:
        """How many bytes of an unfinished frame there are."""
        return len(self._waiting)

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The frames that are whole now, each as it is in the file, and its content. Raises `Damaged`."""
        self._waiting += data
        while len(self._waiting) >= HEAD_BYTES:
            header = bytes(self._waiting[: _HEADER.size])
            length, expected = _HEADER.unpack(header)
            is_whole = _HEADER_CHECKSUM.unpack_from(self._waiting, _HEADER.size) == (zlib.crc32(header),)
            if not is_whole or length > self._content_bytes_max:
                raise Damaged(f"the head of the frame at byte {self._at} is damaged", self._at, None)
            end = HEAD_BYTES + length
            if len(self._waiting) < end:
                return
            whole = bytes(self._waiting[:end])
            content = whole[HEAD_BYTES:]
            if zlib.crc32(content) != expected:
                raise Damaged(f"the frame at byte {self._at} is damaged", self._at, self._at + end)
            del self._waiting[:end]
            self._at += end
            yield whole, content
