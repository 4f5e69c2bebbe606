"""Large bodies and answers, and YAML: what comes of them, and that none keeps the event loop busy (H1, H2)."""

import asyncio
import contextlib
import gc
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from bench.callbacks import Longest
from mainstay.api.errors import StatusError
from mainstay.env import Chance, Env, SystemClock, SystemDisk, tasks
from mainstay.http.messages import Headers, LongResponse, Peer, Request, Response
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.request import large_work, yaml_helper
from mainstay.server.request.app import Api
from mainstay.server.request.fair_turns import FairTurns
from mainstay.server.request.large_work import LargeWork
from mainstay.server.request.pipeline import PipelineOptions
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from tests.server.request.test_heads import allow
from tests.server.world import CONFIGMAPS, PODS, TOKENS, a_configmap, a_pod, a_server

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
YAML = "application/yaml"
APPLY = "application/apply-patch+yaml"
TOKEN = "/api/v1/namespaces/default/serviceaccounts/default/token"
CPU_S_MAX = 0.02


def a_large_map(name: str = "large", keys: int = 1000, size: int = 200) -> dict[str, Any]:
    made: dict[str, Any] = {"kind": "ConfigMap", "apiVersion": "v1", **a_configmap(name)}
    made["data"] = {f"key-{number}": "v" * size for number in range(keys)}
    return made


@pytest.mark.parametrize("content_type", ["application/json", YAML])
async def test_a_large_object_is_written_like_a_small_one(sim: Simulation, content_type: str):
    made = a_large_map()
    body = yaml.safe_dump(made).encode() if content_type == YAML else json.dumps(made).encode()
    assert len(body) > large_work.LARGE_BYTES
    async with a_server(sim) as client:
        answer = await client.ask("POST", CONFIGMAPS, body, content_type)
        assert answer.status == 201
        again = await client.ask("PUT", f"{CONFIGMAPS}/large", body, content_type)
        assert again.status == 200
        assert (await client.get(f"{CONFIGMAPS}/large"))["data"] == made["data"]
        await client.patch(f"{CONFIGMAPS}/large", {"data": {"key-1": None}})
        path = f"{CONFIGMAPS}/large?fieldManager=me&force=true"
        applied = await client.ask("PATCH", path, body, "application/apply-patch+yaml")
        assert applied.status == 200, applied.body
        assert (await client.get(f"{CONFIGMAPS}/large"))["data"] == made["data"]


async def test_large_yaml_is_refused_and_warned_about_in_the_same_words(sim: Simulation):
    padding = "  padding: " + "x" * large_work.YAML_AT_ONCE_BYTES
    twice = f"metadata:\n  name: one\ndata:\n  a: b\n  a: c\n{padding}\n".encode()
    async with a_server(sim) as client:
        for body, text in ((b"data: [" + padding.encode(), "error converting YAML to JSON"), (b"- a\n" * 9000, "json")):
            answer = await client.ask("POST", CONFIGMAPS, body, YAML)
            assert answer.status == 400
            assert text in answer.body["message"]
        answer = await client.ask("POST", CONFIGMAPS, twice, YAML)
        assert answer.status == 201
        assert 'key "a" already set in map' in answer.headers["Warning"].replace("\\", "")


async def test_what_is_applied_goes_to_the_helper_unless_it_is_json(sim: Simulation, monkeypatch: pytest.MonkeyPatch):
    asked: list[bytes] = []

    def answer(question: bytes) -> bytes:
        asked.append(question[1:10])
        return honest(question)

    honest = yaml_helper.answer
    monkeypatch.setattr(yaml_helper, "answer", answer)
    made = a_large_map(keys=100)
    pairs = ",".join(f"{key}: {value}" for key, value in made["data"].items())
    flow_style = f"{{apiVersion: v1, kind: ConfigMap, data: {{{pairs}}}}}".encode()
    for body in (json.dumps(made).encode(), flow_style):
        assert large_work.YAML_AT_ONCE_BYTES < len(body) < large_work.LARGE_BYTES
    async with a_server(sim) as client:
        for body, kind in (
            (json.dumps(made).encode(), APPLY),
            (flow_style, APPLY),
            (flow_style, APPLY.upper()),
            (flow_style * 4, APPLY),
        ):
            await client.ask("PATCH", f"{CONFIGMAPS}/large?fieldManager=me", body, kind)
        assert (await client.get(f"{CONFIGMAPS}/large"))["data"] == made["data"]
    assert asked == [b"{apiVersi"] * 3


