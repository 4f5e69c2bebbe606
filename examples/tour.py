"""A tour of what is underneath: the store on a real disk, a killed process, virtual time, scenarios.

make tour
"""

import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
from aiohttp import web

from mainstay.env import tasks
from mainstay.sim.disk import SimDisk
from mainstay.sim.errors import Deadlock
from mainstay.sim.simulation import Simulation
from mainstay.store import open_sqlite
from mainstay.store.disk_log import DiskLog
from mainstay.store.interface import Check, Committed, DeleteEntry, Put
from mainstay.store.local import LocalStore


def main() -> None:
    directory = Path(tempfile.mkdtemp(prefix="mainstay-tour-"))
    try:
        title("1. One history: commits, refusals, a watch")
        tasks.run(show_the_store(directory / "first"))
        title("2. A process that writes is killed with SIGKILL, five times")
        show_a_killed_writer(directory / "second")
    finally:
        shutil.rmtree(directory)
    title("3. The same store under the simulator: its machine keeps losing power")
    show_power_cuts()
    title("4. Any asyncio program, unmodified: an aiohttp server and client, cut off from each other for an hour")
    show_aiohttp()
    title("5. A program that waits for ever is an error that says who waits where")
    show_a_deadlock()
    title("6. A controller on its worst days: watches that are late, crashes, lost answers, new leaders")
    show_scenarios()


async def show_the_store(directory: Path) -> None:
    store = await open_sqlite(directory)
    say("an empty store in", directory)
    with store.watch("pods/", after=await store.revision()) as watch:
        say("commit ", await store.commit([], [Put("pods/risk-api-1", b"pending"), Put("nodes/c12", b"ready")]))
        seen = await store.get("pods/risk-api-1")
        assert seen is not None
        say("read   ", seen)
        say("ten schedulers bind the pod at once, each on the revision it has seen:")
        answers = await asyncio.gather(
            *(
                store.commit([Check("pods/risk-api-1", seen.revision)], [Put("pods/risk-api-1", b"bound by %d" % who)])
                for who in range(10)
            )
        )
        winners = [answer for answer in answers if isinstance(answer, Committed)]
        refused = [answer for answer in answers if not isinstance(answer, Committed)]
        say("        won   ", *winners)
        say("        lost  ", f"{len(refused)} ×", refused[0])
        await store.commit([], [DeleteEntry("pods/risk-api-1")])
        say("a watch from the beginning has seen:")
        changes = 0
        while changes < 3:
            for change in (await anext(watch)).changes:
                both = (change.previous, change.entry)
                previous, now = (entry.value.decode() if entry else "(nothing)" for entry in both)
                say(f"        revision {change.revision}  {change.key}  {previous} → {now}")
                changes += 1
    await store.close()


WRITER = """
import asyncio, pathlib, sys
from mainstay.env import tasks
from mainstay.store import open_sqlite
from mainstay.store.interface import Put

async def write(store, who):
    while True:
        answer = await store.commit([], [Put(f"counter/{who}", b"x" * 500)])
        print(answer.revision, flush=True)

async def main():
    store = await open_sqlite(pathlib.Path(sys.argv[1]))
    await asyncio.gather(*(write(store, who) for who in range(16)))

tasks.run(main())
"""


def show_a_killed_writer(directory: Path) -> None:
    for number in range(1, 6):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, directory], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        acknowledged = [int(writer.stdout.readline()) for _ in range(500 * number)]
        writer.kill()
        acknowledged += [int(line) for line in writer.stdout if line.endswith("\n")]
        writer.wait()
        found = tasks.run(latest_revision(directory))
        verdict = "nothing acknowledged was lost" if found >= max(acknowledged) else "LOST WRITES"
        say(f"killed after {len(acknowledged):>4} acknowledged writes, the last at revision {max(acknowledged)};")
        say(f"       found after the restart: revision {found}: {verdict}")


async def latest_revision(directory: Path) -> int:
    store = await open_sqlite(directory)
    revision = await store.revision()
    await store.close()
    return revision


