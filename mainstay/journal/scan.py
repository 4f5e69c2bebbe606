"""Going through the files of a journal: the blocks that are wanted, and no others.

`Scan` is one look at one or more directories. It reads what is there at that moment, of a living journal as of one that
was copied into a bundle, and takes no lock. A writer may close or forget a file while it is being looked for: then
`FileNotFoundError` comes out, and whoever asked begins a new scan.

What cannot be read is noted in `damages`, with the revisions that are lost by it, and the scan goes on.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from mainstay.env import Disk
from mainstay.journal.files import (
    BlockIndex,
    Broken,
    FileIndex,
    FileName,
    Interval,
    Series,
    Suffix,
    described,
    may_have,
    merged,
    parsed_name,
    read_block,
    read_frames,
)
from mainstay.journal.record import Record
from mainstay.journal.segments import index_of


@dataclass(frozen=True, slots=True)
class Damage:
    """A file, or a part of one, that cannot be read."""

    file: str
    what: str
    lost: tuple[Interval, ...] = ()
    """The revisions that were in it, as far as known."""

    def __str__(self) -> str:
        return (
            f"{self.file} is damaged: {self.what}. Everything else can still be read. "
            "Put a good copy of the file in its place, if there is one, and remove its .index; otherwise leave it"
        )


@dataclass(frozen=True, slots=True)
class _OpenBlock:
    index: BlockIndex
    records: Sequence[Record]


@dataclass(slots=True)
class _File:
    disk: Disk
    name: FileName
    index: FileIndex
    open_blocks: list[_OpenBlock] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Block:
    index: BlockIndex
    records: Sequence[Record]


def _all(block: BlockIndex) -> bool:
    return True


class Scan:
    def __init__(self, disks: Sequence[Disk]) -> None:
        self._damages: dict[tuple[str, str], Damage] = {}
        self._files: dict[Series, list[_File]] = {series: [] for series in Series}
        for disk in disks:
            names = {name: None for name in map(parsed_name, disk.names()) if name is not None}
            for name in names:
                if name.suffix == Suffix.CLOSED:
                    self._files[name.series].append(self._closed(disk, name))
                elif name.suffix == Suffix.OPEN and name._replace(suffix=Suffix.CLOSED) not in names:
                    self._files[name.series].append(self._open(disk, name))

    @property
    def damages(self) -> tuple[Damage, ...]:
        return tuple(self._damages.values())

    def damages_of(self, series: Series) -> tuple[Damage, ...]:
        return tuple(damage for damage in self._damages.values() if damage.file.startswith(series))

    @property
    def recorded(self) -> tuple[Interval, ...]:
        """The revisions whose changes the journal says it has."""
        return merged(cover for file in self._files[Series.HISTORY] for cover in file.index.covers)

    @property
    def missed(self) -> tuple[Interval, ...]:
        return tuple(interval for file in self._files[Series.HISTORY] for interval in file.index.missed)

    def times(self, series: Series) -> Interval:
        """The earliest and the latest time in a series; zeros if it has none."""
        blocks = [block for file in self._files[series] for block in file.index.blocks if block.count]
        return min((each.first_at for each in blocks), default=0), max((each.last_at for each in blocks), default=0)

    @property
    def snapshots(self) -> list[int]:
        """The revisions of which there is a snapshot, in order."""
        return sorted(file.name.number for file in self._files[Series.SNAPSHOT])

    def blocks(
        self,
        series: Series,
        wanted: Callable[[BlockIndex], bool] = _all,
        *,
        named: str = "",
        number: int | None = None,
        newest_first: bool = False,
    ) -> Iterator[Block]:
        """The blocks of a series that are wanted, and can be read; with `named`, of files that may have the name."""
        files = self._files[series]
        for file in reversed(files) if newest_first else files:
            if number is not None and file.name.number != number:
                continue
            for block in file.open_blocks:
                if wanted(block.index):
                    yield Block(block.index, block.records)
            if file.open_blocks or not any(map(wanted, file.index.blocks)) or not self._may_have(file, named):
                continue
            yield from self._read(file, wanted)

    def _read(self, file: _File, wanted: Callable[[BlockIndex], bool]) -> Iterator[Block]:
        data = file.disk.read(str(file.name))
        for block in file.index.blocks:
            if not wanted(block):
                continue
            try:
                yield Block(block, read_block(data, block))
            except Broken as error:
                self._note(file.name, str(error), block.covers)

    def _may_have(self, file: _File, named: str) -> bool:
        if not named:
            return True
        try:
            return may_have(file.disk.read(str(file.name._replace(suffix=Suffix.NAMES))), named)
        except (Broken, FileNotFoundError):
            return True  # Only a help: without it, look.

    def _closed(self, disk: Disk, name: FileName) -> _File:
        index, _ = index_of(disk, name)
        for damage in index.damages:
            self._note(name, damage, ())
        return _File(disk, name, index)

    def _open(self, disk: Disk, name: FileName) -> _File:
        contents, damages = read_frames(disk.read(str(name)))
        for damage in damages:
            self._note(name, damage, ())
        blocks = [_OpenBlock(described(content.records, 0), content.records) for content in contents]
        index = FileIndex(1, name.series, name.number, 0, 0, tuple(block.index for block in blocks))
        return _File(disk, name, index, blocks)

    def _note(self, name: FileName, what: str, lost: tuple[Interval, ...]) -> None:
        self._damages[str(name), what] = Damage(str(name), what, lost)
