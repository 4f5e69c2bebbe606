"""An API server in process, watches that stay open, and what must hold after each request and at the end.

After each request: no exception but a `StatusError`, no answer 5xx that is not deliberate (failures.py), an answer
whose head can be sent; and nothing written by a request that was refused, is a dry run or has lost its body
(writers.py). At the end: the feed and all watches alive, each watch at what LIST says, no seats of flow control in
use, each stored object conforming to its kind and readable in every form.
"""

import asyncio
import contextlib
import json
import re
import traceback
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any, Final
from urllib.parse import unquote

from cryptography.hazmat.primitives.asymmetric import ec

from mainstay.api.conform import conform
from mainstay.api.errors import StatusError
from mainstay.api.json_values import copied
from mainstay.api.kind import Kind, Object
from mainstay.api.object_meta import is_strict
from mainstay.api.reservations import reservation_name
from mainstay.env import Chance, Env, tasks
from mainstay.http import encoder
from mainstay.http.messages import (
    Answer,
    Headers,
    LongResponse,
    Peer,
    Request,
    Response,
    StreamResponse,
    TunnelResponse,
    UpgradeResponse,
)
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.auth.authorization import User
from mainstay.server.auth.jwt import SigningKey
from mainstay.server.auth.request_signer import ClusterAuthority
from mainstay.server.auth.tokens import AccountTokens
from mainstay.server.decisions.journal import JournalLimits, open_journal
from mainstay.server.request.app import Api
from mainstay.server.request.metrics import Metrics
from mainstay.server.request.observer import CLIENT_GONE
from mainstay.server.request.pipeline import PipelineOptions
from mainstay.server.storage.keyspace import build_key, build_prefix
from mainstay.server.storage.stored import read
from mainstay.sim.simulation import Simulation
from mainstay.store.interface import Entry
from tests.fuzz.connections import FuzzConnections, fuzz_connections
from tests.fuzz.deliveries import BodyFate, Delivery, arriving, build_delivery
from tests.fuzz.failures import is_deliberate
from tests.fuzz.queries import JSON, Learned
from tests.fuzz.requests import FuzzRequest
from tests.fuzz.samples import CRDS, SAMPLES
from tests.fuzz.writers import ObservedStore, open_observed, writing_as

USERS: Final = {
    "admin": User("admin", ("system:masters", "system:authenticated")),
    "root": User("root", ("roots", "system:authenticated")),
    "alice": User("alice", ("devs", "system:authenticated")),
    "bob": User("bob", ("readers", "system:authenticated")),
    "carol": User("carol", ("tenants", "system:authenticated")),
    "node-a": User("system:node:node-a", ("system:nodes", "system:authenticated")),
    "scheduler": User("system:kube-scheduler", ("system:authenticated",)),
    "controllers": User("system:kube-controller-manager", ("system:authenticated",)),
}
_KEY: Final = SigningKey(ec.derive_private_key(0xF022, ec.SECP256R1()))
_AUTHORITIES: Final = "-----BEGIN CERTIFICATE-----\nZg==\n-----END CERTIFICATE-----\n"
_LEARNED_MAX: Final = 20
_WATCHED: Final = (
    "/api/v1/pods?",
    "/api/v1/namespaces/default/pods?labelSelector=app%3Dweb&",
    "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-a&",
    "/api/v1/configmaps?labelSelector=app%21%3Dweb&",
    "/apis/mainstay.dev/v1/componentstates?labelSelector=app%3Dweb&",
    "/apis/mainstay.dev/v1/zonequotas?labelSelector=%21app&",
    "/apis/fuzz.dev/v1/widgets?labelSelector=app%3Dweb&",
    "/apis/fuzz.dev/v2/blobs?",
    "/apis/apps/v1/deployments?",
    "/api/v1/nodes?",
)
_FORMS: Final = (
    "application/yaml",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
)
# Of kinds that do not leave their names to clients.
_NAMES: Final = {
    "reservations": reservation_name({"name": "web", "uid": "u1"}, 1, "one"),
    "samplingpolicies": "default",
}
_IN_USE: Final = re.compile(r"^apiserver_flowcontrol_current_(executing|inqueue)\w+\{", re.MULTILINE)
_VARYING: Final = re.compile(r'"[^"]*"|[0-9]+')