def show_power_cuts() -> None:
    started = time.perf_counter()
    for seed in (82219, 82219, 7):
        with Simulation(seed) as simulation:
            acknowledged, found = simulation.run(lose_power(simulation))
            say(
                f"seed {seed:>5}: 20 power cuts, revision {acknowledged} acknowledged, {found} found; "
                f"{simulation.loop.time():.0f} s of virtual time, digest {simulation.digest[:16]}"
            )
    say(f"The same seed is the same run. All three took {(time.perf_counter() - started) * 1000:.0f} ms.")


async def lose_power(simulation: Simulation) -> tuple[int, int]:
    disk = SimDisk(simulation.choices, "machine")
    acknowledged = 0
    for _ in range(20):
        store = await LocalStore.open(DiskLog(disk))
        assert await store.revision() >= acknowledged, "an acknowledged write is gone"
        disk.cut_power_before(1 + simulation.choices.choose("power", 40))
        writer = tasks.spawn(write_every_minute(store), name="writer")
        while disk.has_power:
            await asyncio.sleep(60)
        acknowledged = max(acknowledged, await store.revision())
        await tasks.stop(writer)
        disk = disk.after_power_cut()
    store = await LocalStore.open(DiskLog(disk))
    return acknowledged, await store.revision()


async def write_every_minute(store: LocalStore) -> None:
    while True:
        await store.commit([], [Put("heartbeat", b"alive")])
        await asyncio.sleep(60)


def show_aiohttp() -> None:
    with Simulation(1) as simulation:
        started = time.perf_counter()
        simulation.run(talk_over_a_broken_link(simulation))
        took_ms = (time.perf_counter() - started) * 1000
        say(f"{simulation.loop.time() / 3600:.2f} hours of virtual time took {took_ms:.0f} ms.")


async def talk_over_a_broken_link(simulation: Simulation) -> None:
    server_host, client_host = simulation.network.host("server"), simulation.network.host("client")

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"path": request.path, "from": request.remote})

    with server_host.active():
        application = web.Application()
        application.router.add_get("/{tail:.*}", answer)
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, "0.0.0.0", 8080).start()
    with client_host.active():
        async with aiohttp.ClientSession() as session:
            async with session.get("http://server:8080/hello") as response:
                say("before:", response.status, await response.text())
            simulation.network.cut("client", "server")
            try:
                await session.get("http://server:8080/cut", timeout=aiohttp.ClientTimeout(total=300))
            except TimeoutError as error:
                say(f"cut off: {type(error).__name__} after {simulation.loop.time():.0f} s")
            await asyncio.sleep(3300)
            simulation.network.heal("client", "server")
            async with session.get("http://server:8080/again") as response:
                say("healed:", response.status, await response.text())
    await runner.cleanup()


def show_a_deadlock() -> None:
    async def wait_for(lock: asyncio.Lock, then: asyncio.Lock) -> None:
        async with lock:
            await asyncio.sleep(1)
            async with then:
                pass

    async def embrace() -> None:
        left, right = asyncio.Lock(), asyncio.Lock()
        await asyncio.gather(
            tasks.spawn(wait_for(left, right), name="left then right"),
            tasks.spawn(wait_for(right, left), name="right then left"),
        )

    with Simulation() as simulation:
        try:
            simulation.run(embrace())
        except Deadlock as error:
            say(error)


def show_scenarios() -> None:
    for arguments in (
        "list",
        "run one-pod-too-many --seeds 20",
        "run one-pod-too-many --seeds 1 --first-seed 17 --json",
    ):
        say(f"$ mainstay sim {arguments}")
        command = [sys.executable, "-m", "mainstay.cli.main", "sim", *arguments.split()]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
        for line in done.stdout.splitlines():
            say("   ", line)


def title(text: str) -> None:
    print(f"\n{text}\n{'─' * len(text)}")


def say(*words: object) -> None:
    print("  ", *words)


if __name__ == "__main__":
    main()
