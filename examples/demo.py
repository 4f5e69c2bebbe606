"""A cluster on this machine: three zones, real processes that serve HTTP, and what happens when things are killed.

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
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from mainstay.api.kind_name import KindName
from mainstay.api.stages import Stage, stage_of
from mainstay.client.client import Client
from mainstay.client.config import from_kubeconfig_file
from mainstay.client.errors import ApiError
from mainstay.env import Chance, Env, SystemClock, SystemDisk, tasks
from mainstay.env.signals import StopSignals

PODS = KindName("", "v1", "Pod", "pods", True)
MANIFEST = Path(__file__).with_name("demo.yaml")
PROGRAM = [sys.executable, "-m", "mainstay.cli.main"]
PATIENCE_S = 30.0


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


class Unexpected(Exception):
    """The demo does not show what it should."""


class Demo:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {**os.environ, "KUBECONFIG": str(directory / "kubeconfig")}
        self.pods: dict[str, dict[str, Any]] = {}
        self.kubectl = ["kubectl"] if shutil.which("kubectl") else PROGRAM

    async def run(self, *, stays: bool) -> None:
        stopping = StopSignals()
        asked = tasks.spawn(stopping.first(), name="wait for Ctrl-C")
        telling = tasks.spawn(self.tell(), name="tell")
        try:
            await asyncio.wait([asked, telling], return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                raise Interrupted
            telling.result()
            if stays:
                self.show_how_to_look_around()
                await asked
        finally:
            await tasks.stop(telling)
            await tasks.stop(asked)
            stopping.close()

    async def tell(self) -> None:
        title("1. A cluster: API server, scheduler, and a node in each of three zones; each a process of its own")
        await self.show("mainstay", "up", "--detach", "--port=0", "--data-dir", str(self.directory))
        env = Env(SystemClock(), Chance.fresh(), SystemDisk(self.directory))
        config = from_kubeconfig_file(self.directory / "kubeconfig")
        async with Client(config, env, user_agent="demo") as client, self.watching(client):
            await self.tell_of_pods()

    async def tell_of_pods(self) -> None:
        title("2. Three pods, spread over the zones, that serve HTTP")
        await self.show("apply", "-f", str(MANIFEST))
        await self.until("all three are ready", lambda: len(self.ready()) == 3)
        for name in self.ready():
            say(f"GET {self.url(name)}   →  {await get(self.url(name))}")

        title("3. kill -9 of a process in a pod: its agent starts it again")
        victim = self.ready()[0]
        await self.kill(f"the process of {victim}", int(await get(self.url(victim) + "/pid")))
        await self.until("it is ready again", lambda: self.restarts(victim) == 1 and victim in self.ready())
        await self.show("get", "pods", "-o", "wide")

        title("4. kill -9 of an agent: its pod does not notice")
        node = self.pods[victim]["spec"]["nodeName"]
        before = await get(self.url(victim) + "/pid")
        async with self.asking(victim) as answers:
            await self.kill(f"the agent of {node}", await self.pid_of(node))
            await self.is_well("it was started again, and its node is ready")
        say(f"{answers['yes']} requests to {victim} meanwhile: {answers['no']} failed")
        if await get(self.url(victim) + "/pid") != before:
            raise Unexpected(f"{victim} is another process than before")
        say(f"it is the same process {before} as before: the new agent has taken it over")

        title("5. kill -9 of what looks after everything: all lives on, and the next `mainstay up` takes over")
        await self.kill("the supervisor", await self.pid_of("supervisor"))
        await self.show("mainstay", "up", "--detach", "--data-dir", str(self.directory), only="process|ready after")

        title("6. Looking into a pod")
        await self.show("logs", victim, "--tail=3")
        if self.kubectl == ["kubectl"]:
            await self.show("exec", victim, "--", "sh", "-c", "echo I am $POD_NAME, at $POD_IP")
        say(f"The log of the process before, which was killed, is there too: kubectl logs {victim} --previous")

        title("7. Deleting one: it is asked to end first")
        await self.show("delete", "pod", victim)
        await self.show("get", "pods")

        title("8. kill -9 of the API server: what it has acknowledged is there")
        note = self.directory / "note.yaml"
        note.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: note}\ndata: {text: do not forget}\n")
        await self.show("apply", "-f", str(note))
        await self.kill("the API server", await self.pid_of("server"))
        await self.is_well("it was started again")
        await self.show("get", "configmap", "note")

    def show_how_to_look_around(self) -> None:
        title("Look around: all of it goes on until Ctrl-C")
        say(f"export KUBECONFIG={self.directory}/kubeconfig")
        for line in (
            "kubectl get nodes -L topology.kubernetes.io/zone",
            "kubectl get pods -o wide --watch",
            "kubectl describe pod hello-2",
            "kubectl top nodes",
            f"mainstay status --data-dir {self.directory}",
            f"ls {self.directory}/nodes/*/pods/*   # what pods have on this machine",
        ):
            say(line)
        for name in self.ready():
            say(f"curl {self.url(name)}")

    # What is seen.

    @asynccontextmanager
    async def watching(self, client: Client) -> AsyncIterator[None]:
        watching = tasks.spawn(self.watch(client), name="watch pods")
        try:
            yield
        finally:
            await tasks.stop(watching)

    async def watch(self, client: Client) -> None:
        """Say each stage that a pod reaches, as it does."""
        stages: dict[str, str] = {}
        began: dict[str, float] = {}
        while True:
            # A watch ends with its server. Then another one begins.
            with suppress(ApiError):
                async with client.watch(PODS, "default", initial_events=True, resource_version="0") as changes:
                    async for change in changes:
                        if change.type == "BOOKMARK":
                            continue
                        pod = msgspec.json.decode(change.object)
                        name = pod["metadata"]["name"]
                        if change.type == "DELETED":
                            self.pods.pop(name, None)
                            continue
                        self.pods[name] = pod
                        stage = text_of(pod)
                        if stages.get(name) != stage:
                            stages[name] = stage
                            now = time.monotonic()
                            say(f"  {name}  {stage:<38}{now - began.setdefault(name, now):6.1f} s")
            await asyncio.sleep(0.2)

    def ready(self) -> list[str]:
        return [name for name, pod in sorted(self.pods.items()) if is_ready(pod)]

    def restarts(self, name: str) -> int:
        return sum(each["restartCount"] for each in self.pods[name]["status"].get("containerStatuses") or ())

    def url(self, name: str) -> str:
        return f"http://{self.pods[name]['status']['podIP']}:8080"

    async def until(self, what: str, is_so: Callable[[], bool]) -> None:
        began = time.monotonic()
        while not is_so():
            if time.monotonic() - began > PATIENCE_S:
                raise Unexpected(f"not so after {PATIENCE_S:.0f} s: {what}")
            await asyncio.sleep(0.02)
        say(f"{what}, after {time.monotonic() - began:.1f} s")

    async def is_well(self, what: str) -> None:
        began = time.monotonic()
        while await self.status() is None:
            if time.monotonic() - began > PATIENCE_S:
                raise Unexpected("the cluster does not become well again")
            await asyncio.sleep(0.1)
        say(f"{what}: {time.monotonic() - began:.1f} s")

    async def status(self) -> dict[str, Any] | None:
        """What `mainstay status` says. None unless all is well."""
        done = await asyncio.to_thread(mainstay, "status", "-o", "json", "--data-dir", str(self.directory), quiet=True)
        state: dict[str, Any] = msgspec.json.decode(done.stdout)
        return state if done.returncode == 0 else None

    async def pid_of(self, name: str) -> int:
        state = await self.status()
        if state is None:
            raise Unexpected("the cluster is not well")
        pids = {each["name"]: each["pid"] for each in state["components"]} | {"supervisor": state["supervisor"]["pid"]}
        return int(pids[name])

    @asynccontextmanager
    async def asking(self, name: str) -> AsyncIterator[dict[str, int]]:
        """Ask a pod again and again meanwhile, and count the answers."""
        answers = {"yes": 0, "no": 0}

        async def ask() -> None:
            while True:
                try:
                    await get(self.url(name) + "/healthz")
                    answers["yes"] += 1
                except OSError:
                    answers["no"] += 1
                await asyncio.sleep(0.02)

        asking = tasks.spawn(ask(), name="ask")
        try:
            yield answers
        finally:
            await tasks.stop(asking)

    # What is done.

    async def kill(self, what: str, pid: int) -> None:
        say(f"$ kill -9 {pid}    # {what}")
        os.kill(pid, signal.SIGKILL)

    async def show(self, *words: str, only: str = "") -> None:
        """Run a command and show what it says: `mainstay …`, or kubectl."""
        is_ours = words[0] == "mainstay"
        program = PROGRAM if is_ours else self.kubectl
        name = "mainstay" if is_ours or self.kubectl == PROGRAM else "kubectl"
        arguments = words[1:] if is_ours else words
        say("$", name, *(repr(word) if " " in word else word for word in arguments))
        process = await asyncio.create_subprocess_exec(
            *program, *arguments, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert process.stdout is not None
        lines = []
        async for line in process.stdout:
            text = line.decode().rstrip()
            lines.append(text)
            if not only or any(word in text for word in only.split("|")):
                say("   ", text)
        if await process.wait() != 0:
            raise Unexpected(f"{name} {' '.join(arguments)} has failed:\n" + "\n".join(lines))


def is_ready(pod: dict[str, Any]) -> bool:
    stage = stage_of(pod)
    return stage is not None and stage[0] in (Stage.READY, Stage.SERVING)


def text_of(pod: dict[str, Any]) -> str:
    """What is told of a pod."""
    stage = stage_of(pod)
    if stage is None:
        return "ending"
    if stage[0] in (Stage.READY, Stage.SERVING):
        return f"ready at {pod['status']['podIP']}"
    for each in pod["status"].get("containerStatuses") or ():
        waiting = each.get("state", {}).get("waiting")
        if waiting and waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            return f"waiting: {waiting['reason']}"
    node = (pod.get("spec") or {}).get("nodeName")
    return f"{stage[0]}, {node}" if node else str(stage[0])


async def get(url: str) -> str:
    return await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=5).read().decode())


def mainstay(*arguments: str, quiet: bool = False) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([*PROGRAM, *arguments], check=False, capture_output=quiet)


def title(text: str) -> None:
    print(f"\n{text}\n{'─' * len(text)}", flush=True)


def say(*words: object) -> None:
    print("  ", *words, flush=True)


if __name__ == "__main__":
    main()
