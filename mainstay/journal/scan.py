"""Going through the files of a journal: the blocks that are wanted, and no others.

`Scan` is one look at one or more directories. It reads what is there at that moment, of a living journal as of one that
was copied somewhere, and takes no lock. A writer may close or forget a file while it is being looked for: then
`FileNotFoundError` comes out, and the caller begins a new scan. What one scan has read of closed files, which never
change, and of the beginning of open ones, the next need not read again if both are given the same `ScanMemory`.

What cannot be read is noted in `damages`, with the revisions that are lost by it, and the scan goes on.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from mainstay.env import Disk
from mainstay.journal.files import (
    BlockIndex,
    Content,
    CorruptFile,
    FileIndex,
    FileName,
    Interval,
    Series,
    Suffix,
    described,
    hash_names,
    merged,
    parsed_name,
    read_block,
    read_frames,
    read_names,
)
from mainstay.journal.former_names import describe_former, find_former
from mainstay.journal.manifest import find_missing
from mainstay.journal.name_hashes import NameHashes, hashed
from mainstay.journal.record import LostRecord, Record, SampledRecord, decode
from mainstay.journal.segment_end import describe_lost_end, read_end
from mainstay.journal.segments import read_file_index

NAMES_BYTES_MAX: Final = 64 * 1024 * 1024  # Of files of names that are kept: those of some eight million decisions.
_DATA_MAX: Final = 4  # Closed files whose content is at hand at once.


@dataclass(frozen=True, slots=True)
class Damage:
    """A file, or a part of one, that cannot be read."""

    file: str
    what: str
    lost: tuple[Interval, ...] = ()
    """The revisions that were in it, as far as known."""
    is_absent: bool = False
    """It is not there, or was set aside: `what` says all about it."""
    is_server: bool = False
    """It is no file, but an API server that did not answer."""

    def __str__(self) -> str:
        if self.is_absent:
            return self.what
        if self.is_server:
            return f"incomplete: the server {self.file} did not answer: {self.what}"
        return (
            f"{self.file} is damaged: {self.what}. Everything else can still be read. "
            "Put a good copy of the file in its place, if there is one, and remove its .index; otherwise leave it"
        )


@dataclass(frozen=True, slots=True)
class Block:
    index: BlockIndex
    records: Sequence[Record]


@dataclass(frozen=True, slots=True)
class _OpenBlock:
    """A frame of a segment that is being written."""

    index: BlockIndex
    data: bytes
    hashes: set[int]


@dataclass(slots=True)
class _File:
    number: int
    """Of its disk."""
    disk: Disk
    name: FileName
    index: FileIndex
    open_blocks: list[_OpenBlock] = field(default_factory=list)


@dataclass(slots=True)
class _OpenFile:
    """What was read of a segment that is being written."""

    end: int = 0
    """Of the frames that were read. What is before it does not change any more."""
    blocks: list[_OpenBlock] = field(default_factory=list)


class ScanMemory:
    """What a reader keeps from one scan to the next. For one thread at a time."""

    def __init__(self) -> None:
        self.indexes: dict[tuple[int, FileName], FileIndex] = {}
        """By the number of the disk and the name of the closed file."""
        self.open: dict[tuple[int, FileName], _OpenFile] = {}
        self._names: dict[tuple[int, FileName], NameHashes | None] = {}
        self._names_bytes = 0

    def names(self, place: tuple[int, FileName], read: Callable[[], NameHashes | None]) -> NameHashes | None:
        if place not in self._names:
            found = self._names[place] = read()
            self._names_bytes += 0 if found is None else found.size
            while self._names_bytes > NAMES_BYTES_MAX and len(self._names) > 1:
                gone = self._names.pop(next(iter(self._names)))
                self._names_bytes -= 0 if gone is None else gone.size
            return found
        return self._names[place]

    def retain(self, disk: int, there: dict[FileName, None]) -> None:
        """Forget what is about files of a disk that are not there any more."""
        for gone in [each for each in self.indexes if each[0] == disk and each[1] not in there]:
            del self.indexes[gone]
            names = self._names.pop(gone, None)
            self._names_bytes -= 0 if names is None else names.size
        for gone in [each for each in self.open if each[0] == disk and each[1] not in there]:
            del self.open[gone]


def _all(block: BlockIndex) -> bool:
    return True


class Scan:
    def __init__(self, disks: Sequence[Disk], kept: ScanMemory | None = None) -> None:
        self._disks = disks
        self._kept = kept or ScanMemory()
        self._damages: dict[tuple[str, str], Damage] = {}
        self._there: list[dict[FileName, None]] = []
        self._former: list[Damage] = []
        for number, disk in enumerate(disks):
            names = disk.names()
            self._former += [Damage(prefix, describe_former(prefix), (), True) for prefix in find_former(names)]
            there = {name: None for name in map(parsed_name, names) if name is not None}
            self._kept.retain(number, there)
            self._there.append(there)
        self._files: dict[Series, list[_File]] = {}
        self._data: dict[tuple[int, FileName], bytes] = {}

    @property
    def damages(self) -> tuple[Damage, ...]:
        for series in Series:
            self._list_files(series)
        return tuple(self._damages.values())

    def find_damages(self, series: Series) -> tuple[Damage, ...]:
        """Of a series. A former history is one that answers about the present one leave out."""
        self._list_files(series)
        found = tuple(damage for damage in self._damages.values() if damage.file.startswith(series))
        return found if series is Series.SNAPSHOT else (*found, *self._former)

    @property
    def recorded(self) -> tuple[Interval, ...]:
        """The revisions whose changes the journal says it has."""
        return merged(cover for file in self._list_files(Series.HISTORY) for cover in file.index.covers)

    @property
    def missed(self) -> tuple[Interval, ...]:
        return tuple(interval for file in self._list_files(Series.HISTORY) for interval in file.index.missed)

    def times(self, series: Series) -> Interval:
        """The earliest and the latest time in a series; zeros if it has none."""
        blocks = [block for file in self._list_files(series) for block in file.index.blocks if block.count]
        return min((each.first_at for each in blocks), default=0), max((each.last_at for each in blocks), default=0)

    @property
    def snapshots(self) -> list[int]:
        """The revisions of which there is a snapshot, in order."""
        wanted = (Series.SNAPSHOT, Suffix.CLOSED)
        return sorted(name.number for there in self._there for name in there if (name.series, name.suffix) == wanted)

    def find_time(self, revision: int) -> int:
        """About when a revision was recorded, and no later; 0 if that is not known."""
        found = [
            block.first_at
            for file in self._list_files(Series.HISTORY)
            for block in file.index.blocks
            if any(after < revision <= until for after, until in block.covers)
        ]
        return min(found, default=0)

    def absent(self, times: Interval) -> tuple[tuple[LostRecord, ...], tuple[SampledRecord, ...]]:
        """Records about decisions between two times that are not there: lost, and left out by rules."""
        lost: dict[LostRecord, None] = {}
        sampled: dict[tuple[str, str], SampledRecord] = {}
        for file in self._list_files(Series.DECISIONS):
            for block in file.index.blocks:
                for each in block.lost:
                    if each.until >= times[0] and each.since < times[1]:
                        lost[each] = None
                for told in block.sampled:
                    if told.until >= times[0] and told.since < times[1]:
                        before = sampled.get((told.rule, told.component))
                        sampled[told.rule, told.component] = told if before is None else before.with_more(told)
        return tuple(lost), tuple(sampled.values())

    def blocks(
        self,
        series: Series,
        wanted: Callable[[BlockIndex], bool] = _all,
        *,
        named: str = "",
        containing: Sequence[bytes] = (),
        number: int | None = None,
        newest_first: bool = False,
    ) -> Iterator[Block]:
        """The blocks of a series that are wanted and can be read; with `named`, those that may have the name.

        With `containing`, of their records at least those that have each of these bytes. With `newest_first` in the
        order of the latest time in them, else in that in which they were written.
        """
        found = [
            (file, place, block)
            for file in self._list_files(series)
            if number is None or file.name.number == number
            for place, block in enumerate(file.index.blocks)
            if wanted(block)
        ]
        if newest_first:
            found.sort(key=lambda each: each[2].last_at, reverse=True)
        wanted_hash = hashed(named)
        for file, place, block in found:
            if file.open_blocks:
                open_block = file.open_blocks[place]
                if not named or wanted_hash in open_block.hashes:
                    yield Block(block, decode(open_block.data, containing).records)
                continue
            if named:
                names = self._names(file)
                if names is not None and not names.may_have(place, wanted_hash):
                    continue
            try:
                yield Block(block, read_block(self._content(file), block, containing))
            except CorruptFile as error:
                self._note(file.name, str(error), block.covers)

    def _list_files(self, series: Series) -> list[_File]:
        files = self._files.get(series)
        if files is None:
            files = self._files[series] = []
            for number, (disk, there) in enumerate(zip(self._disks, self._there, strict=True)):
                for name in there:
                    if name.series != series:
                        continue
                    if name.suffix == Suffix.CLOSED:
                        files.append(self._closed(number, disk, name))
                    elif name.suffix == Suffix.OPEN and name._replace(suffix=Suffix.CLOSED) not in there:
                        files.append(self._open(number, disk, name))
                for missing in find_missing(disk, series):
                    what = f"{missing} is missing: what it held is in no answer. If it was moved away, put it back"
                    self._damages[str(missing), what] = Damage(str(missing), what, (), True)
        return files

    def _content(self, file: _File) -> bytes:
        place = file.number, file.name
        if place not in self._data:
            if len(self._data) >= _DATA_MAX:
                self._data.pop(next(iter(self._data)))
            self._data[place] = file.disk.read(str(file.name))
        return self._data[place]

    def _names(self, file: _File) -> NameHashes | None:
        """None: it is not there, or damaged. It is only a help: without it, look."""

        def read() -> NameHashes | None:
            try:
                return read_names(file.disk.read(str(file.name._replace(suffix=Suffix.NAMES))))
            except (CorruptFile, FileNotFoundError):
                return None

        return self._kept.names((file.number, file.name), read)

    def _closed(self, number: int, disk: Disk, name: FileName) -> _File:
        index = self._kept.indexes.get((number, name))
        if index is None:
            index, is_good = read_file_index(disk, name)
            if is_good:  # Otherwise an operator may put a better file there.
                self._kept.indexes[number, name] = index
        for damage in index.damages:
            self._note(name, damage, ())
        return _File(number, disk, name, index)

    def _open(self, number: int, disk: Disk, name: FileName) -> _File:
        noted_end = read_end(disk, name.series)
        data = disk.read(str(name))
        read = self._kept.open.setdefault((number, name), _OpenFile())
        if read.end > len(data):
            read.end, read.blocks = 0, []
        contents, damages, end = read_frames(data, read.end)
        if not damages and (lost := describe_lost_end(noted_end, name.number, end)):
            damages.append(lost)
        for damage in damages:
            self._note(name, damage, ())
        blocks = [*read.blocks, *map(_read_block, contents)]
        if not damages:
            read.blocks, read.end = blocks, end
        index = FileIndex(1, name.series, name.number, 0, 0, tuple(block.index for block in blocks))
        return _File(number, disk, name, index, blocks)

    def _note(self, name: FileName, what: str, lost: tuple[Interval, ...]) -> None:
        self._damages[str(name), what] = Damage(str(name), what, lost)


def _read_block(content: Content) -> _OpenBlock:
    return _OpenBlock(described(content.glances, 0), content.data, hash_names(content.glances))
