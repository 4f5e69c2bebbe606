"""A cluster on this machine, and what it does about trouble: killed agents, a silent machine, a bad version.

make demo           stays until Ctrl-C, so that one can look around
make demo ONCE=1    cleans up after itself and ends
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import msgspec

from examples.demo_view import Unexpected, View, get, say, title, until
from mainstay.client.client import Client
from mainstay.client.config import from_kubeconfig_file
from mainstay.env import Chance, Env, SystemClock, SystemDisk, tasks
from mainstay.env.signals import StopSignals

MANIFEST = Path(__file__).with_name("demo.yaml")
PROGRAM = [sys.executable, "-m", "mainstay.cli.main"]
PATIENCE_S = 60.0
API = "risk-api"
REPLICAS = 8


def main() -> None:
    directory = Path(tempfile.mkdtemp(prefix="mainstay-demo-"))
    try:
        tasks.run(Demo(directory).run(stays=not os.environ.get("ONCE")))
    except Interrupted:
        pass
    except Unexpected as error:
        sys.exit(f"demo: {error}")
    finally:
        print()
        mainstay("down", "--now", "--data-dir", str(directory), quiet=True)
        shutil.rmtree(directory)
        print("All is stopped, and", directory, "is removed.")


class Interrupted(Exception):
    """Ctrl-C."""


class Demo:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {**os.environ, "KUBECONFIG": str(directory / "kubeconfig")}
        self.kubectl = ["kubectl"] if shutil.which("kubectl") else PROGRAM
        self.view = View()
        self.frozen: int | None = None

    async def run(self, *, stays: bool) -> None:
        stopping = StopSignals()
        asked = tasks.spawn(stopping.first(), name="wait for Ctrl-C")
        telling = tasks.spawn(self.tell(stays=stays), name="tell")
        try:
            await asyncio.wait([asked, telling], return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                raise Interrupted
            telling.result()
        finally:
            if self.frozen is not None:
                os.kill(self.frozen, signal.SIGCONT)
            await tasks.stop(telling)
            await tasks.stop(asked)
            stopping.close()

    async def tell(self, *, stays: bool) -> None:
        title("1. A cluster: API server, scheduler, controllers, and two nodes in each of three zones; each a process")
        # A node counts as lost when its lease of 40 s is over. Here it is one of 4 s, to keep the demo short.
        options = ("--nodes=6", "--lease-duration=4s")
        await self.show("mainstay", "up", "--detach", "--port=0", *options, "--data-dir", str(self.directory))
        env = Env(SystemClock(), Chance.fresh(), SystemDisk(self.directory))
        config = from_kubeconfig_file(self.directory / "kubeconfig")
        async with Client(config, env, user_agent="demo") as client, self.view.following(client):
            await self.tell_of_a_workload()
            await self.tell_of_killed_processes()
            await self.tell_of_a_silent_machine()
            await self.tell_of_a_new_version()
            await self.tell_of_a_bad_version()
            await self.tell_of_the_server()
            await self.tell_of_the_journal()
            if stays:
                self.show_how_to_look_around()
                await asyncio.Event().wait()

    # The story.

    async def tell_of_a_workload(self) -> None:
        title(f"2. {API}: a Deployment with {REPLICAS} replicas that serve HTTP, spread over the zones")
        self.view.begin()
        await self.show("apply", "-f", str(MANIFEST))
        await self.until("all of them are ready", self.is_complete)
        zones = Counter([node[: len("node-a")].replace("node", "zone") for node in self.view.nodes_of_ready()])
        say("ready in each zone:", ", ".join(f"{zone} {count}" for zone, count in sorted(zones.items())))
        url = self.url(next(iter(self.view.ready())))
        say(f"GET {url}/   →  {await get(url)}")
        say("From here on a client asks them all the time. It follows the EndpointSlices, and counts what fails.")

    async def tell_of_killed_processes(self) -> None:
        title("3. kill -9 of an agent, and of what looks after everything: the pods do not notice")
        name, pod = next(iter(self.view.ready().items()))
        node = pod["spec"]["nodeName"]
        before = await get(self.url(name) + "/pid")
        async with self.view.counting():
            self.kill(f"the agent of {node}", await self.pid_of(node))
            await self.is_well("it was started again, and its node is ready")
            self.kill("the supervisor", await self.pid_of("supervisor"))
            await self.show("mainstay", "up", "--detach", "--data-dir", str(self.directory), only="ready after")
        if await get(self.url(name) + "/pid") != before:
            raise Unexpected(f"{name} is another process than before")
        say(f"{name} is the same process {before} as before: the new agent has taken it over")

    async def tell_of_a_silent_machine(self) -> None:
        node, count = Counter(self.view.nodes_of_ready()).most_common(1)[0]
        title(f"4. {node}, with {count} of the pods, is silent: the cause is unknown, so little is done at first")
        pid = await self.pid_of(node)
        self.view.begin()
        async with self.view.counting():
            say(f"$ kill -STOP {pid}    # the agent of {node}: from outside, a machine that is gone")
            os.kill(pid, signal.SIGSTOP)
            self.frozen = pid
            await self.until("it is suspected", lambda: self.view.health(node) != "")
            await self.until("it is unknown", lambda: self.view.health(node) in ("Unknown", "Released"))
            await self.until("it is released", lambda: self.view.health(node) == "Released")
            await self.until(
                f"{REPLICAS} are ready again, all on other nodes",
                lambda: self.is_complete() and node not in self.view.nodes_of_ready(),
            )
            await self.show("get", "deployment", API, "-o", "wide")
            say(f"$ kill -CONT {pid}    # it was only a long pause")
            os.kill(pid, signal.SIGCONT)
            self.frozen = None
            await self.until("it is healthy again", lambda: not self.view.health(node))
            await self.until("what was replaced has ended there", lambda: not self.view.leaving())

    async def tell_of_a_new_version(self) -> None:
        title("5. A new version, a few pods at a time: no request is lost")
        self.view.begin()
        async with self.view.counting():
            await self.show("apply", "-f", str(self.manifest("2")), only=API)
            await self.until("all of them are version 2", lambda: self.is_complete() and self.are_all("2"))

    async def tell_of_a_bad_version(self) -> None:
        title("6. A version that does not work is stopped by its deadline, and undone")
        self.view.begin()
        async with self.view.counting():
            await self.show("apply", "-f", str(self.manifest("bad", deadline_s=5)), only=API)
            await self.until("the rollout has failed", lambda: self.view.verdict(API) in ("stuck", "failed"))
            say(f"{len(self.view.ready())} of the version before are ready: it went no further than its surge")
            await self.show("mainstay", "why", f"deploy/{API}", fails=True)
            if self.kubectl == ["kubectl"]:
                await self.show("rollout", "status", f"deployment/{API}", fails=True)
                await self.show("rollout", "undo", f"deployment/{API}")
            else:
                await self.show("apply", "-f", str(self.manifest("2")), only=API)
            await self.until("all of them are version 2 again", lambda: self.is_complete() and self.are_all("2"))
            await self.until("those of the bad version are gone", lambda: not self.view.leaving())
        if self.kubectl == ["kubectl"]:
            about = f"involvedObject.kind=Deployment,involvedObject.name={API}"
            await self.show("get", "events", "--field-selector", about, "--sort-by=.lastTimestamp")

    async def tell_of_the_server(self) -> None:
        title("7. kill -9 of the API server: what it has acknowledged is there, and the pods go on")
        note = self.directory / "note.yaml"
        note.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: note}\ndata: {text: do not forget}\n")
        async with self.view.counting():
            await self.show("apply", "-f", str(note))
            self.kill("the API server", await self.pid_of("server"))
            await self.is_well("it was started again")
            await self.show("get", "configmap", "note")
            await self.show("get", "deployment", API, "-o", "wide")

    async def tell_of_the_journal(self) -> None:
        title("8. An incident bundle: one file, from which every decision can be replayed exactly")
        bundle = self.directory / "incident.bundle"
        with bundle.open("wb") as file:
            await self.show("mainstay", "record", "--since=5m", into=file)
        await self.show("mainstay", "replay", str(bundle))

    def show_how_to_look_around(self) -> None:
        title("Look around: all of it goes on until Ctrl-C")
        say(f"export KUBECONFIG={self.directory}/kubeconfig")
        for line in (
            "kubectl get nodes -L topology.kubernetes.io/zone",
            "kubectl get deployment,pods -o wide --watch",
            f"kubectl scale deployment {API} --replicas=12",
            f"mainstay why deploy/{API}",
            f"mainstay timeline deploy/{API} --since 5m",
            "kubectl get decisions --watch",
            f"kubectl rollout history deployment/{API}",
            "kubectl drain node-a1 --ignore-daemonsets   # then: kubectl uncordon node-a1",
            "kubectl get events --watch",
            "kubectl top pods",
            f"mainstay status --data-dir {self.directory}",
            f"ls {self.directory}/nodes/*/pods/*   # what pods have on this machine",
        ):
            say(line)
        for address in self.view.endpoints():
            say(f"curl http://{address}")

    # What is seen.

    def is_complete(self) -> bool:
        return self.view.verdict(API) == "complete" and len(self.view.ready()) == len(self.view.pods()) == REPLICAS

    def are_all(self, version: str) -> bool:
        wanted = [{"name": "VERSION", "value": version}]
        return all(pod["spec"]["containers"][0]["env"] == wanted for pod in self.view.pods().values())

    def url(self, name: str) -> str:
        return f"http://{self.view.pods()[name]['status']['podIP']}:8080"

    async def until(self, what: str, is_so: Callable[[], bool]) -> None:
        await until(what, is_so, PATIENCE_S)

    async def is_well(self, what: str) -> None:
        began = time.monotonic()
        while (found := await self.status()).returncode:
            if time.monotonic() - began > PATIENCE_S:
                raise Unexpected(f"the cluster does not become well again:\n{found.stdout.decode()}")
            await asyncio.sleep(0.1)
        say(f"{what}: {time.monotonic() - began:.1f} s")

    async def pid_of(self, name: str) -> int:
        # Whether all is well is another question: on a busy machine some heartbeat may be late at any moment.
        found = await self.status()
        state = msgspec.json.decode(found.stdout)
        pids = {each["name"]: each["pid"] for each in state["components"]} | {"supervisor": state["supervisor"]["pid"]}
        if pids[name] is None:
            raise Unexpected(f"{name} does not run:\n{found.stdout.decode()}")
        return int(pids[name])

    async def status(self) -> subprocess.CompletedProcess[bytes]:
        return await asyncio.to_thread(mainstay, "status", "-o", "json", "--data-dir", str(self.directory), quiet=True)

    # What is done.

    def manifest(self, version: str, deadline_s: int = 60) -> Path:
        """The same with another version."""
        text = MANIFEST.read_text().replace('name: VERSION, value: "1"', f'name: VERSION, value: "{version}"')
        path = self.directory / f"version-{version}.yaml"
        path.write_text(text.replace("progressDeadlineSeconds: 60", f"progressDeadlineSeconds: {deadline_s}"))
        return path

    def kill(self, what: str, pid: int) -> None:
        say(f"$ kill -9 {pid}    # {what}")
        os.kill(pid, signal.SIGKILL)

    async def show(self, *words: str, only: str = "", fails: bool = False, into: BinaryIO | None = None) -> None:
        """Run a command and show what it says: `mainstay …`, or kubectl. With `into`, its output goes there."""
        is_ours = words[0] == "mainstay"
        program = PROGRAM if is_ours else self.kubectl
        name = "mainstay" if is_ours or self.kubectl == PROGRAM else "kubectl"
        arguments = words[1:] if is_ours else words
        shown = [*(repr(word) if " " in word else word for word in arguments), *([] if into is None else ["> FILE"])]
        say("$", name, *shown)
        process = await asyncio.create_subprocess_exec(
            *program,
            *arguments,
            env=self.environment,
            stdout=subprocess.PIPE if into is None else into,
            stderr=subprocess.STDOUT if into is None else subprocess.PIPE,
        )
        said = process.stdout if into is None else process.stderr
        assert said is not None
        lines = []
        async for line in said:
            text = line.decode().rstrip()
            lines.append(text)
            if not only or any(word in text for word in only.split("|")):
                say("   ", text)
        if (await process.wait() != 0) != fails:
            raise Unexpected(f"{name} {' '.join(arguments)} was not as expected:\n" + "\n".join(lines))


def mainstay(*arguments: str, quiet: bool = False) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([*PROGRAM, *arguments], check=False, capture_output=quiet)


if __name__ == "__main__":
    main()