async def test_more_yaml_than_is_read_is_refused(sim: Simulation, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(large_work, "YAML_BYTES_MAX", 100_000)
    body = b"data:\n" + b"".join(b"  k%d: v\n" % number for number in range(10_000))
    async with a_server(sim) as client:
        for method, path, kind in (
            ("POST", CONFIGMAPS, YAML),
            ("PATCH", f"{CONFIGMAPS}/x?fieldManager=me", "application/apply-patch+yaml"),
        ):
            answer = await client.ask(method, path, body, kind)
            assert (answer.status, answer.body["reason"]) == (413, "RequestEntityTooLarge")
            assert "send JSON" in answer.body["message"]


async def test_reviews_and_options_have_small_bodies(sim: Simulation):
    body = json.dumps({"spec": {"user": "x" * 20_000}}).encode()
    async with a_server(sim) as client:
        for method, path in (("POST", REVIEWS), ("DELETE", f"{CONFIGMAPS}/x")):
            assert (await client.ask(method, path, body)).status == 413


@pytest.mark.parametrize(("path", "limit"), [(REVIEWS, 16_384), (LEASES, 524_288)])
async def test_a_small_body_in_chunks_is_not_read_to_its_end(sim: Simulation, path: str, limit: int):
    async def endless() -> AsyncIterator[bytes]:
        yield b'{"spec":"'
        while True:
            yield b"x" * 10_000
            await tasks.sleep(timedelta(milliseconds=10))

    async with a_server(sim) as client:
        sent = {"Authorization": "Bearer admintoken", "Content-Type": "application/json"}
        async with client.session.post(client.base + path, data=endless(), headers=sent) as response:
            assert response.status == 413
            assert f"limit is {limit} bytes" in (await response.json())["message"]


async def test_users_take_turns_with_their_large_bodies():
    turns, served = FairTurns(), []

    async def work(owner: str, number: int) -> None:
        async with turns.turn(owner):
            await tasks.sleep(timedelta(seconds=1))
            served.append(f"{owner}{number}")

    asked = [("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 1), ("c", 1), ("b", 2)]
    running = [tasks.spawn(work(owner, number), name=f"{owner}{number}") for owner, number in asked]
    await tasks.sleep(timedelta(milliseconds=500))
    await tasks.stop(running[2])  # Its client is gone.
    await tasks.sleep(timedelta(seconds=10))

    assert served == ["a1", "a2", "b1", "c1", "a4", "b2"]


async def test_a_turn_that_its_owner_no_longer_needs_is_passed_on():
    turns, served = FairTurns(), []

    async def work(owner: str) -> None:
        async with turns.turn(owner):
            served.append(owner)

    async with turns.turn("first"):
        gone, waits = (tasks.spawn(work(owner), name=owner) for owner in ("gone", "waits"))
        await tasks.turns(1)
    await tasks.stop(gone)  # It has just been given the turn.
    await waits
    async with turns.turn("last"):
        assert served == ["waits"]


async def test_objects_and_lists_are_shown_as_yaml(sim: Simulation):
    async with a_server(sim) as client:
        for number in range(300):
            await client.create(CONFIGMAPS, {**a_configmap(f"m-{number}"), "data": {"a": "ü" * 900}})
        for path in (f"{CONFIGMAPS}/m-1", f"{CONFIGMAPS}?limit=2", CONFIGMAPS):
            as_json = await client.get(path)
            answer = await client.ask("GET", path, Accept=YAML)
            assert answer.headers["Content-Type"] == YAML
            assert yaml.safe_load(answer.body) == as_json


async def test_a_list_that_is_too_long_for_yaml_is_refused_and_pretty_is_left_out(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(large_work, "DUMPED_BYTES_MAX", 300_000)
    async with a_server(sim) as client:
        for number in range(400):
            await client.create(CONFIGMAPS, {**a_configmap(f"m-{number}"), "data": {"a": "x" * 900}})
        answer = await client.ask("GET", CONFIGMAPS, Accept=YAML)
        assert answer.status == 406
        assert "limit=" in str(answer.body)
        assert len((await client.get(f"{CONFIGMAPS}?pretty=1"))["items"]) == 400


async def test_too_many_that_wait_are_told_to_come_back(sim: Simulation, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(large_work, "WAITING_MAX", 0)
    async with a_server(sim) as client:
        answer = await client.ask("POST", CONFIGMAPS, json.dumps(a_large_map()).encode())
        assert (answer.status, answer.headers["Retry-After"]) == (429, "1")


class AnAsker(NamedTuple):
    is_system: bool
    owner: str


def test_neither_one_user_nor_all_of_them_take_every_place():
    work = LargeWork()

    def fill(stack: contextlib.ExitStack, owner: str, *, is_system: bool = False) -> int:
        """Take places as long as there are any. Returns how many."""
        for taken in range(40):
            try:
                stack.enter_context(work.wait(AnAsker(is_system, owner)))
            except StatusError:
                return taken
        return 40

    for _ in range(2):
        with contextlib.ExitStack() as stack:
            assert [fill(stack, name) for name in ("a", "b", "c", "d")] == [8, 8, 8, 0]
            assert fill(stack, "system:node:n1", is_system=True) == 8
            assert fill(stack, "", is_system=True) == 0
        with contextlib.ExitStack() as stack:
            assert fill(stack, "", is_system=True) == 32
    work.close()


async def test_the_large_objects_of_a_user_do_not_keep_out_an_administrator(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(large_work, "WAITING_USER_MAX", 0)
    async with a_server(sim) as client:
        await allow(client, "alice")
        body = json.dumps(a_large_map()).encode()
        refused = await client.ask("POST", CONFIGMAPS, body, Authorization="Bearer usertoken")
        assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
        assert 'of user "alice"' in refused.body["message"]
        assert (await client.ask("POST", CONFIGMAPS, body)).status == 201


class SlowHelper:
    def __init__(self, asked: list[str]) -> None:
        self._asked = asked

    async def ask(self, question: bytes) -> bytes:
        self._asked.append(question[1:].decode().strip())
        await tasks.sleep(timedelta(seconds=1))
        return b""

    def close(self) -> None:
        pass


@pytest.mark.parametrize("is_yaml", [False, True])
async def test_the_large_requests_of_a_user_let_those_of_others_in(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch, *, is_yaml: bool
):
    work, served = LargeWork(), list[str]()
    monkeypatch.setattr(work, "helper", SlowHelper(served))

    async def send(owner: str) -> None:
        share = work.share_with(AnAsker(False, owner))
        body = owner.encode().ljust(large_work.YAML_AT_ONCE_BYTES + 1)
        headers = Headers([("Content-Type", YAML)])
        if is_yaml:
            await share.read_body(Request("POST", CONFIGMAPS, CONFIGMAPS, "", headers, body, Peer("127.0.0.1", 1)))
        else:
            await share.run(served.append, owner)

    await tasks.together([send(owner) for owner in ("a", "a", "a", "b")], name="request")
    work.close()

    assert served == ["a", "a", "b", "a"]


def test_without_its_helper_yaml_is_not_served():
    async def program() -> None:
        large = LargeWork(has_helper=True)
        assert large.helper is not None
        large.helper._module = "mainstay.no_such_module"
        with pytest.raises(Exception, match="use JSON") as raised:
            await large.share_with(AnAsker(True, "")).write_yaml(Response(200, json.dumps(a_large_map()).encode()))
        assert getattr(raised.value, "code", 0) == 503
        large.close()

    asyncio.run(program())


@pytest.mark.slow
def test_no_large_request_keeps_the_loop_busy(tmp_path: Path):
    """CPU time of the longest callback, on a loop of asyncio, in which each can be measured."""

    async def program() -> dict[str, float]:
        env = Env(SystemClock(), Chance.fresh(), SystemDisk(tmp_path))
        options = PipelineOptions(has_processes=True)
        api = await Api.start(await open_memory(), env, Authenticator(TOKENS), options=options)
        try:
            return await measure(api)
        finally:
            await api.stop()

    async def measure(api: Api) -> dict[str, float]:
        for number in range(3000):
            made = {**a_configmap(f"m-{number}"), "data": {"a": "x" * 900}}
            await ask(api, "POST", CONFIGMAPS, json.dumps(made).encode())
        lists = b"spec: [" + b"[]," * 300_000 + b"[]]"
        large = a_large_map(keys=15_000, size=10)
        flow_style = b"{data: [" + b"[]," * 20_000 + b"[]]}"
        applied = f"{CONFIGMAPS}/flow?fieldManager=me"
        await ask(api, "POST", "/api/v1/nodes", json.dumps({"metadata": {"name": "n1"}}).encode())
        await ask(api, "POST", PODS, json.dumps(a_pod("web", nodeName="n1")).encode())
        requests: dict[str, tuple[Any, ...]] = {
            "review as YAML": ("POST", REVIEWS, lists, YAML),
            "object as YAML": ("POST", CONFIGMAPS, yaml.dump(large, Dumper=yaml.CSafeDumper).encode(), YAML),
            "applied YAML that begins like JSON": ("PATCH", applied, flow_style, APPLY),
            "token request as YAML": ("POST", TOKEN, lists, YAML, "", "system:node:n1"),
            "object as JSON": ("PUT", f"{CONFIGMAPS}/large", json.dumps(large).encode(), "application/json"),
            "lists as JSON": ("POST", CONFIGMAPS, json.dumps({"data": [[]] * 700_000}).encode(), "application/json"),
            "read as YAML": ("GET", f"{CONFIGMAPS}/large", b"", "", YAML),
            "list as YAML": ("GET", CONFIGMAPS, b"", "", YAML),
            "pretty list": ("GET", f"{CONFIGMAPS}?pretty=1", b"", ""),
            "table": ("GET", CONFIGMAPS, b"", "", "application/json;as=Table;v=v1;g=meta.k8s.io"),
            "selector": ("GET", f"{CONFIGMAPS}?labelSelector=a%3Db", b"", ""),
        }
        found = {}
        gc.collect()
        gc.freeze()
        gc.disable()
        for name, request in requests.items():
            longest = Longest()
            with longest.on():
                await tasks.spawn(ask(api, *request), name=name)
            found[name] = longest.seconds
        return found

    try:
        found = asyncio.run(program())
    finally:
        gc.enable()
        gc.unfreeze()
    assert {name: round(seconds, 3) for name, seconds in found.items() if seconds > CPU_S_MAX} == {}


async def ask(
    api: Api,
    method: str,
    target: str,
    body: bytes,
    content_type: str = "application/json",
    accept: str = "",
    node: str = "",
) -> None:
    pairs = [("Authorization", "Bearer admintoken"), ("Content-Type", content_type), ("Accept", accept or "*/*")]
    if node:
        pairs += [("Impersonate-User", node), ("Impersonate-Group", "system:nodes")]
    headers = Headers(pairs)
    path, _, query = target.partition("?")
    answer = api.answer(Request(method, target, path, query, headers, body, Peer("127.0.0.1", 1)))
    if not isinstance(answer, Response | LongResponse):
        with contextlib.suppress(StatusError):
            answer = await answer  # type: ignore[misc]
    if isinstance(answer, LongResponse):
        for _ in answer.pieces:
            await tasks.sleep(timedelta(0))
