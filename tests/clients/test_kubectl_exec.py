"""kubectl's exec, cp and attach, and the streams of other clients, of a node that serves them over TLS."""

import asyncio
import contextlib
import os
import pty
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from datetime import timedelta

import kr8s
import pytest
from kubernetes import client
from kubernetes.stream import portforward, stream

from mainstay.agent.serve import sessions
from tests.agent.serving_node import ServingNode
from tests.clients.python_client import python_client
from tests.processes import eventually

pytestmark = [
    pytest.mark.slow,
    # kr8s knows which versions of Kubernetes it was tried with, and says so once per connection.
    pytest.mark.filterwarnings("ignore:Kubernetes version:UserWarning"),
    # Neither client closes all of its sockets.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


LIMIT_S = 20


@pytest.fixture
def node(kubectl, tmp_path):
    with ServingNode(kubectl, tmp_path) as node:
        yield node


def test_a_command_says_something(kubectl, node):
    node.add_pod("web")

    assert kubectl("exec", "web", "--", "echo", "hello") == "hello\n"


def test_a_command_takes_the_right_to_create_and_no_other(kubectl, node):
    """kubectl asks by GET: those who may read everything run nothing."""
    node.add_pod("web")
    kubectl("create", "rolebinding", "editors", "--clusterrole=edit", "--user=edda")
    for user, verb in (("reader", "get"), ("runner", "create")):
        kubectl("create", "role", user, f"--verb={verb}", "--resource=pods/exec,pods/attach,pods/portforward")
        kubectl("create", "rolebinding", user, f"--role={user}", f"--user={user}")
        kubectl("create", "rolebinding", f"{user}-views", "--clusterrole=view", f"--user={user}")

    assert kubectl("exec", "web", "--as=edda", "--", "echo", "hello") == "hello\n"
    assert kubectl("exec", "web", "--as=runner", "--", "echo", "hello") == "hello\n"
    refusal = kubectl.refused("exec", "web", "--as=reader", "--", "echo", "hello")
    assert 'User "reader" cannot create resource "pods/exec"' in refusal


def test_output_and_errors_are_kept_apart_and_the_exit_code_is_passed_on(kubectl, node):
    node.add_pod("web")

    done = kubectl.run(("exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 3"), "", {})

    assert (done.stdout, done.returncode) == ("out\n", 3)
    assert done.stderr == "err\ncommand terminated with exit code 3\n"


def test_input_comes_to_its_end(kubectl, node):
    node.add_pod("web")
    text = "line\n" * 200_000

    assert kubectl("exec", "-i", "web", "--", "cat", stdin=text) == text
    assert kubectl("exec", "-i", "web", "--", "wc", "-c", stdin=text).strip() == str(len(text))


def test_a_command_that_cannot_be_run(kubectl, node):
    node.add_pod("web")

    refused = kubectl.refused("exec", "web", "--", "no-such-command")

    assert refused == (
        "error: Internal error occurred: error executing command in container: no-such-command:"
        " No such file or directory"
    )


def test_a_container_that_does_not_run(kubectl, node):
    container = node.add_pod("web")["c"]
    node.call(node.runner.finish, container, 7)

    assert 'container "c" in pod "web" is not running: it exited with code 7' in kubectl.refused(
        "exec", "web", "--", "ls"
    )


def test_an_agent_that_is_gone_is_said_to_be(kubectl, node):
    node.add_pod("web")
    node.stop()

    assert f'the agent of node "{node.name}" cannot be reached' in kubectl.refused("exec", "web", "--", "ls")


def test_a_terminal_has_a_size_and_echoes(kubectl, node):
    node.add_pod("web")
    script = 'while [ "$(stty size)" = "0 0" ]; do sleep 0.05; done; stty size; read x; echo got $x; exit 4'
    with a_terminal(kubectl, "exec", "-it", "web", "--", "sh", "-c", script) as shell:
        shell.until(b"40 132")
        shell.write(b"hello\n")
        shell.until(b"got hello")
        assert shell.process.wait(10) == 4


def test_when_the_client_is_gone_the_command_is_killed(kubectl, node):
    node.add_pod("web")

    with kubectl.running("exec", "web", "--", "sh", "-c", "echo begun; sleep 1000") as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "begun\n"
    eventually(lambda: node.runner.sessions[0].is_killed)


def test_a_command_that_takes_no_input_is_killed_too_when_the_client_is_gone(kubectl, node, monkeypatch):
    monkeypatch.setattr(sessions, "PINGED_EVERY", timedelta(milliseconds=200))
    node.add_pod("web")
    command = ["kubectl", f"--namespace={kubectl.namespace}", "exec", "-i", "web", "--", "sleep", "1000"]
    with open("/dev/zero", "rb") as zeros:
        running = subprocess.Popen(command, env=kubectl.server.environment, stdin=zeros)
    try:
        eventually(lambda: node.runner.sessions and node.runner.sessions[0].taken >= 65536)  # Its pipe is full.
    finally:
        running.kill()
        running.wait()
    eventually(lambda: node.runner.sessions[0].is_killed)


def test_a_command_whose_output_is_not_taken_waits(kubectl, node):
    node.add_pod("web")
    command = ["kubectl", f"--namespace={kubectl.namespace}", "exec", "web", "--", "sh", "-c", "yes >&1"]
    before = _resident(kubectl.server)
    running = subprocess.Popen(command, env=kubectl.server.environment, stdout=subprocess.PIPE)
    try:
        assert running.stdout is not None
        assert running.stdout.read(2) == b"y\n"
        eventually(lambda: node.runner.sessions[0].is_waiting)
        assert _resident(kubectl.server) - before < 20 * 1024 * 1024
        assert running.stdout.read(2_000_000) == b"y\n" * 1_000_000
    finally:
        running.kill()
        running.wait()
    eventually(lambda: node.runner.sessions[0].is_killed)


def test_files_are_copied_both_ways(kubectl, node, tmp_path):
    node.add_pod("web")
    (tmp_path / "there").mkdir()
    source = tmp_path / "source.bin"
    source.write_bytes(os.urandom(3_000_000))

    kubectl("cp", str(source), f"web:{tmp_path}/there/copy.bin")
    kubectl("cp", f"web:{tmp_path}/there/copy.bin", str(tmp_path / "back.bin"))

    assert (tmp_path / "back.bin").read_bytes() == source.read_bytes()


def test_attach_streams_output_from_now_on(kubectl, node):
    container = node.add_pod("web")["c"]
    node.runner.say(container, "before\n")

    with kubectl.running("attach", "web") as attached:
        eventually(lambda: node.runner.readers == 1)
        node.call(node.runner.say, container, "after\n")
        assert attached.stdout is not None
        lines = iter(attached.stdout.readline, "")
        assert next(line for line in lines if not line.startswith("If you don't")) == "after\n"
        node.call(node.runner.finish, container)
        assert attached.wait(10) == 0


def test_attaching_to_the_input_is_refused(kubectl, node):
    node.add_pod("web")

    assert "takes no input once it runs" in kubectl.refused("attach", "-i", "web")


# Other clients.


@pytest.fixture
def core(kubectl) -> Iterator[client.CoreV1Api]:
    with python_client(kubectl.server.kubeconfig) as api:
        yield client.CoreV1Api(api)


def test_the_python_client_runs_commands(kubectl, node, core):
    node.add_pod("web")
    call = (core.connect_get_namespaced_pod_exec, "web", kubectl.namespace)
    heard = {"stdout": True, "stderr": True, "stdin": False, "tty": False}

    # Not with its answer read for us: then the connection is not closed.
    saying = stream(*call, command=["echo", "hello"], **heard, _preload_content=False)
    saying.run_forever(timeout=10)
    assert saying.read_stdout() == "hello\n"
    saying.close()

    talking = stream(*call, command=["cat"], **{**heard, "stdin": True}, _preload_content=False)
    talking.write_stdin("one\n")
    assert talking.readline_stdout(timeout=10) == "one"
    talking.close()
    eventually(lambda: node.runner.sessions[1].is_killed)

    failing = stream(*call, command=["sh", "-c", "exit 5"], **heard, _preload_content=False)
    failing.run_forever(timeout=10)
    assert failing.returncode == 5
    failing.close()


def test_kr8s_runs_commands(kubectl, node, tmp_path):
    node.add_pod("web")

    async def run() -> bytes:
        api = await kr8s.asyncio.api(kubeconfig=str(kubectl.server.kubeconfig), namespace=kubectl.namespace)
        pod = await kr8s.asyncio.objects.Pod.get("web", api=api)
        async with asyncio.timeout(LIMIT_S):
            done = await pod.exec(["echo", "hello"])
        return done.stdout

    assert asyncio.run(run()) == b"hello\n"


@contextlib.contextmanager
def a_web_server() -> Iterator[int]:
    """Answers each connection with what it was sent, in capitals, until its client has sent all."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        while data := connection.recv(65536):
                            connection.sendall(data.upper())

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def test_the_python_client_forwards_ports(kubectl, node, core):
    node.add_pod("web")
    with a_web_server() as port, a_web_server() as other:
        forwarded = portforward(
            core.connect_get_namespaced_pod_portforward, "web", kubectl.namespace, ports=f"{port},{other}"
        )
        for each in (port, other):
            connection = forwarded.socket(each)
            connection.settimeout(10)
            connection.sendall(b"hello")
            assert connection.recv(5) == b"HELLO"
        forwarded.close()


def test_a_port_without_a_listener(kubectl, node, core):
    node.add_pod("web")
    with a_web_server() as port:
        pass
    forwarded = portforward(core.connect_get_namespaced_pod_portforward, "web", kubectl.namespace, ports=str(port))
    eventually(lambda: forwarded.error(port))

    assert forwarded.error(port) == f"cannot connect to port {port} of pod web: Connection refused"
    forwarded.close()


def test_kr8s_forwards_ports(kubectl, node):
    node.add_pod("web")

    async def run() -> bytes:
        api = await kr8s.asyncio.api(kubeconfig=str(kubectl.server.kubeconfig), namespace=kubectl.namespace)
        pod = await kr8s.asyncio.objects.Pod.get("web", api=api)
        with a_web_server() as port:
            async with asyncio.timeout(LIMIT_S), pod.portforward(remote_port=port, local_port="auto") as local:
                reader, writer = await asyncio.open_connection("127.0.0.1", local)
                writer.write(b"hello")
                answer = await reader.readexactly(5)
                writer.close()
        return answer

    assert asyncio.run(run()) == b"HELLO"


# Helpers.


def _resident(server) -> int:
    pid = server._process.pid
    return int(open(f"/proc/{pid}/statm").read().split()[1]) * 4096


class Terminal:
    def __init__(self, process: "subprocess.Popen[bytes]", number: int) -> None:
        self.process = process
        self._number = number
        self._seen = b""

    def write(self, data: bytes) -> None:
        os.write(self._number, data)

    def until(self, wanted: bytes) -> None:
        while wanted not in self._seen:
            readable, _, _ = select.select([self._number], [], [], 20)
            assert readable, self._seen
            self._seen += os.read(self._number, 4096)


@contextlib.contextmanager
def a_terminal(kubectl, *arguments: str) -> Iterator[Terminal]:
    """kubectl in a terminal of its own, of 132 columns and 40 rows."""
    outer, inner = pty.openpty()
    subprocess.run(["stty", "rows", "40", "columns", "132"], stdin=inner, check=True)
    process = subprocess.Popen(
        ["kubectl", f"--namespace={kubectl.namespace}", *arguments],
        env={**kubectl.server.environment, "TERM": "xterm"},
        stdin=inner,
        stdout=inner,
        stderr=inner,
        start_new_session=True,
    )
    os.close(inner)
    try:
        yield Terminal(process, outer)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(outer)
