"""A real process that writes to a store on SQLite is killed again and again: nothing acknowledged is lost."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from mainstay.env import tasks
from mainstay.store import open_sqlite
from mainstay.store.interface import Entry, KeyChange

pytestmark = pytest.mark.slow

KILLS = 50
ACKNOWLEDGED_MAX = 80  # A process is killed after so many of its writes, at most. Some die before the first.


def test_every_acknowledged_write_survives_a_killed_process(tmp_path):
    chance = random.Random(82219)
    latest = 1
    for kill in range(KILLS):
        acknowledged = kill_a_writer(tmp_path, kill, after=chance.randrange(ACKNOWLEDGED_MAX))
        latest = tasks.run(compare(tmp_path, kill, acknowledged, latest))
    assert latest > KILLS * ACKNOWLEDGED_MAX // 4


def kill_a_writer(directory: Path, name: int, after: int) -> list[tuple[int, int, str]]:
    """Start a writer, read so many acknowledgements, kill it. Returns all that it said before it died."""
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.store.writer", str(directory), str(name)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    lines = [writer.stdout.readline() for _ in range(after)]
    writer.kill()
    lines += writer.stdout.readlines()
    writer.stdout.close()
    assert writer.wait() == -9, "the writer ended by itself"
    whole = [line.split() for line in lines if line.endswith("\n")]
    return [(int(number), int(revision), key) for number, revision, key in whole]


async def compare(directory: Path, name: int, acknowledged: list[tuple[int, int, str]], latest_before: int) -> int:
    store = await open_sqlite(directory)
    page = await store.range("")
    state = {entry.key: entry for entry in page.entries}
    assert page.revision >= max([latest_before, *(revision for _, revision, _ in acknowledged)])

    compacted = max(page.revision - 20, 1)
    changes: list[KeyChange] = []
    await store.compact(compacted)
    with store.watch("", after=compacted) as watch:
        while compacted < page.revision and (not changes or changes[-1].revision < page.revision):
            changes += (await anext(watch)).changes
    history = {(change.key, change.revision): change.entry for change in changes}
    for number, revision, key in acknowledged:
        for side in ("left", "right"):
            kept = history.get((f"{side}/{key}", revision)) if revision > compacted else None
            if kept is not None or revision > compacted:
                assert value_of(kept) == f"{name}.{number}"
            assert state[f"{side}/{key}"].revision >= revision
    for entry in page.entries:
        if entry.key.startswith("left/"):
            other = state[entry.key.replace("left/", "right/")]
            assert (entry.value, entry.revision) == (other.value, other.revision), "half a transaction"
    await store.close()
    return page.revision


def value_of(entry: Entry | None) -> str | None:
    return None if entry is None else entry.value.decode()
