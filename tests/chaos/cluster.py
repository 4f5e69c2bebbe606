"""A real cluster under `mainstay up`, to be hurt.

    with Cluster(nodes=3) as cluster:
        cluster.apply(a_web_pod("web-0"))
        cluster.kill("server")
        cluster.until_as_desired()

Everything is seen as a user sees it: through the command line, the API, and what processes leave on the disk.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from mainstay.cli.exits import Exit
from tests.processes import eventually

HERE = Path(__file__).parent
COMMAND_LIMIT_S = 90


class CommandFailed(AssertionError):
    """It did not do what was asked. While a server is down that is to be expected."""


class Cluster:
    def __init__(self, *, nodes: int = 3, options: tuple[str, ...] = ()) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="mainstay-chaos-"))
        self.data_dir = self.directory / "data"
        self.shared = self.directory / "shared"
        """Where workloads leave their traces."""
        self.shared.mkdir()
        self.shared.chmod(0o777)
        self.kubeconfig = self.data_dir / "kubeconfig"
        self._nodes = nodes
        self._is_kept = False
        self._port = 0  # Any; from then on the one that it is.
        self._options = options

    def __enter__(self) -> "Cluster":
        try:
            self.up()
            allow_host_paths(self.kubectl)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.mainstay("down", f"--data-dir={self.data_dir}")
        finally:
            if not self._is_kept:
                shutil.rmtree(self.directory)

    def keep(self) -> None:
        """Leave everything on the disk that could tell what happened."""
        self._is_kept = True

    # As a user does it.

    def up(self) -> str:
        """Start it, or take up again what is left of it."""
        place = (f"--data-dir={self.data_dir}", f"--port={self._port}")
        shown = self.mainstay("up", *place, f"--nodes={self._nodes}", "--detach", *self._options)
        self._port = int(self.status()["url"].rpartition(":")[2])
        return shown

    def mainstay(self, *arguments: str, codes: Sequence[int] = (Exit.SATISFIED,)) -> str:
        return self._run([sys.executable, "-m", "mainstay.cli.main", *arguments], codes=codes)

    def kubectl(self, *arguments: str, given: str = "") -> str:
        return self._run(["kubectl", *arguments], given)

    def _run(self, command: list[str], given: str = "", codes: Sequence[int] = (0,)) -> str:
        done = subprocess.run(
            command, input=given, env=self.environment, capture_output=True, text=True, timeout=COMMAND_LIMIT_S
        )
        if done.returncode not in codes:
            raise CommandFailed(f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}\n{self.logs()}")
        return done.stdout

    @property
    def environment(self) -> Mapping[str, str]:
        home = self.directory / "home"
        home.mkdir(exist_ok=True)
        return {"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": str(self.kubeconfig)}

    def logs(self) -> str:
        """The end of what each component says: to explain a failed test."""
        found = sorted((self.data_dir / "logs").glob("*.log"))
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-2000:]}" for path in found)

    # Looking.

    def status(self) -> Any:
        codes = (Exit.SATISFIED, Exit.WAITING)
        return json.loads(self.mainstay("status", f"--data-dir={self.data_dir}", "-o", "json", codes=codes))

    def components(self) -> dict[str, int]:
        """The process of each component that runs."""
        return {each["name"]: each["pid"] for each in self.status()["components"] if each["running"]}

    def recorded(self) -> dict[str, int]:
        """The same without asking the API server, and the supervisor too: from the records on the disk."""
        found = {}
        for path in sorted((self.data_dir / "run").glob("*.json")):
            found[path.stem] = json.loads(path.read_text())["pid"]
        return found

    def pods(self, app: str = "") -> dict[str, Any]:
        selected = ("-l", f"app={app}") if app else ()
        return {pod["metadata"]["name"]: pod for pod in self.get("pods", *selected)["items"]}

    def get(self, *words: str) -> Any:
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def events_about(self, kind: str, name: str) -> list[str]:
        """Their reasons, in the order in which they were first said."""
        about = f"involvedObject.kind={kind},involvedObject.name={name}"
        found = self.get("events", "--field-selector", about)["items"]
        return [each["reason"] for each in sorted(found, key=_first_said)]

    def ready_pods(self) -> set[str]:
        return {name for name, pod in self.pods().items() if is_true(pod, "Ready")}

    def until_rolled_out(self, deployment: str, within_s: int = 60) -> None:
        self.kubectl("rollout", "status", f"deployment/{deployment}", f"--timeout={within_s}s")

    def ready_nodes(self) -> set[str]:
        listed = json.loads(self.kubectl("get", "nodes", "-o", "json"))
        return {node["metadata"]["name"] for node in listed["items"] if is_true(node, "Ready")}

    def violations(self) -> str:
        """What exclusive workloads have seen of their twins."""
        path = self.shared / "violations"
        return path.read_text() if path.exists() else ""

    # Doing.

    def apply(self, *objects: Any) -> None:
        self.kubectl("apply", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def kill(self, component: str) -> int:
        """With SIGKILL. Returns the process that was."""
        pid = self.components()[component]
        os.kill(pid, signal.SIGKILL)
        return pid

    def kill_supervisor(self) -> int:
        pid = int(self.status()["supervisor"]["pid"])
        os.kill(pid, signal.SIGKILL)
        return pid

    def until_restarted(self, component: str, before: int, within_s: float = 30) -> None:
        self.until(lambda: self.components().get(component, before) != before, within_s)

    def until_ready(self, *pods: str, within_s: float = 60) -> None:
        self.until(lambda: self.ready_pods() >= set(pods), within_s)

    def until(self, is_so: Callable[[], bool], within_s: float = 60) -> None:
        """Until it is so, however often one cannot even ask."""

        def answer() -> bool:
            try:
                return is_so()
            except CommandFailed:
                return False

        eventually(answer, within_s)


def _first_said(event: Any) -> tuple[str, int]:
    # Times are whole seconds. Within one, the order of the writes is all there is.
    return event["firstTimestamp"], int(event["metadata"]["resourceVersion"])


def is_true(obj: Any, condition: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each["type"] == condition and each["status"] == "True" for each in conditions)


def a_web_pod(name: str, port: int = 8080) -> Any:
    probe = {"httpGet": {"path": "/healthz", "port": port}, "periodSeconds": 1}
    container = {
        "name": "web",
        "image": "none",
        "command": [*script_command("web.py"), str(port), name],
        "readinessProbe": probe,
        "resources": {"requests": {"cpu": "10m", "memory": "20Mi"}},
    }
    return _a_pod(name, container, {})


def script_command(name: str) -> list[str]:
    """A command that runs a script of this directory. By its text: a pod may not see where it is, such as in a home.
    In a list of processes the name of the script is the end of an argument."""
    return [sys.executable, "-c", f"{(HERE / name).read_text()}\n# {name}"]


def allow_host_paths(kubectl: Callable[..., str]) -> None:
    """Let pods of the namespace `default` mount directories of the machine."""
    label = "pod-security.kubernetes.io/enforce=privileged"
    kubectl("label", "namespace", "default", label, "--overwrite")


def mount_shared(spec: Any, shared: Path) -> Any:
    """A pod's spec whose containers find a directory of the machine at its own path."""
    for container in spec["containers"]:
        container["volumeMounts"] = [{"name": "shared", "mountPath": str(shared)}]
    return {**spec, "volumes": [{"name": "shared", "hostPath": {"path": str(shared)}}]}


def an_exclusive_pod(name: str, cluster: Cluster) -> Any:
    """One that asks for at most one of it, and would notice if it were two."""
    container = {
        "name": "only",
        "image": "none",
        "command": [*script_command("exclusive.py"), str(cluster.shared), name],
        "resources": {"requests": {"cpu": "10m", "memory": "20Mi"}},
    }
    pod = _a_pod(name, container, {"mainstay.dev/at-most-one": "true"})
    return {**pod, "spec": mount_shared(pod["spec"], cluster.shared)}


def _a_pod(name: str, container: Any, annotations: dict[str, str]) -> Any:
    metadata = {"name": name, "annotations": annotations, "labels": {"app": name}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 2}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def processes_of(script: str, identity: str) -> list[int]:
    """The processes that run a workload's script on behalf of this one, which is among their arguments."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            arguments = Path(f"/proc/{name}/cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # It has just ended.
        # Not the shim beside it, whose arguments are others.
        if any(argument.endswith(script) for argument in arguments) and identity in arguments:
            found.append(int(name))
    return found
