"""A process that writes to a store on SQLite for as long as it lives, and tells what was acknowledged: to be killed.

    python -m tests.store.writer DIRECTORY ROUND

Each line it prints is `NUMBER REVISION KEY`: the pair of keys left/KEY and right/KEY was set to `ROUND.NUMBER` at that
revision, in one transaction. It compacts all the time, and ends itself after a minute if it is not killed.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from mainstay.env import tasks
from mainstay.store import open_sqlite
from mainstay.store.interface import Committed, Put, Store

WRITERS = 8
KEYS = 5


async def main(directory: Path, name: str) -> None:
    store = await open_sqlite(directory)
    await asyncio.gather(*(write(store, name, who) for who in range(WRITERS)))


async def write(store: Store, name: str, who: int) -> None:
    for number in range(who, sys.maxsize, WRITERS):
        key, value = f"k{number % KEYS}", f"{name}.{number}".encode()
        answer = await store.commit([], [Put(f"left/{key}", value), Put(f"right/{key}", value)])
        assert isinstance(answer, Committed)
        # One write of a few bytes to a pipe: it is in the reader's hands whatever happens to us next.
        os.write(1, f"{number} {answer.revision} {key}\n".encode())
        if number % 3 == 0:
            await store.compact(max(answer.revision - 20, 1))


if __name__ == "__main__":
    signal.alarm(60)
    tasks.run(main(Path(sys.argv[1]), sys.argv[2]))
