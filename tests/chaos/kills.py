"""Kill -9 under load, again and again, and look whether anything acknowledged is gone.

    python -m tests.chaos.kills store --rounds 1000 --seed 7
    python -m tests.chaos.kills server --rounds 1000

Each object goes through steps: it is made, changed, changed, removed, and made again. A writer does one step after the
other to each of its objects. So what may be found after a kill is known: an object is as its last acknowledged step
left it, or as the one step that was under way would have. Anything else is a lost or an invented write. The revision
must not go back either.

`store` kills a process that has nothing but the store (store_writer.py), compaction included; `server` an API server
with all it has, over TLS.
"""

import argparse
import asyncio
import contextlib
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from mainstay.api.kind_names import CONFIG_MAPS
from mainstay.client.client import Client
from mainstay.client.config import from_kubeconfig
from mainstay.client.errors import ApiError
from mainstay.env import Chance, Env, SystemClock, SystemDisk
from tests.chaos.store_writer import NAMES, is_there
from tests.clients.server_process import ServerProcess

LOAD_S = (0.05, 0.6)
SHOWN_EVERY = 50


@dataclass
class Ledger:
    """What each object has been through."""

    steps: dict[str, int] = field(default_factory=lambda: dict.fromkeys(NAMES, 0))
    """Acknowledged, by name."""
    revision: int = 0
    writes: int = 0
    wrong: list[str] = field(default_factory=list)

    def acknowledge(self, name: str, step: int) -> None:
        self.steps[name] = step
        self.writes += 1

    def check(self, found: Mapping[str, int], revision: int, when: str) -> None:
        """Compare with what is there: the step of each object that is. Then go on from that."""
        if revision < self.revision:
            self.wrong.append(f"{when}: the revision went back from {self.revision} to {revision}")
        self.revision = revision
        for name, done in self.steps.items():
            there = found.get(name)
            possible = [step for step in (done, done + 1) if there == (step if is_there(step) else None)]
            if not possible:
                self.wrong.append(f"{when}: {name} was acknowledged at step {done}, and is at {there}")
                possible = [done if there is None else there]
            self.steps[name] = possible[0]
        if strangers := sorted(found.keys() - self.steps.keys()):
            self.wrong.append(f"{when}: nothing ever wrote {strangers[:5]}")


class Victim(Protocol):
    async def start(self) -> tuple[Mapping[str, int], int]:
        """Start it. Returns the step of each object that is there, and the revision."""

    async def load(self, ledger: Ledger, seconds: float) -> None:
        """Write for so long, then kill it."""

    def remove(self) -> None: ...


class StoreVictim:
    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="mainstay-kills-"))
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> tuple[Mapping[str, int], int]:
        command = [sys.executable, "-m", "tests.chaos.store_writer", str(self._directory)]
        pipe = subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=1 << 24)
        assert self._process.stdout is not None
        answer = json.loads(await self._process.stdout.readline())
        return answer["found"], answer["revision"]

    async def load(self, ledger: Ledger, seconds: float) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(ledger.steps).encode() + b"\n")
        killing = asyncio.get_running_loop().call_later(seconds, process.kill)
        async for line in process.stdout:
            if line.endswith(b"\n"):
                name, step = line.split()
                ledger.acknowledge(name.decode(), int(step))
        killing.cancel()
        code = await process.wait()
        assert code == -signal.SIGKILL, f"the store ended by itself, with {code}"

    def remove(self) -> None:
        shutil.rmtree(self._directory)


class ServerVictim:
    def __init__(self) -> None:
        self._server = ServerProcess()
        self._env = Env(SystemClock(), Chance.fresh(), SystemDisk(Path(tempfile.mkdtemp(prefix="mainstay-kills-"))))

    async def start(self) -> tuple[Mapping[str, int], int]:
        await asyncio.to_thread(self._server.start)
        async with self._client() as client:
            listed = await client.list(CONFIG_MAPS, namespace="default")
        found = [each for each in listed.items if each["metadata"]["name"] in NAMES]
        return {each["metadata"]["name"]: int(each["data"]["step"]) for each in found}, int(listed.revision)

    def _client(self) -> Client:
        text = self._server.kubeconfig.read_text()
        return Client(from_kubeconfig(text, self._server.data_dir), self._env, user_agent="kills")

    async def load(self, ledger: Ledger, seconds: float) -> None:
        async with self._client() as client:
            before = ledger.writes
            writing = [asyncio.create_task(self._write(client, ledger, name)) for name in NAMES]
            while ledger.writes == before:  # Until it is at work: on a busy machine its first answer takes a while.
                await asyncio.sleep(0.01)
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self._server.kill)
            for task in writing:
                task.cancel()
            await asyncio.wait(writing)

    async def _write(self, client: Client, ledger: Ledger, name: str) -> None:
        with contextlib.suppress(ApiError, OSError):  # From then on it is dead, and the rest of this round with it.
            while True:
                step = ledger.steps[name] + 1
                body = {"metadata": {"name": name, "namespace": "default"}, "data": {"step": str(step)}}
                if not is_there(step):
                    await client.delete(CONFIG_MAPS, name, "default")
                elif is_there(step - 1):
                    await client.patch(CONFIG_MAPS, name, "default", {"data": {"step": str(step)}})
                else:
                    await client.create(CONFIG_MAPS, body)
                ledger.acknowledge(name, step)

    def remove(self) -> None:
        self._server.stop()


async def run(victim: Victim, rounds: int, seed: int) -> Ledger:
    """All rounds. What is wrong is in the ledger."""
    chance, ledger, started_s = random.Random(seed), Ledger(), 0.0
    try:
        for number in range(rounds + 1):
            began = time.monotonic()
            found, revision = await victim.start()
            started_s = max(started_s, time.monotonic() - began)
            ledger.check(found, revision, f"round {number}")
            await victim.load(ledger, chance.uniform(*LOAD_S))
            if number % SHOWN_EVERY == 0:
                text = f"{number} kills, {ledger.writes:,} acknowledged writes, {len(ledger.wrong)} wrong"
                print(f"{text}; slowest start {started_s:.1f} s", flush=True)
    finally:
        victim.remove()
    return ledger


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.kills", description="Kill -9 under load.")
    parser.add_argument("what", choices=("store", "server"))
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    victim = StoreVictim() if options.what == "store" else ServerVictim()
    ledger = asyncio.run(run(victim, options.rounds, options.seed))
    print(f"{options.rounds} kills, {ledger.writes:,} acknowledged writes, {len(ledger.wrong)} wrong")
    print("\n".join(ledger.wrong[:20]))
    return 1 if ledger.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