@dataclass(frozen=True)
class Finding:
    what: str
    request: FuzzRequest | None
    detail: str

    @property
    def signature(self) -> str:
        """The same for findings that are likely to have one cause."""
        if self.what != "exception":
            return self.what + _VARYING.sub("…", self.detail)[:100]
        frames = [line.strip() for line in self.detail.splitlines() if 'File "' in line and "mainstay" in line]
        return f"{self.what}: {self.detail.strip().splitlines()[-1][:80]} {frames[-1] if frames else ''}"


@dataclass(frozen=True)
class FuzzAnswer:
    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    stream: StreamResponse | None = None

    def reason_and_message(self) -> tuple[str, str]:
        try:
            status = json.loads(self.body)
            return str(status.get("reason", "")), str(status.get("message", ""))
        except (ValueError, AttributeError):
            return "", ""


@dataclass
class AskedRequest:
    """A request, and what became of it."""

    request: FuzzRequest
    status: int = 0
    may_write: bool = False
    sent: Delivery | None = None


class _Lines:
    """Takes what a watch writes, and follows it. Implements `Outgoing` (server/watch/session.py)."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], str] = {}
        self.errors: list[Any] = []
        self._closed = asyncio.Event()

    def write(self, data: bytes) -> bool:
        for line in data.splitlines():
            event = json.loads(line)
            metadata = event["object"].get("metadata") or {}
            key = (metadata.get("namespace", ""), metadata.get("name", ""))
            match event["type"]:
                case "ADDED" | "MODIFIED":
                    self.objects[key] = metadata["resourceVersion"]
                case "DELETED":
                    self.objects.pop(key, None)
                case "ERROR":
                    self.errors.append(event["object"])
        return not self._closed.is_set()

    async def turn(self) -> None: ...

    async def drain(self) -> None: ...

    async def drained_within(self, limit: timedelta) -> bool:
        return True

    def end_soon(self) -> None:
        self._closed.set()

    async def wait_closed(self) -> None:
        await self._closed.wait()


class FuzzWorld:
    connections: FuzzConnections

    def __init__(self, api: Api, store: ObservedStore) -> None:
        self.api = api
        self.learned = Learned()
        self.findings: list[Finding] = []
        self.statuses: dict[int, int] = {}
        self._store = store
        self._watches: dict[str, tuple[_Lines, asyncio.Task[None]]] = {}
        self._prepared_at = 0
        self._asked: list[AskedRequest] = []

    def kinds(self) -> list[Kind]:
        return list(self.api.registry)

    def find(self, kind: Kind, namespace: str, name: str) -> Object | None:
        if not kind.is_kept or len(name) > 500:
            return None
        entry = self._store.look(build_key(kind, namespace if kind.namespaced else "", name or "a"))
        return None if entry is None else read(kind, entry)

    async def ask(self, *requests: FuzzRequest) -> None:
        """Send requests, all at the same time, and check all that must hold afterwards."""
        if len(requests) == 1:
            await self._ask(requests[0])
        else:
            asking = [tasks.spawn(self._ask(each), name="fuzz request") for each in requests]
            await asyncio.wait(asking)
            for each in asking:
                each.result()
        self._check_written()

    async def _ask(self, request: FuzzRequest) -> None:
        asked = AskedRequest(request)
        number = len(self._asked) + 1
        self._asked.append(asked)
        if request.delivery is not None:
            await self._ask_over_connection(asked, number)
            return
        with writing_as(number):
            answer = await self._answer(request)
        if answer is None:
            return
        self._count(answer.status)
        self._learn(answer)
        is_whole = request.fate in (None, BodyFate.COMES, BodyFate.COMES_IN_VAIN)
        asked.status = answer.status
        asked.may_write = is_whole and answer.status in (*range(400), CLIENT_GONE) and not request.changes_nothing
        if not is_whole and answer.status < 400 and request.method in ("POST", "PUT", "PATCH"):
            self._found("accepted without all of its body", request, str(answer.status))
        if answer.stream is not None:
            await self._listen_a_little(answer.stream)
        else:
            self._check_status(request, answer)

    async def _ask_over_connection(self, asked: "AskedRequest", number: int) -> None:
        request = asked.request
        chance = Random(request.delivery)
        sent = build_delivery(chance, number, request.method, request.target, _headers(request), request.body)
        answer, problem = await self.connections.send(sent, request.method, is_watch="watch" in request.target)
        self._count(answer.status)
        if problem:
            self._found("connection", request, f"{problem}\n{sent}")
        self._check_status(request, FuzzAnswer(answer.status, answer.body))
        if sent.is_cut and 200 <= answer.status < 300 and request.method in ("POST", "PUT", "PATCH"):
            self._found("accepted without all of its body", request, str(sent))
        asked.status, asked.sent = answer.status, sent
        asked.may_write = answer.status < 400 and not (sent.is_cut or request.changes_nothing)

    def _count(self, status: int) -> None:
        self.statuses[status] = self.statuses.get(status, 0) + 1

    def _learn(self, answer: FuzzAnswer) -> None:
        learned = self.learned
        learned.revision = self.api.feed.revision
        if answer.status < 300 and b'"continue"' in answer.body:
            with contextlib.suppress(ValueError, LookupError, TypeError):
                learned.continues.append(json.loads(answer.body)["metadata"]["continue"])
        if answer.status == 201 and b'"token"' in answer.body:
            with contextlib.suppress(ValueError, LookupError, TypeError):
                learned.tokens.append(json.loads(answer.body)["status"]["token"])
        del learned.continues[:-_LEARNED_MAX], learned.tokens[:-_LEARNED_MAX]

    def _check_status(self, request: FuzzRequest, answer: FuzzAnswer) -> None:
        """No answer 5xx that is not deliberate."""
        said = answer.reason_and_message()
        if answer.status >= 500 and not is_deliberate(request.method, answer.status, *said, request.target):
            self._found(f"status {answer.status}", request, answer.body.decode(errors="replace")[:2000])

    def _check_written(self) -> None:
        """Nothing is stored from a request that was refused, is a dry run, or only reads."""
        for written in self._store.take_written():
            if written.is_own_work:
                continue
            if not 0 < written.request <= len(self._asked):
                self._found(f"stored by task {written.task}", None, str(written))
                continue
            asked = self._asked[written.request - 1]
            if asked.may_write or (written.begins_count and "quotas" in asked.request.target):
                continue
            what = f"stored by a request that was answered {asked.status}"
            self._found(what, asked.request, f"{written}\n{asked.sent or ''}")

    async def _answer(self, request: FuzzRequest) -> FuzzAnswer | None:
        path, _, query = request.target.partition("?")
        given = Headers(_headers(request).items())
        body = request.body if request.fate is None else b""
        asked = Request(request.method, request.target, unquote(path), query, given, body, Peer("10.9.9.9", 5))
        if request.fate is not None:
            asked.arriving = arriving(asked, request.fate, request.body)
        try:
            response = await self._respond(asked, request.fate)
            if isinstance(response, FuzzAnswer):
                return response
            encoder.head_of_response(response, date=b"", closes=False)
        except StatusError as error:
            response = encoder.build_response(error)
            encoder.head_of_response(response, date=b"", closes=False)
        except Exception:  # noqa: BLE001 - this is what is looked for
            self._found("exception", request, traceback.format_exc())
            return None
        return FuzzAnswer(response.status, response.body, response.headers)

    async def _respond(self, request: Request, fate: BodyFate | None) -> Response | FuzzAnswer:
        given = self.api.answer(request)
        answer: Answer | None
        if isinstance(given, Response | LongResponse | StreamResponse | UpgradeResponse | TunnelResponse):
            answer = given
        else:
            answer = await self._wait(given, fate)
        match answer:
            case None:
                return FuzzAnswer(CLIENT_GONE, b"")
            case StreamResponse():
                return FuzzAnswer(answer.status, b"", answer.headers, answer)
            case UpgradeResponse():
                return FuzzAnswer(101, b"")
            case TunnelResponse():
                answer.drop()
                return FuzzAnswer(101, b"")
            case LongResponse():
                pieces = b"".join(answer.pieces)
                answer.close()
                return Response(answer.status, pieces, answer.content_type, answer.headers)
            case Response():
                return answer

    async def _wait(self, answer: Awaitable[Answer], fate: BodyFate | None) -> Answer | None:
        """None: the client did not wait for it."""
        if fate not in (BodyFate.IS_LOST, BodyFate.COMES_IN_VAIN):
            return await answer
        waiting = tasks.spawn(_awaited(answer), name="fuzz request", expected=StatusError)
        await tasks.turns(6)
        if waiting.done():
            return waiting.result()
        await tasks.stop(waiting)
        return None

    def report(self, error: BaseException, request: Request) -> None:
        """Of a request that came over a connection."""
        shown = FuzzRequest("", request.method, request.target, dict(request.headers), request.body)
        self._found("exception", shown, "".join(traceback.format_exception(error)))

    async def _listen_a_little(self, stream: StreamResponse) -> None:
        lines = _Lines()
        listening = tasks.spawn(_run(stream, lines), name="fuzz watch")
        await tasks.sleep(timedelta(milliseconds=10))
        lines.end_soon()
        await tasks.stop(listening)

    async def _give_rights(self) -> None:
        """What users may do, whatever requests have made of that."""
        root = "/apis/rbac.authorization.k8s.io/v1"
        rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
        await self._make(f"{root}/clusterroles", {"metadata": {"name": "fuzz-read"}, "rules": rules})
        everything = [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["*"], "verbs": ["*"]},
        ]
        await self._make(f"{root}/clusterroles", {"metadata": {"name": "fuzz-all"}, "rules": everything})
        for place, role, group in (
            ("clusterrolebindings", "fuzz-all", "roots"),
            ("clusterrolebindings", "fuzz-read", "readers"),
            ("namespaces/default/rolebindings", "admin", "tenants"),
        ):
            subject = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": group}
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
            body = {"metadata": {"name": f"fuzz-{group}"}, "roleRef": reference, "subjects": [subject]}
            await self._make(f"{root}/{place}", body)

    async def restore(self) -> None:
        """Make again what requests need, if others have deleted it."""
        await self._give_rights()
        await self._make("/api/v1/nodes", {"metadata": {"name": "node-a"}, **copied(SAMPLES["", "nodes"])})
        self._store.take_written()

    async def prepare(self) -> None:
        """What requests find: definitions, namespaces, a node, rights, and watches that stay open."""
        await self._give_rights()
        await self._make("/api/v1/namespaces", {"metadata": {"name": "two"}})
        await self._make("/api/v1/nodes", {"metadata": {"name": "node-a"}, **copied(SAMPLES["", "nodes"])})
        for crd in CRDS:
            await self._make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", copied(crd))
        while not any(kind.plural == "gears" for kind in self.api.registry):
            await tasks.sleep(timedelta(milliseconds=100))
        for kind in self.kinds():
            is_kept = "create" in kind.verbs and len(kind.verbs) > 1 and kind.plural != "holds"
            if is_kept and (kind.group, kind.plural) in SAMPLES:
                place = f"namespaces/default/{kind.plural}" if kind.namespaced else kind.plural
                root = f"/apis/{kind.group}" if kind.group else "/api"
                body = copied(SAMPLES[kind.group, kind.plural])
                body["metadata"] = {**body.get("metadata", {}), "name": _NAMES.get(kind.plural, "a")}
                await self._make(f"{root}/{kind.version}/{place}", body)
        bound = copied(SAMPLES["", "pods"])
        bound["metadata"] = {**bound["metadata"], "name": "b"}
        bound["spec"]["nodeName"] = "node-a"
        await self._make("/api/v1/namespaces/default/pods", bound)
        self._store.take_written()
        self._prepared_at = await self._store.revision()
        for path in _WATCHED:
            answer = await self._answer(FuzzRequest("admin", "GET", f"{path}watch=1"))
            if answer is None or answer.stream is None:
                raise AssertionError(f"cannot watch {path}: {answer}")
            lines = _Lines()
            self._watches[path] = (lines, tasks.spawn(_run(answer.stream, lines), name="fuzz watch"))

    async def _make(self, path: str, body: Any) -> None:
        request = FuzzRequest("admin", "POST", path, {"Content-Type": JSON}, json.dumps(body).encode())
        answer = await self._answer(request)
        if answer is None or answer.status not in (201, 409, 422):
            raise AssertionError(f"cannot prepare {path}: {answer} {self.findings}")

    async def finish(self) -> None:
        """Check what must hold in the end."""
        await self._settle()
        await self._check_watches()
        await self._check_seats()
        by_prefix = {build_prefix(kind): kind for kind in reversed(self.kinds()) if kind.is_kept}
        for prefix, kind in sorted(by_prefix.items()):
            for entry in (await self._store.range(prefix)).entries:
                if entry.revision > self._prepared_at:
                    await self._check_stored(kind, entry)
        for lines, listening in self._watches.values():
            lines.end_soon()
            await tasks.stop(listening)

    async def _settle(self) -> None:
        while True:
            revision = await self._store.revision()
            try:
                async with tasks.timeout(timedelta(minutes=5)):
                    await self.api.feed.reach(revision)
            except TimeoutError:
                self._found("the feed has stopped", None, f"at {self.api.feed.revision}, the store is at {revision}")
                return
            await tasks.sleep(timedelta(milliseconds=10))
            if revision == await self._store.revision():
                return

    async def _check_watches(self) -> None:
        for path, (lines, listening) in self._watches.items():
            answer = await self._answer(FuzzRequest("admin", "GET", path))
            if answer is None or answer.status != 200 or "fuzz.dev" in path:
                if "fuzz.dev" not in path:
                    self._found("LIST of what is watched", None, f"{path}: {answer}")
                continue  # Definitions come and go, and watches of their kinds end with them.
            if listening.done() or lines.errors:
                self._found("a watch has ended", None, f"{path}: {lines.errors} {listening}")
                continue
            items = [item["metadata"] for item in json.loads(answer.body)["items"]]
            listed = {(item.get("namespace", ""), item["name"]): item["resourceVersion"] for item in items}
            if listed != lines.objects:
                self._found(
                    "a watch and LIST differ", None, f"{path}: {sorted(listed.items() ^ lines.objects.items())}"
                )

    async def _check_seats(self) -> None:
        """Flow control counts nothing for requests that are over."""
        answer = await self._answer(FuzzRequest("admin", "GET", "/metrics"))
        lines = "" if answer is None else answer.body.decode()
        kept = [line for line in lines.splitlines() if _IN_USE.match(line) and not line.endswith(" 0.0")]
        if kept or not _IN_USE.search(lines):
            self._found("seats in use at the end", None, "\n".join(kept) or lines[:500])

    async def _check_stored(self, kind: Kind, entry: Entry) -> None:
        obj = read(kind, entry)
        again = copied(obj)
        try:
            unknown = conform(again, kind.message) if kind.message else []
        except StatusError as error:
            unknown = [str(error)]
        if unknown or not is_strict(obj["metadata"]):
            self._found(f"stored what does not conform: {kind.kind} {unknown}", None, f"{entry.key}: {entry.value!r}")
        place, _, name = entry.key.rpartition("/")
        namespace = place.rpartition("/")[2]
        path = ("/apis/" + kind.group if kind.group else "/api") + f"/{kind.version}/"
        path += f"namespaces/{namespace}/{kind.plural}/{name}" if kind.namespaced else f"{kind.plural}/{name}"
        if "%" in path or "?" in path or "#" in path:
            return  # Names of roles may have anything in them.
        for accept in _FORMS:
            answer = await self._answer(FuzzRequest("admin", "GET", path, {"Accept": accept}))
            if answer is not None and answer.status != 200:
                self._found("cannot be read back", None, f"{accept} {kind.kind} {entry.key}: {answer}")
        if kind.is_custom:
            return  # Its definition may have changed since.
        body = json.dumps(obj).encode()
        back = FuzzRequest("admin", "PUT", f"{path}?fieldValidation=Strict", {"Content-Type": JSON}, body)
        answer = await self._answer(back)
        if answer is not None and answer.status != 200:
            self._found(f"cannot be written back: {kind.kind}", back, f"{answer.status} {answer.reason_and_message()}")

    def _found(self, what: str, request: FuzzRequest | None, detail: str) -> None:
        self.findings.append(Finding(what, request, detail))


async def _run(stream: StreamResponse, lines: Any) -> None:
    await stream.run(lines)


async def _awaited(answer: Awaitable[Answer]) -> Answer:
    return await answer


def _headers(request: FuzzRequest) -> dict[str, str]:
    return {**request.headers, "Authorization": f"Bearer {request.user}"} if request.user else request.headers


@asynccontextmanager
async def a_fuzz_world(sim: Simulation) -> AsyncIterator[FuzzWorld]:
    given = sim.env("server")
    env = Env(given.clock, Chance(b"server"), given.disk)
    async with AsyncExitStack() as closing:
        store = await open_observed()
        authenticator = Authenticator(USERS, AccountTokens(_KEY, store, env))
        metrics = Metrics(env.clock)
        journal = await open_journal(sim.get_disk("journal"), store, env.clock, JournalLimits(), closing, metrics)
        api = await Api.start(
            store,
            env,
            authenticator,
            journal=journal,
            options=PipelineOptions(metrics),
            authority=ClusterAuthority(_AUTHORITIES),
        )
        closing.push_async_callback(api.stop)
        world = FuzzWorld(api, store)
        world.connections = await closing.enter_async_context(fuzz_connections(sim, api.answer, world.report))
        await world.prepare()
        yield world


def merge_counts(all_counts: Iterator[dict[int, int]]) -> dict[int, int]:
    merged: dict[int, int] = {}
    for counts in all_counts:
        for status, count in counts.items():
            merged[status] = merged.get(status, 0) + count
    return merged
