"""How long does one callback keep the API server's event loop from everything else?

While a callback runs, no other request is answered and no lease is renewed. For each kind of large request: the CPU
time of the longest callback that it leads to. A server in this process, over HTTP, on asyncio's own loop, in which each
callback can be measured; its client is a thread, whose CPU time is not counted. What is made when it is first needed is
asked for once before, except where a client can make it be made again and again ("changed").
"""

import asyncio
import gzip
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml

from bench.measure import Figure, main
from mainstay.api.kinds.pods import POD
from mainstay.env import Chance, Env, SystemClock, SystemDisk, machine
from mainstay.http.server import HttpServer
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.auth.authorization import User
from mainstay.server.decisions.journal import JournalLimits, open_journal
from mainstay.server.request.app import Api
from mainstay.server.request.metrics import Metrics
from mainstay.server.request.pipeline import PipelineOptions
from mainstay.store import open_memory

OBJECTS: Final = 20_000
GOAL: Final = "≤ 20"
_MAPS: Final = "/api/v1/namespaces/default/configmaps"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_YAML: Final = "application/yaml"
_MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LargeRequest:
    name: str
    method: str
    path: str
    body: bytes = b""
    content_type: str = "application/json"
    accept: str = "application/json"
    encoding: str = ""
    lines: int = 0
    """Of a watch: how many to read."""
    token: str = "secret"
    before: "LargeRequest | None" = None
    """What makes it expensive again."""
    is_first: bool = False
    """Not asked for before."""


