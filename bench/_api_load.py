"""Does jobs at an API server over many connections, each asking again as soon as it is answered.

    python -m bench._api_load KUBECONFIG CONNECTIONS

It connects as the user of the kubeconfig, by client certificate over TLS or by token without, and says "connected".
Then, for each line with a job, `{"job": "get", "first": 0, "count": 5000}`, it prepares that, says "prepared", begins
when it is told so by another line, and says what it took. It does no more than it must, so that the server is what is
measured: bodies are made beforehand, and of an answer only the status and the length are looked at.

Everything that is sent is made from numbers; nothing is random. Headers are those of client-go.
"""

import asyncio
import base64
import hashlib
import json
import ssl
import sys
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final, cast
from urllib.parse import urlsplit

import yaml

from bench.api_decode import OBJECT
from mainstay.env import tasks

NAMESPACE: Final = "default"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
STRATEGIC: Final = "application/strategic-merge-patch+json"

# What a controller written in Go says it can read, and what a kubelet does.
JSON_ACCEPT: Final = "application/json, */*"
KUBELET_ACCEPT: Final = "application/vnd.kubernetes.protobuf,application/json"

Asking = Generator[bytes, bytes, None]
"""What one connection asks: it is sent the body of each answer, and gives the next request."""


class Connection(asyncio.Protocol):
    """Asks one thing after the other. An answer other than a success ends everything."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._missing = 0
        self._tail: bytes | None = None  # Of an answer in chunks: the last bytes that came.
        self.answer_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def begin(self, asking: Asking) -> "asyncio.Future[None]":
        self._asking = asking
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport.write(next(asking))
        return self._done

    def data_received(self, data: bytes) -> None:
        if self._tail is not None:
            self._take_chunks(data)
            return
        if self._missing:
            self._pieces.append(data)
            self._missing -= len(data)
        else:
            head_bytes = data.index(b"\r\n\r\n") + 4
            if not data.startswith(b"HTTP/1.1 20"):
                self._done.set_exception(AssertionError(f"refused: {data!r}"))
                return
            if b"Transfer-Encoding: chunked\r\n" in data[:head_bytes]:
                self.answer_bytes, self._tail = 0, b""
                self._take_chunks(data[head_bytes:])
                return
            at = data.index(b"Content-Length: ") + 16
            self.answer_bytes = int(data[at : data.index(b"\r", at)])
            self._pieces = [data[head_bytes:]]
            self._missing = self.answer_bytes - len(self._pieces[0])
        if not self._missing:
            self._answered(self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces))

    def _take_chunks(self, data: bytes) -> None:
        """A long list. It is not parsed: only its length, with the frames of its chunks, and its end count."""
        self.answer_bytes += len(data)
        self._tail = ((self._tail or b"") + data[-7:])[-7:]
        if self._tail == b"\r\n0\r\n\r\n":
            self._tail = None
            self._answered(b"")

    def _answered(self, body: bytes) -> None:
        try:
            self._transport.write(self._asking.send(body))
        except StopIteration:
            self._done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if hasattr(self, "_done") and not self._done.done():
            self._done.set_exception(error or ConnectionError("the server has closed"))


class Watcher(asyncio.Protocol):
    """Asks for a watch, and tells when something has come: whole chunks, each of which is one event here."""

    def __init__(self, request: bytes, told: Callable[[], None]) -> None:
        self._request = request
        self._told = told
        self._end = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        self._end = (self._end + data[-3:])[-3:]
        if self._end == b"\n\r\n":  # The line of the event, and the chunk it is in; or the end of the head.
            self._told()


@dataclass(frozen=True, slots=True)
class Done:
    operations: int
    wall_s: float
    cpu_s: float
    answer_bytes: int


class Client:
    """Connections to one server."""

    def __init__(self, kubeconfig: Path) -> None:
        config: Any = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        address = urlsplit(cluster["server"])
        self._host, self._port = address.hostname or "", address.port or 0
        self._tls = _tls_of(cluster, user) if address.scheme == "https" else None
        self._authorization = f"Authorization: Bearer {user['token']}\r\n" if "token" in user else ""
        self._connections: list[Connection] = []
        self._uids: dict[int, str] = {}
        self._watchers = 0
        self._owed = 0
        self._all_told: asyncio.Future[None] | None = None

    async def connect(self, connections: int) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(connections):
            _, connection = await loop.create_connection(Connection, self._host, self._port, ssl=self._tls)
            self._connections.append(connection)

    async def prepare(self, job: str, first: int, count: int) -> Callable[[], "asyncio.Future[Done]"]:
        """What does the job when it is called."""
        if job == "watchers":
            return lambda: asyncio.ensure_future(self._watch(count))
        if job == "events":
            await self._find_uids(range(1))
            patches = list(self._patches(range(1), range(first, first + count)))
            return lambda: asyncio.ensure_future(self._tell_watchers(patches))
        used = self._connections[:1] if job in ("list", "gzip list") else self._connections
        numbers = range(first, first + count)
        if job in ("status", "status again"):
            await self._find_uids(numbers)
        askings = [self._asking(job, numbers[index :: len(used)]) for index in range(len(used))]
        return lambda: asyncio.ensure_future(self._do(used, askings, count))

    async def _find_uids(self, numbers: range) -> None:
        """A kubelet says in each patch which pod it means, in case that another one has got the name."""

        def asking(numbers: range) -> Asking:
            for number in numbers:
                answer = yield self._request("GET", f"{PODS}/{pod_name(number)}")
                self._uids[number] = json.loads(answer)["metadata"]["uid"]

        used = self._connections[: len(numbers)]
        await asyncio.gather(*[one.begin(asking(numbers[at :: len(used)])) for at, one in enumerate(used)])

    async def _do(self, used: list[Connection], askings: list[Asking], operations: int) -> Done:
        cpu, wall = time.process_time(), time.perf_counter()
        await asyncio.gather(*[one.begin(asking) for one, asking in zip(used, askings, strict=True)])
        wall_s, cpu_s = time.perf_counter() - wall, time.process_time() - cpu
        return Done(operations, wall_s, cpu_s, used[0].answer_bytes)

    async def _watch(self, count: int) -> Done:
        """Become so many watchers, who wait for what comes next."""
        version = ""

        def latest() -> Asking:
            nonlocal version
            listed = yield self._request("GET", f"{PODS}?limit=1")
            version = json.loads(listed)["metadata"]["resourceVersion"]

        await self._connections[0].begin(latest())
        request = self._request("GET", f"{PODS}?watch=true&resourceVersion={version}")
        self._watchers = self._owed = count
        all_told = self._expect_all()
        for _ in range(count):
            await asyncio.get_running_loop().create_connection(
                lambda: Watcher(request, self._told), self._host, self._port, ssl=self._tls
            )
        await all_told
        return Done(count, 0, 0, 0)

    async def _tell_watchers(self, patches: list[bytes]) -> Done:
        """One write after the other, each when all have been told of the one before."""
        cpu, wall = time.process_time(), time.perf_counter()
        for patch in patches:
            all_told = self._expect_all()
            await self._connections[0].begin(_once(patch))
            await all_told
        wall_s, cpu_s = time.perf_counter() - wall, time.process_time() - cpu
        return Done(len(patches) * self._watchers, wall_s, cpu_s, 0)

    def _expect_all(self) -> "asyncio.Future[None]":
        self._owed = self._watchers
        self._all_told = asyncio.get_running_loop().create_future()
        return self._all_told

    def _told(self) -> None:
        self._owed -= 1
        if not self._owed and self._all_told is not None:
            self._all_told.set_result(None)

    def _asking(self, job: str, numbers: range) -> Asking:
        match job:
            case "create":
                return _each([self._request("POST", PODS, pod(number), JSON_ACCEPT) for number in numbers])
            case "get":
                return _each([self._request("GET", f"{PODS}/{pod_name(number)}") for number in numbers])
            case "status":
                return _each(list(self._patches(numbers, range(1))))
            case "status again":
                return _each(list(self._patches(numbers, range(1, 2))))
            case "lease":
                return self._renewals(numbers[0], len(numbers))
            case "list":
                return _each([self._request("GET", PODS)] * len(numbers))
            case "gzip list":
                return _each([self._request("GET", PODS, more="Accept-Encoding: gzip\r\n")] * len(numbers))
            case _:
                raise AssertionError(f"there is no job {job!r}")

    def _patches(self, numbers: range, rounds: range) -> Iterator[bytes]:
        for at in rounds:
            for number in numbers:
                path = f"{PODS}/{pod_name(number)}/status"
                yield self._request(
                    "PATCH", path, status_patch(number, at, self._uids[number]), KUBELET_ACCEPT, STRATEGIC
                )

    def _renewals(self, first: int, count: int) -> Asking:
        """What the agent of one node does: each renewal builds on the answer to the one before."""
        name = f"node-{first:05}"
        answer = yield self._request("POST", LEASES, lease(name, 0, ""), KUBELET_ACCEPT)
        for number in range(1, count):
            at = answer.index(b'"resourceVersion":"') + 19
            version = answer[at : answer.index(b'"', at)].decode()
            answer = yield self._request("PUT", f"{LEASES}/{name}", lease(name, number, version), KUBELET_ACCEPT)

    def _request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        accept: str = JSON_ACCEPT,
        content: str = "application/json",
        more: str = "",
    ) -> bytes:
        if body:
            more += f"Content-Type: {content}\r\nContent-Length: {len(body)}\r\n"
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n"
            "User-Agent: kubelet/v1.36.4 (linux/amd64) kubernetes/8dcc5e2\r\n"
            f"Accept: {accept}\r\n{self._authorization}{more}\r\n"
        )
        return head.encode() + body


def _each(requests: list[bytes]) -> Asking:
    for request in requests:  # noqa: UP028 - a list could not be sent the answers.
        yield request


def _once(request: bytes) -> Asking:
    yield request


def pod_name(number: int) -> str:
    return f"web-6d4b75cb6d-{number:05}"


_NAME: Final = b"N-A-M-E"
_NOT_THERE: Final = ("priorityClassName", "serviceAccountName")
_SPEC: Final = {name: value for name, value in OBJECT["spec"].items() if name not in _NOT_THERE}
_POD: Final = json.dumps(
    {
        **OBJECT,
        "metadata": {**OBJECT["metadata"], "generateName": "", "name": _NAME.decode(), "namespace": NAMESPACE},
        "spec": {**_SPEC, "tolerations": [{**OBJECT["spec"]["tolerations"][0], "effect": "NoExecute"}]},
    },
    separators=(",", ":"),
).encode()


def pod(number: int) -> bytes:
    """A pod of 2 KB, as a controller makes it."""
    return _POD.replace(_NAME, pod_name(number).encode())


def status_patch(number: int, at: int, uid: str) -> bytes:
    """What a kubelet sends when a pod has begun to run (`at` 0), and when its container was started again."""
    moment = f"2026-01-01T{at // 3600 % 24:02}:{at // 60 % 60:02}:{at % 60:02}Z"
    types = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
    # Only what is different is sent: at first all of it, then what has to do with the container.
    changed = types if at == 0 else ["Ready", "ContainersReady"]
    conditions: list[dict[str, Any]] = [
        {
            "lastProbeTime": None,
            "lastTransitionTime": moment,
            "observedGeneration": 1,
            "status": "True",
            "type": type_,
        }
        for type_ in changed
    ]
    image = "registry.example.com/shop/web"
    image_hash = hashlib.sha256(image.encode()).hexdigest()
    container_hash = hashlib.sha256(f"{number}/{at}".encode()).hexdigest()
    container = {
        "containerID": f"containerd://{container_hash}",
        "image": f"{image}:1.42.0",
        "imageID": f"{image}@sha256:{image_hash}",
        "lastState": {},
        "name": "web",
        "ready": True,
        "resources": {
            "limits": {"cpu": "1", "memory": "512Mi"},
            "requests": {"cpu": "250m", "memory": "256Mi"},
        },
        "restartCount": at,
        "started": True,
        "state": {"running": {"startedAt": moment}},
        "volumeMounts": [
            {"mountPath": "/etc/web", "name": "config", "readOnly": True, "recursiveReadOnly": "Disabled"},
            {"mountPath": "/var/cache/web", "name": "cache"},
        ],
    }
    status: dict[str, Any] = {
        "$setElementOrder/conditions": [{"type": type_} for type_ in types],
        "conditions": conditions,
        "containerStatuses": [container],
    }
    if at == 0:
        address = f"10.1.{number // 250 % 250}.{number % 250 + 1}"
        status |= {"hostIP": "10.0.0.7", "hostIPs": [{"ip": "10.0.0.7"}], "observedGeneration": 1, "phase": "Running"}
        status |= {"podIP": address, "podIPs": [{"ip": address}], "startTime": moment}
    return json.dumps({"metadata": {"uid": uid}, "status": status}, separators=(",", ":")).encode()


def lease(name: str, number: int, version: str) -> bytes:
    meta: dict[str, Any] = {"name": name, "namespace": "kube-node-lease"}
    if version:
        meta["resourceVersion"] = version
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": "48f72da9-69ed-4a7e-a7b2-76194cbf7cef"}
    meta["ownerReferences"] = [owner]
    time_ = f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}.{number % 1_000_000:06}Z"
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": time_}
    body = {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": meta, "spec": spec}
    return json.dumps(body, separators=(",", ":")).encode()


def _tls_of(cluster: dict[str, str], user: dict[str, str]) -> ssl.SSLContext:
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    with NamedTemporaryFile() as file:  # The library takes it from nowhere else.
        file.write(base64.b64decode(user["client-certificate-data"]))
        file.write(base64.b64decode(user["client-key-data"]))
        file.flush()
        context.load_cert_chain(file.name)
    return context


async def main() -> None:
    kubeconfig, connections = sys.argv[1:]
    client = Client(Path(kubeconfig))
    await client.connect(int(connections))
    print("connected", flush=True)
    while line := sys.stdin.readline():
        wanted = json.loads(line)
        begin = await client.prepare(wanted["job"], wanted["first"], wanted["count"])
        print("prepared", flush=True)
        sys.stdin.readline()
        done = await begin()
        fields = {"operations": done.operations, "wall_s": done.wall_s, "cpu_s": done.cpu_s}
        print(json.dumps(fields | {"answer_bytes": done.answer_bytes}), flush=True)


if __name__ == "__main__":
    tasks.run(main())
