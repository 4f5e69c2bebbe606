"""What a long search has done so far, as a file of lines: stopped at any moment, the next one goes on behind it.

A line says of which scenario which seeds were run, in which way, by which build, and which of them have not passed.
Seeds that another build has run are run again: it is another program.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from mainstay.env.build import build


class Done(msgspec.Struct, frozen=True):
    """Some seeds of a scenario, in a row."""

    scenario: str
    first: int
    count: int
    strategy: str
    seconds: float
    checked: int
    """How many of them were made a second time, in another process."""
    bad: dict[int, str]
    """The seeds that have not passed, and why."""
    build: str = ""


class SearchLog:
    """Without a path it remembers only what is added."""

    def __init__(self, path: Path | None, *, any_build: bool = False) -> None:
        self._path = path
        self._build = build()
        self.done: list[Done] = []
        if path is not None and path.exists():
            self.done = [each for each in _read(path) if any_build or each.build == self._build]

    def add(self, done: Done) -> None:
        done = msgspec.structs.replace(done, build=self._build)
        self.done.append(done)
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(done) + b"\n")

    def seeds_done(self, scenario: str, strategy: str) -> set[int]:
        mine = [each for each in self.done if (each.scenario, each.strategy) == (scenario, strategy)]
        return {seed for each in mine for seed in range(each.first, each.first + each.count)}

    @property
    def runs(self) -> int:
        return sum(each.count for each in self.done)

    @property
    def bad(self) -> list[tuple[str, int, str]]:
        return [(each.scenario, seed, why) for each in self.done for seed, why in each.bad.items()]


def _read(path: Path) -> Iterator[Done]:
    for line in path.read_bytes().splitlines():
        try:
            yield msgspec.json.decode(line, type=Done)
        except msgspec.MsgspecError:
            continue  # It was being written when the search was stopped.
