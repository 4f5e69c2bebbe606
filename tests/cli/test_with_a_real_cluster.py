"""From a file to a process and its log: everything a container refers to, and `mainstay logs`, on a real node."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from mainstay.cli.exits import Exit
from tests.processes import eventually

pytestmark = pytest.mark.slow

LIMIT_S: Final = 60.0
PROGRAM: Final = [sys.executable, "-m", "mainstay.cli.main"]

TALKING: Final = r"""
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: blue}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {token: t0p}
---
apiVersion: v1
kind: Pod
metadata: {name: talking, labels: {app: talking}}
spec:
  terminationGracePeriodSeconds: 1
  volumes:
  - {name: settings, configMap: {name: settings}}
  - {name: keys, secret: {secretName: keys, items: [{key: token, path: deep/token, mode: 0400}]}}
  - {name: about, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
  initContainers:
  - {name: first, image: none, command: [sh, -c, "echo made by $(POD_NAME) on $NODE_NAME"]}
  containers:
  - name: main
    image: none
    command: [sh, -c]
    args:
    - |
      echo "env $COLOUR $TOKEN $CPU $HELLO"
      cd $MAINSTAY_ROOT
      echo "files $(cat settings/colour) $(cat keys/deep/token) $(stat -L -c %a keys/deep/token) $(cat about/labels)"
      n=0; while true; do n=$((n+1)); echo line $n; sleep 0.2; done
    resources: {limits: {cpu: 1500m}}
    env:
    - {name: COLOUR, valueFrom: {configMapKeyRef: {name: settings, key: colour}}}
    - {name: TOKEN, valueFrom: {secretKeyRef: {name: keys, key: token}}}
    - {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}
    - {name: HELLO, value: "$(COLOUR)-$$(COLOUR)-$(POD_NAMESPACE)"}
    volumeMounts:
    - {name: settings, mountPath: /settings}
    - {name: keys, mountPath: /keys}
    - {name: about, mountPath: /about}
"""
RESTARTING: Final = """
apiVersion: v1
kind: Pod
metadata: {name: restarting}
spec:
  containers:
  - name: c
    image: none
    workingDir: /work-of-it
    volumeMounts: [{name: work, mountPath: /work-of-it}]
    command: [sh, -c, "test -e again && { echo second; sleep 60; }; touch again; echo first; exit 3"]
  volumes: [{name: work, emptyDir: {}}]
"""
UNABLE: Final = """
apiVersion: v1
kind: Pod
metadata: {name: unable}
spec:
  containers:
  - {name: c, image: nginx}
  - {name: d, image: none, command: [x], env: [{name: A, valueFrom: {secretKeyRef: {name: none, key: k}}}]}
"""


class Cluster:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def run(self, *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*PROGRAM, *arguments],
            # The cluster is found where `up` puts it.
            env={**os.environ, "KUBECONFIG": "", "XDG_STATE_HOME": str(self.directory)},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == Exit.SATISFIED, done
        return done.stdout

    def reason_of(self, container: int) -> str:
        path = f"{{.status.containerStatuses[{container}].state.waiting.reason}}"
        return self.run("get", "pod", "unable", "-o", f"jsonpath={path}").stdout


@pytest.fixture(scope="module")
def mainstay() -> Iterator[Cluster]:
    directory = Path(tempfile.mkdtemp(prefix="mainstay-up-")).resolve()
    cluster = Cluster(directory)
    cluster("up", "--detach", "--port=0", "--nodes=1")
    yield cluster
    cluster("down", "--now")
    shutil.rmtree(directory)


def test_a_container_gets_what_it_refers_to_and_its_log_is_shown_in_every_form(mainstay: Cluster):
    mainstay("apply", "-f", "-", stdin=TALKING)
    eventually(lambda: "line 3" in mainstay.run("logs", "talking").stdout)
    assert mainstay("logs", "talking").splitlines()[:3] == [
        "env blue t0p 1500 blue-$(COLOUR)-default",
        'files blue t0p 400 app="talking"',
        "line 1",
    ]
    assert mainstay("logs", "talking", "-c", "first") == "made by talking on node-a1\n"
    (last,) = mainstay("logs", "pod/talking", "--tail=1", "--timestamps").splitlines()
    assert last.split()[0].endswith("Z")
    assert last.split()[1] == "line"
    both = mainstay("logs", "-l", "app=talking", "--all-containers", "--prefix").splitlines()
    assert both[0] == "[pod/talking/first] made by talking on node-a1"
    assert both[-1].startswith("[pod/talking/main] line ")

    with subprocess.Popen(
        [*PROGRAM, "logs", "-f", "talking", "--tail=0"],
        env={**os.environ, "KUBECONFIG": "", "XDG_STATE_HOME": str(mainstay.directory)},
        stdout=subprocess.PIPE,
        text=True,
    ) as following:
        assert following.stdout is not None
        numbers = [int(following.stdout.readline().split()[1]) for _ in range(3)]
        assert numbers == list(range(numbers[0], numbers[0] + 3))
        assert mainstay("delete", "pod", "talking") == 'pod "talking" deleted\n'
        # What is followed ends with the container.
        assert following.wait(LIMIT_S) == Exit.SATISFIED
    gone = mainstay.run("logs", "talking")
    assert (gone.returncode, gone.stderr) == (Exit.ERROR, 'mainstay: pods "talking" not found\n')


def test_the_log_of_the_container_before_the_restart_is_kept(mainstay: Cluster):
    mainstay("apply", "-f", "-", stdin=RESTARTING)
    eventually(lambda: mainstay.run("logs", "restarting").stdout == "second\n")
    assert mainstay("logs", "restarting", "--previous") == "first\n"
    mainstay("delete", "pod", "restarting", "--now")


def test_what_cannot_be_run_says_why(mainstay: Cluster):
    mainstay("apply", "-f", "-", stdin=UNABLE)
    eventually(lambda: mainstay.reason_of(0) == "CommandRequired")
    eventually(lambda: mainstay.reason_of(1) == "CreateContainerConfigError")
    message = mainstay("get", "pod", "unable", "-o", "jsonpath={.status.containerStatuses[1].state.waiting.message}")
    assert message == 'secret "none" not found'
    refused = mainstay.run("logs", "unable", "-c", "d")
    assert refused.returncode == Exit.ERROR
    assert "is waiting to start" in refused.stderr
    mainstay("delete", "pod", "unable", "--force")
