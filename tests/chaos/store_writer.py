"""A process with a store and nothing else, that writes until it is killed: see kills.py.

It says what it found, is told how far each object had come, and from then on says each step that was acknowledged.
"""

import asyncio
import json
import sys
from pathlib import Path

from mainstay.store import open_sqlite
from mainstay.store.interface import DeleteEntry, Put, Store

NAMES = tuple(f"kill-{writer}-{number}" for writer in range(12) for number in range(2))
_LIFE = 4
_KEPT = 50


def is_there(step: int) -> bool:
    """Whether an object is there after so many steps: the last one of each life removes it."""
    return step % _LIFE != 0


async def run(directory: Path) -> None:
    store = await open_sqlite(directory)
    page = await store.range("")
    found = {entry.key: int(entry.value) for entry in page.entries}
    print(json.dumps({"found": found, "revision": page.revision}), flush=True)
    steps = json.loads(await asyncio.to_thread(sys.stdin.readline))
    await asyncio.gather(_compact(store), *(_write(store, name, steps[name]) for name in NAMES))


async def _write(store: Store, name: str, step: int) -> None:
    while True:
        step += 1
        write = Put(name, str(step).encode()) if is_there(step) else DeleteEntry(name)
        await store.commit([], [write])
        sys.stdout.write(f"{name} {step}\n")
        sys.stdout.flush()


async def _compact(store: Store) -> None:
    while True:
        await asyncio.sleep(0.02)
        await store.compact(max(1, await store.revision() - _KEPT))


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1])))