class Longest:
    """Measures each callback of the loops of this process, while it is on."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.what = ""

    @contextmanager
    def on(self) -> Iterator[None]:
        honest = asyncio.events.Handle._run

        def run(handle: asyncio.Handle) -> None:
            began = time.thread_time()
            honest(handle)
            took = time.thread_time() - began
            if took > self.seconds:
                self.seconds, self.what = took, repr(handle)

        asyncio.events.Handle._run = run  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            asyncio.events.Handle._run = honest  # type: ignore[method-assign]


def measure(quick: bool) -> Iterable[Figure]:
    objects = 2_000 if quick else OBJECTS
    found: list[Figure] = []
    with TemporaryDirectory() as directory:
        asyncio.run(_measure(objects, Path(directory), found.append))
    return found


async def _measure(objects: int, directory: Path, found: Callable[[Figure], None]) -> None:
    env = Env(SystemClock(), Chance.fresh(), SystemDisk(directory))
    admin = User("admin", ("system:masters", "system:authenticated"))
    users = Authenticator({"secret": admin, "tenant": User("tenant", ("system:authenticated",))})
    async with AsyncExitStack() as closing:
        store, metrics = await open_memory(), Metrics(env.clock)
        options = PipelineOptions(metrics, has_processes=True)
        journal = await open_journal(SystemDisk(directory), store, env.clock, JournalLimits(), closing, metrics)
        api = await Api.start(store, env, users, journal=journal, options=options)
        closing.push_async_callback(api.stop)
        server = await HttpServer.start(api.answer, "127.0.0.1", 0, on_head=True)
        closing.push_async_callback(server.drain, timedelta(seconds=1))
        port = server.addresses[0][1]
        await _measure_requests(port, objects, found)


async def _measure_requests(port: int, objects: int, found: Callable[[Figure], None]) -> None:
    loop, longest = asyncio.get_running_loop(), Longest()
    await loop.run_in_executor(None, _fill, port, objects)
    machine.settle()
    for request in _requests(objects):
        if not request.is_first:
            await loop.run_in_executor(None, _ask, port, request)
        if request.before is not None:
            await loop.run_in_executor(None, _ask, port, request.before)
        longest.seconds = 0.0
        with longest.on():
            status = await loop.run_in_executor(None, _ask, port, request)
        name = f"callbacks: {request.name} ({status})"
        found(Figure(name, longest.seconds * 1e3, "CPU ms", longest.seconds * 1e6, GOAL))


def _requests(objects: int) -> Iterator[LargeRequest]:
    deep = json.dumps({"spec": [[]] * (3 * _MEBIBYTE // 4)}).encode()[: 3 * _MEBIBYTE - 2000].rsplit(b",", 1)[0] + b"]}"
    yield LargeRequest("POST review, 3 MB of JSON lists", "POST", _REVIEWS, deep)
    yield LargeRequest("POST review, 3 MB of YAML lists", "POST", _REVIEWS, deep, _YAML)
    values = _a_map("large", {f"key-{number}": "v" * 1000 for number in range(1000)})
    many = _a_map("many", {f"k{number}": "" for number in range(20_000)})
    for name, made in (("1 MB, 1,000 keys", values), ("20,000 keys", many)):
        path = f"{_MAPS}/{made['metadata']['name']}"
        body = json.dumps(made).encode()
        yield LargeRequest(f"PUT ConfigMap of {name}, JSON", "PUT", path, body)
        yield LargeRequest(f"PUT ConfigMap of {name}, YAML", "PUT", path, yaml.dump(made).encode(), _YAML)
        patch = json.dumps({"metadata": {"annotations": {"a": "b"}}}).encode()
        for kind in ("merge-patch+json", "strategic-merge-patch+json"):
            yield LargeRequest(f"PATCH ConfigMap of {name}, {kind}", "PATCH", path, patch, f"application/{kind}")
        applied = f"{path}?fieldManager=bench&force=true"
        yield LargeRequest(f"APPLY ConfigMap of {name}", "PATCH", applied, body, "application/apply-patch+yaml")
        yield LargeRequest(f"GET ConfigMap of {name}", "GET", path)
        yield LargeRequest(f"GET ConfigMap of {name}, YAML", "GET", path, accept=_YAML)
        yield LargeRequest(f"GET ConfigMap of {name}, pretty", "GET", f"{path}?pretty=1")
        yield LargeRequest(f"GET ConfigMap of {name}, gzip", "GET", path, encoding="gzip")
    listed = f"LIST {objects} ConfigMaps of 1 KB"
    yield LargeRequest(listed, "GET", _MAPS)
    yield LargeRequest(f"{listed}, gzip", "GET", _MAPS, encoding="gzip")
    yield LargeRequest(f"{listed}, Table", "GET", _MAPS, accept=_TABLE)
    yield LargeRequest(
        f"{listed}, metadata", "GET", _MAPS, accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    )
    yield LargeRequest(f"{listed}, YAML", "GET", _MAPS, accept=_YAML)
    yield LargeRequest(f"{listed}, pretty", "GET", f"{_MAPS}?pretty=1")
    yield LargeRequest(f"{listed}, label selector", "GET", f"{_MAPS}?labelSelector=none%3Dsuch")
    yield LargeRequest(f"{listed}, field selector", "GET", f"{_MAPS}?fieldSelector=metadata.name%3Dnone")
    for name, terms in _selectors():
        yield LargeRequest(f"{listed}, {name}", "GET", f"{_MAPS}?{terms}")
    yield LargeRequest(f"WATCH {objects} ConfigMaps", "GET", f"{_MAPS}?watch=1", lines=objects)
    none = "WATCH, 350 terms, nothing selected"
    yield LargeRequest(none, "GET", f"{_MAPS}?watch=1&timeoutSeconds=1&{dict(_selectors())['350 labels ≠']}%2Cx%3Dy")
    pods = objects // 5
    for name, accept in (("", "application/json"), (", Table", _TABLE)):
        yield LargeRequest(f"LIST {pods} pods{name}", "GET", _PODS, accept=accept)
    fields = "%2C".join(f"{name}%21%3Dx{number}" for name in POD.selectable or () for number in range(20))
    yield LargeRequest(f"LIST {pods} pods, all fields", "GET", f"{_PODS}?fieldSelector={fields}")
    yield LargeRequest(f"WATCH {pods} pods, Table", "GET", f"{_PODS}?watch=1", accept=_TABLE, lines=pods)
    yield LargeRequest("rules review, 1,000 roles", "POST", _RULES, _RULES_BODY, token="tenant")
    yield LargeRequest("journal page of decisions", "GET", "/journal/decisions?limit=10000")
    yield LargeRequest("journal page of writes", "GET", "/journal/writes?limit=10000")
    yield LargeRequest("LIST decisions", "GET", "/apis/mainstay.dev/v1/decisions?limit=10000")
    yield LargeRequest("openapi of apps/v1", "GET", "/openapi/v3/apis/apps/v1")
    yield LargeRequest("aggregated discovery", "GET", "/apis", accept=_DISCOVERY)
    definitions = min(500, objects // 10)
    for name, path, accept in (
        ("aggregated discovery", "/apis", _DISCOVERY),
        ("discovery of the group", "/apis/bench.example.com/v1", "application/json"),
        ("openapi", "/openapi/v3", "application/json"),
        ("openapi of the group", "/openapi/v3/apis/bench.example.com/v1", "application/json"),
    ):
        change = _a_change(name)
        yield LargeRequest(f"{name}, {definitions} definitions, changed", "GET", path, accept=accept, before=change)
    yield replace(_a_change("last"), name=f"PATCH one of {definitions} definitions", is_first=True)
    yield LargeRequest("metrics", "GET", "/metrics")
    yield LargeRequest(f"deletecollection of {objects} ConfigMaps", "DELETE", _MAPS, is_first=True)


def _a_change(name: str) -> LargeRequest:
    patch = json.dumps({"spec": {"names": {"shortNames": [name.replace(" ", "")]}}}).encode()
    return LargeRequest("change", "PATCH", f"{_DEFINITIONS}/kind0s.bench.example.com", patch, _MERGE)


def _selectors() -> Iterator[tuple[str, str]]:
    numbers = range(350)
    yield "350 labels ≠", "labelSelector=" + "%2C".join(f"k{number}%21%3Dv" for number in numbers)
    yield "350 labels of one key ≠", "labelSelector=" + "%2C".join(f"app%21%3Dv{number}" for number in numbers)
    yield "a label in 350", f"labelSelector=app%20in%20({'%2C'.join(f'v{number}' for number in numbers)})"
    yield "350 fields ≠", "fieldSelector=" + "%2C".join(f"metadata.name%21%3Dv{number}" for number in numbers)


_PODS: Final = "/api/v1/namespaces/default/pods"
_RULES: Final = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
_RULES_BODY: Final = b'{"spec":{"namespace":"default"}}'
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
_MERGE: Final = "application/merge-patch+json"
_DISCOVERY: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def _a_map(name: str, data: dict[str, str]) -> dict[str, Any]:
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "namespace": "default"}, "data": data}


def _fill(port: int, objects: int) -> None:
    made = [
        *((_MAPS, _a_map(f"map-{number}", {"text": "x" * 900})) for number in range(objects)),
        *((_MAPS, _a_map(name, {"a": "b"})) for name in ("large", "many")),
        *((_PODS, _a_pod(number)) for number in range(objects // 5)),
        *((_DEFINITIONS, _a_definition(number)) for number in range(min(500, objects // 10))),
        *(each for number in range(1000) for each in _a_right(number)),
    ]

    def make(start: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for path, obj in made[start::8]:
            headers = {"Authorization": "Bearer secret", "Content-Type": "application/json"}
            connection.request("POST", path, json.dumps(obj), headers)
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status == 201, text
        connection.close()

    threads = [threading.Thread(target=make, args=(start,)) for start in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _a_pod(number: int) -> dict[str, Any]:
    variables = [{"name": f"V{each}", "value": "x" * 20} for each in range(10)]
    containers = [{"name": "c", "image": "x:1", "env": variables, "ports": [{"containerPort": 80}]}]
    metadata = {"name": f"pod-{number}", "namespace": "default", "labels": {"app": "web"}}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": containers}}


def _a_definition(number: int) -> dict[str, Any]:
    fields = {f"field{each}": {"type": "string", "description": "what it is for"} for each in range(30)}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    plural = f"kind{number}s"
    return {
        "metadata": {"name": f"{plural}.bench.example.com"},
        "spec": {
            "group": "bench.example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": f"Kind{number}"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def _a_right(number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    place = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rules = [{"apiGroups": [f"g{number}"], "resources": [f"r{each}"], "verbs": ["get"]} for each in range(5)]
    yield f"{place}/roles", {"metadata": {"name": f"role-{number}"}, "rules": rules}
    group = "rbac.authorization.k8s.io"
    subjects = [{"kind": "User", "name": "tenant", "apiGroup": group}]
    role = {"kind": "Role", "name": f"role-{number}", "apiGroup": group}
    yield f"{place}/rolebindings", {"metadata": {"name": f"role-{number}"}, "subjects": subjects, "roleRef": role}


def _ask(port: int, request: LargeRequest) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {
        "Authorization": f"Bearer {request.token}",
        "Content-Type": request.content_type,
        "Accept": request.accept,
    }
    if request.encoding:
        headers["Accept-Encoding"] = request.encoding
    connection.request(request.method, request.path, request.body or None, headers)
    answer = connection.getresponse()
    if request.lines:
        for _ in range(request.lines):
            answer.readline()
        connection.close()
        return answer.status
    content = answer.read()
    if request.encoding and answer.getheader("Content-Encoding"):
        gzip.decompress(content)
    connection.close()
    return answer.status


if __name__ == "__main__":
    main(measure)
