"""The real kubectl in one namespace of a real server, and what several tests give it to read."""

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any, Final

from tests.clients.server_process import ServerProcess

LIMIT_S: Final = 30.0  # For one command, on a busy machine.

DEPLOYMENT: Final = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "nginx:1", ports: [{containerPort: 80}]}
"""
CONFIGMAP: Final = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: red}
"""
SERVICE: Final = """
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
"""


class Kubectl:
    """Runs kubectl in one namespace of a server. Call it for what should work: `kubectl("get", "pods")`."""

    def __init__(self, server: ServerProcess, namespace: str) -> None:
        self.server = server
        self.namespace = namespace

    def __call__(self, *arguments: str, stdin: str = "", **environment: str) -> str:
        """What it says, when it succeeds."""
        done = self.run(arguments, stdin, environment)
        assert done.returncode == 0, (arguments, done)
        return done.stdout

    def refused(self, *arguments: str, stdin: str = "") -> str:
        """What it complains about, when it fails as it should."""
        done = self.run(arguments, stdin, {})
        assert done.returncode == 1, (arguments, done)
        return done.stderr.strip()

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "-o", "json"))

    def table(self, *arguments: str) -> list[dict[str, str]]:
        """The rows of a table, without the ages."""
        header, *lines = self(*arguments).splitlines()
        starts = [found.start() for found in re.finditer(r"(?<!\S )\S+(?: \S+)*", header)]
        columns = list(zip(starts, [*starts[1:], None], strict=True))
        titles = [header[start:end].strip() for start, end in columns]
        rows = [[line[start:end].strip() for start, end in columns] for line in lines]
        return [
            {title: cell for title, cell in zip(titles, row, strict=True) if title not in ("AGE", "CREATED AT")}
            for row in rows
        ]

    def run(
        self, arguments: tuple[str, ...], stdin: str, environment: dict[str, str]
    ) -> "subprocess.CompletedProcess[str]":
        """However it ends."""
        return subprocess.run(
            self._command(arguments),
            env={**self.server.environment, **environment},
            cwd=self.server.home,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )

    @contextlib.contextmanager
    def running(self, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
        """A command that goes on while others run. The time limit is kubectl's own, so reading its output ends."""
        with subprocess.Popen(
            self._command((*arguments, f"--request-timeout={LIMIT_S:.0f}s")),
            env=self.server.environment,
            cwd=self.server.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return ["kubectl", f"--namespace={self.namespace}", *arguments]


def a_pod(name: str, labels: dict[str, str] | None = None, **spec: Any) -> str:
    metadata = {"name": name} | ({"labels": labels} if labels else {})
    spec = {"containers": [{"name": "c", "image": "x:1"}], **spec}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def lines_until(process: "subprocess.Popen[str]", last: str) -> list[list[str]]:
    """The words of each line, up to the one that contains `last`."""
    assert process.stdout is not None
    found = []
    for line in process.stdout:
        found.append(line.split())
        if last in line:
            return found
    raise AssertionError(f"the output ended without {last!r}: {found}")
