"""Answers that are lost after the server has done what was asked: told, repeated, or neither, but never done twice."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from mainstay.api.kind_names import CONFIG_MAPS, LEASES, PODS
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, Conflict, Fenced, NotFound, Throttled, Unavailable
from mainstay.client.limits import ClientLimits
from mainstay.env import tasks
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from tests.client.world import GATE_PORT, Gate, a_client, a_gate, a_scripted_server, a_world, an_answer, seconds
from tests.server.world import a_configmap, a_server
from tests.twins import client as twins

GATE = f"gate:{GATE_PORT}"
NAMELESS = {"metadata": {"generateName": "c-"}}


@asynccontextmanager
async def a_gated_client(sim: Simulation) -> AsyncIterator[tuple[Client, Gate]]:
    async with a_server(sim), a_gate(sim) as gate, a_client(sim, GATE) as client:
        yield client, gate


async def count(client: Client) -> int:
    return len((await client.list(CONFIG_MAPS, "default")).items)


# What is not safe.


async def made_when_the_answer_is_lost(sim: Simulation, **write: Any) -> tuple[Exception | None, int]:
    """Create something without a name of its own, and lose the answer. The error, and how many there are."""
    async with a_gated_client(sim) as (client, gate):
        error: Exception | None = None
        gate.answers_to_lose = 1
        try:
            await client.create(CONFIG_MAPS, NAMELESS, "default", write=WriteOptions(**write))
        except Unavailable as lost:
            error = lost
        return error, await count(client)


async def test_an_unsafe_write_whose_answer_is_lost_is_told_and_not_done_twice(sim):
    error, made = await made_when_the_answer_is_lost(sim)

    assert isinstance(error, Unavailable)
    assert error.may_have_happened
    assert made == 1


async def test_a_client_that_repeats_anything_would_be_noticed(sim, monkeypatch):
    twins.repeats_whatever_got_no_answer(monkeypatch)

    assert await made_when_the_answer_is_lost(sim) == (None, 2)


async def test_a_patch_without_a_version_is_not_repeated(sim):
    async with a_gated_client(sim) as (client, gate):
        await client.create(CONFIG_MAPS, a_configmap("one"), "default")
        gate.answers_to_lose = 1

        with pytest.raises(Unavailable) as lost:
            await client.patch(CONFIG_MAPS, "one", "default", {"data": {"k": "v"}})

        assert lost.value.may_have_happened
        assert gate.count(b"PATCH") == 1
        assert (await client.get(CONFIG_MAPS, "one", "default"))["data"] == {"k": "v"}


@pytest.mark.parametrize("verb", ["replace", "delete", "apply"])
async def test_other_unsafe_writes_are_sent_once(sim, verb):
    async with a_gated_client(sim) as (client, gate):
        made = await client.create(CONFIG_MAPS, a_configmap("one"), "default")
        unversioned = {"metadata": {"name": "one", "namespace": "default"}, "data": {"k": "v"}}
        before = len(gate.requests)
        gate.answers_to_lose = 1

        calls = {
            "replace": lambda: client.replace(CONFIG_MAPS, unversioned),
            "delete": lambda: client.delete(CONFIG_MAPS, "one", "default"),
            "apply": lambda: client.apply(CONFIG_MAPS, unversioned, manager="me"),
        }
        with pytest.raises(Unavailable) as lost:
            await calls[verb]()

        assert lost.value.may_have_happened
        assert len(gate.requests) == before + 1
        assert made["metadata"]["uid"]


# What is safe.


async def test_a_read_is_repeated(sim):
    async with a_gated_client(sim) as (client, gate):
        await client.create(CONFIG_MAPS, a_configmap("one"), "default")
        gate.answers_to_lose = 3

        assert (await client.get(CONFIG_MAPS, "one", "default"))["kind"] == "ConfigMap"
        assert client.counts.repeats == 3


async def test_a_read_is_not_repeated_for_ever(sim):
    async with a_gated_client(sim) as (client, gate):
        await client.list(PODS)
        gate.answers_to_lose = 1000

        with pytest.raises(Unavailable) as lost:
            await client.list(PODS)

        assert not lost.value.may_have_happened
        assert gate.count(b"GET") == 1 + 5


async def test_a_conditional_replacement_is_repeated_and_conflicts_with_itself(sim):
    async with a_gated_client(sim) as (client, gate):
        made = await client.create(CONFIG_MAPS, a_configmap("one", k="1"), "default")
        gate.answers_to_lose = 1

        with pytest.raises(Conflict) as refused:
            await client.replace(CONFIG_MAPS, {**made, "data": {"k": "2"}})

        assert refused.value.may_have_happened  # And so it is: a client that reads again finds its own write.
        assert gate.count(b"PUT") == 2
        assert (await client.get(CONFIG_MAPS, "one", "default"))["data"] == {"k": "2"}


async def test_a_deletion_by_uid_is_repeated_and_finds_it_gone(sim):
    async with a_gated_client(sim) as (client, gate):
        made = await client.create(CONFIG_MAPS, a_configmap("one"), "default")
        gate.answers_to_lose = 1

        with pytest.raises(NotFound) as done:
            await client.delete(CONFIG_MAPS, "one", "default", uid=made["metadata"]["uid"])

        assert done.value.may_have_happened


async def test_a_write_with_an_operation_id_is_repeated_and_done_once(sim):
    async with a_gated_client(sim) as (client, gate):
        gate.answers_to_lose = 1

        made = await client.create(CONFIG_MAPS, NAMELESS, "default", write=WriteOptions(operation="op-1"))

        assert (gate.count(b"POST"), await count(client)) == (2, 1)
        assert await client.get(CONFIG_MAPS, made["metadata"]["name"], "default") == made


async def made_by_a_server_that_knows_no_operations(sim: Simulation) -> int:
    """How often a server that ignores operation ids, as Kubernetes does, is made to create something."""
    created = 0

    def answer(data: bytes, transport: asyncio.Transport) -> None:
        nonlocal created
        if data.startswith(b"GET /version"):
            transport.write(an_answer("200 OK", b'{"major":"1","minor":"33","gitCommit":"4e3d2c1"}'))
            return
        created += 1
        if created == 1:
            transport.abort()
        else:
            transport.write(an_answer("201 Created", b'{"metadata":{"name":"c-2"}}'))

    async with a_scripted_server(sim, answer), a_client(sim) as client:
        with contextlib.suppress(Unavailable):
            await client.create(CONFIG_MAPS, NAMELESS, "default", write=WriteOptions(operation="op-1"))
        return created


async def test_a_server_that_does_not_know_operation_ids_is_not_trusted_with_a_repeat(sim):
    assert await made_by_a_server_that_knows_no_operations(sim) == 1


async def test_a_client_that_takes_all_servers_for_ours_would_be_noticed(sim, monkeypatch):
    twins.takes_every_server_for_one_that_knows_operations(monkeypatch)

    assert await made_by_a_server_that_knows_no_operations(sim) == 2


async def test_a_deposed_leader_is_fenced(sim):
    async with a_world(sim) as world:
        lease = {"metadata": {"name": "l", "namespace": "default"}, "spec": {"holderIdentity": "a"}}
        held = await world.client.create(LEASES, lease)
        term = f"default/l={held['metadata']['resourceVersion']}"
        await world.client.create(CONFIG_MAPS, a_configmap("one"), "default", write=WriteOptions(term=term))
        await world.client.replace(LEASES, {**held, "spec": {"holderIdentity": "b"}})

        with pytest.raises(Fenced) as refused:
            await world.client.create(CONFIG_MAPS, a_configmap("two"), "default", write=WriteOptions(term=term))

        assert not refused.value.may_have_happened


# What may have happened, over several attempts.


async def told_after_a_loss_and_a_dead_server(sim: Simulation) -> bool:
    """The first attempt is done and its answer lost; then no server can be reached. What the client says."""
    async with a_server(sim), a_gate(sim) as gate, a_client(sim, GATE) as client:
        made = await client.create(CONFIG_MAPS, a_configmap("one", k="1"), "default")
        gate.answers_to_lose = 1
        replacing = asyncio.gather(client.replace(CONFIG_MAPS, {**made, "data": {"k": "2"}}), return_exceptions=True)
        await tasks.sleep(timedelta(milliseconds=20))
        sim.network.vanish("gate")
        (error,) = await replacing
        assert isinstance(error, Unavailable)
        assert "no connection" in str(error)
        return error.may_have_happened


async def test_that_it_may_have_happened_is_not_forgotten_over_later_attempts(sim):
    assert await told_after_a_loss_and_a_dead_server(sim)


async def test_a_client_that_forgets_it_would_be_noticed(sim, monkeypatch):
    twins.forgets_that_an_earlier_attempt_may_have_happened(monkeypatch)

    assert not await told_after_a_loss_and_a_dead_server(sim)


async def kind_read_after_a_cancelled_request(sim: Simulation) -> str:
    """What is read over a connection on which an earlier request was given up."""
    async with a_world(sim) as world:
        await world.client.create(CONFIG_MAPS, a_configmap("one"), "default")
        sim.network.set_latency("client", "server", seconds(1))
        with pytest.raises(TimeoutError):
            async with tasks.timeout(seconds(0.5)):
                await world.client.request("GET", "/version")
        answer = await world.client.request("GET", "/api/v1/namespaces/default/configmaps/one")
        return "ConfigMap" if b"ConfigMap" in answer.body else "something else"


async def test_a_request_that_was_given_up_leaves_nothing_behind(sim):
    assert await kind_read_after_a_cancelled_request(sim) == "ConfigMap"


async def test_a_client_that_gives_an_answer_to_the_wrong_request_would_be_noticed(sim, monkeypatch):
    twins.keeps_the_connection_of_a_cancelled_request(monkeypatch)

    assert await kind_read_after_a_cancelled_request(sim) == "something else"


# What was refused before it began.


def refusing(times: int, status: str, *headers: str, body: bytes = b"{}") -> Any:
    """A server that refuses so many requests and then answers. Tells when they came."""
    came: list[bytes] = []

    def answer(data: bytes, transport: asyncio.Transport) -> None:
        came.append(data)
        is_refused = len(came) <= times
        transport.write(an_answer(status, body, *headers) if is_refused else an_answer("200 OK", b'{"kind":"Pod"}'))

    return answer, came


UNAVAILABLE = b'{"kind":"Status","reason":"ServiceUnavailable","code":503}'


@pytest.mark.parametrize(("status", "body"), [("429 Too Many Requests", b"{}"), ("503 No", UNAVAILABLE)])
async def test_retry_after_is_honoured(sim, status, body):
    answer, came = refusing(2, status, "Retry-After: 7", body=body)
    async with a_scripted_server(sim, answer), a_client(sim) as client:
        began_ns = sim.clock.monotonic_ns()
        await client.create(PODS, {"metadata": {"name": "one"}}, "default")

        assert len(came) == 3
        assert 14 <= (sim.clock.monotonic_ns() - began_ns) / 1e9 < 15


async def test_a_retry_after_beyond_the_deadline_is_an_error(sim):
    answer, came = refusing(9, "429 Too Many Requests", "Retry-After: 600")
    async with a_scripted_server(sim, answer), a_client(sim) as client:
        with pytest.raises(Throttled) as refused:
            await client.list(PODS)

        assert (refused.value.retry_after, len(came)) == (timedelta(seconds=600), 1)


async def test_a_server_that_cannot_is_asked_again_only_for_what_is_safe(sim):
    answer, came = refusing(2, "500 Internal Server Error")
    async with a_scripted_server(sim, answer), a_client(sim) as client:
        with pytest.raises(Unavailable) as failed:
            await client.create(PODS, {"metadata": {"name": "one"}}, "default")
        assert failed.value.may_have_happened
        assert len(came) == 1

        assert await client.get(PODS, "one", "default") == {"kind": "Pod"}
        assert len(came) == 3


async def test_a_refusal_that_is_an_answer_is_not_asked_for_again(sim):
    async with a_world(sim) as world:
        await world.client.create(CONFIG_MAPS, a_configmap("one"), "default")
        with pytest.raises(AlreadyExists):
            await world.client.create(CONFIG_MAPS, a_configmap("one"), "default", write=WriteOptions(operation="x"))

        assert world.client.counts.repeats == 0


# Several servers.


async def test_when_one_server_is_gone_the_next_one_is_asked_at_once(sim):
    store = await open_memory()
    limits = ClientLimits(connect_within=seconds(1))
    async with (
        a_server(sim, "one", store),
        a_server(sim, "two", store),
        a_client(sim, "one", "two", limits=limits) as client,
    ):
        for turn in range(4):
            await client.create(CONFIG_MAPS, NAMELESS, "default")
            gone, other = ("one", "two") if turn % 2 else ("two", "one")
            sim.network.cut("client", gone)
            sim.network.reset("client", gone)
            sim.network.heal("client", other)
            await tasks.sleep(seconds(2))
            assert await count(client) == turn + 1


async def test_clients_do_not_all_begin_with_the_same_server(sim):
    store = await open_memory()
    async with a_server(sim, "one", store), a_server(sim, "two", store):
        used = []
        for number in range(20):
            async with a_client(sim, "one", "two", name=f"client-{number}") as client:
                await client.list(PODS)
                used += [state.address for state in client.servers() if state.connections]

        assert sorted(set(used)) == ["http://one:6443", "http://two:6443"]


async def sent_while_the_server_is_dead(sim: Simulation) -> int:
    with sim.network.host("client").active():
        async with a_client(sim) as client:
            for _ in range(50):
                with pytest.raises(Unavailable):
                    await client.list(PODS)
            return client.counts.unsent


async def test_a_dead_server_is_not_hammered(sim):
    assert await sent_while_the_server_is_dead(sim) < 20


async def test_a_client_without_a_breaker_would_be_noticed(sim, monkeypatch):
    twins.never_leaves_a_server_alone(monkeypatch)

    assert await sent_while_the_server_is_dead(sim) == 250
