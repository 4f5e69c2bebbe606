"""Connections: kept, limited, closed; and answers in all their forms, also those that make no sense."""

import asyncio

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mainstay.api.kind_names import CONFIG_MAPS, PODS
from mainstay.client.client import Client, ListPage
from mainstay.client.connection import ServerResponse
from mainstay.client.errors import ApiError, BadRequest, Unavailable
from mainstay.client.limits import ClientLimits
from mainstay.env import network, tasks
from tests.client.world import GATE_PORT, a_client, a_gate, a_scripted_server, a_world, an_answer, seconds
from tests.server.world import PORT, a_configmap

GATE = f"gate:{GATE_PORT}"
OBJECT = {"kind": "Pod", "metadata": {"name": "one"}}
BODY = msgspec.json.encode(OBJECT)


def opened(client: Client) -> int:
    return client.servers()[0].connections_opened


def connections(client: Client) -> int:
    return client.servers()[0].connections


# Keeping them.


async def test_requests_one_after_the_other_share_a_connection(sim):
    async with a_world(sim) as world:
        for _ in range(20):
            await world.client.list(PODS)

        assert opened(world.client) == 1


async def test_requests_at_once_have_one_each_up_to_the_limit_and_all_are_answered(sim):
    async with a_world(sim, limits=ClientLimits(connections=4)) as world:
        names = [f"c{number}" for number in range(50)]
        await asyncio.gather(*(world.client.create(CONFIG_MAPS, a_configmap(name), "default") for name in names))

        assert len((await world.client.list(CONFIG_MAPS, "default")).items) == 50
        assert opened(world.client) == 4


async def test_too_many_who_wait_are_refused(sim):
    async with a_world(sim, limits=ClientLimits(connections=1, waiting=2)) as world:
        answers = await asyncio.gather(*(world.client.list(PODS) for _ in range(6)), return_exceptions=True)

        # They try again, and some of them are lucky then; none is lost.
        assert all(isinstance(each, Unavailable | ListPage) for each in answers)
        assert world.client.counts.unsent > 0


async def test_a_cancelled_waiter_leaves_its_turn_to_others(sim):
    async with a_world(sim, limits=ClientLimits(connections=1)) as world, a_gate(sim) as gate:
        async with a_client(sim, GATE, limits=ClientLimits(connections=1)) as client:
            gate.holds_answers = True
            waiting = [tasks.spawn(client.list(PODS), name=f"list {number}") for number in range(5)]
            await tasks.sleep(seconds(1))
            for task in waiting[:3]:
                await tasks.stop(task)
            gate.holds_answers = False

            # The first of them held the connection, which cannot be used any more; another one is made.
            assert [(await task).items for task in waiting[3:]] == [[], []]
            assert connections(client) == 1
        assert world.client.counts.requests == 0


async def test_a_connection_that_is_not_used_is_closed_and_the_next_request_opens_one(sim):
    async with a_world(sim, limits=ClientLimits(idle_within=seconds(10))) as world:
        await world.client.list(PODS)
        await tasks.sleep(seconds(9))
        await world.client.list(PODS)
        assert (opened(world.client), connections(world.client)) == (1, 1)
        await tasks.sleep(seconds(21))
        assert connections(world.client) == 0

        await world.client.list(PODS)
        assert opened(world.client) == 2


async def test_a_server_that_closes_idle_connections_is_no_error(sim):
    async with a_world(sim), a_gate(sim) as gate, a_client(sim, GATE) as client:
        for _ in range(3):
            await client.create(CONFIG_MAPS, {"metadata": {"generateName": "c-"}}, "default")
            gate.close_all()
            await tasks.sleep(seconds(1))

        assert (client.counts.repeats, client.counts.unanswered, gate.accepted) == (0, 0, 3)


async def test_a_server_that_closes_while_a_safe_request_is_on_its_way_is_no_error_either(sim):
    async with a_world(sim), a_gate(sim) as gate, a_client(sim, GATE) as client:
        sim.network.set_latency("client", "gate", seconds(0.05))
        await client.list(PODS)
        gate.close_all()  # It will be noticed in 50 ms; the next request is sent before.

        assert (await client.list(PODS)).items == []
        assert (client.counts.repeats, gate.accepted) == (1, 2)


async def test_the_same_with_an_unsafe_one_is_told_and_not_repeated(sim):
    async with a_world(sim), a_gate(sim) as gate, a_client(sim, GATE) as client:
        sim.network.set_latency("client", "gate", seconds(0.05))
        await client.list(PODS)
        gate.close_all()

        with pytest.raises(Unavailable) as lost:
            await client.create(CONFIG_MAPS, a_configmap("one"), "default")

        assert lost.value.may_have_happened
        assert client.counts.repeats == 0


async def test_a_connection_whose_last_answer_says_so_is_not_used_again(sim):
    answer = an_answer("200 OK", BODY, "Connection: close")
    async with a_scripted_server(sim, lambda _, transport: transport.write(answer)), a_client(sim) as client:
        for _ in range(3):
            await client.get(PODS, "one", "default")

        assert opened(client) == 3


async def test_a_cancelled_request_does_not_leave_its_answer_to_the_next_one(sim):
    async with a_world(sim) as world:
        await world.client.create(CONFIG_MAPS, a_configmap("one"), "default")
        sim.network.set_latency("client", "server", seconds(1))
        with pytest.raises(TimeoutError):
            async with tasks.timeout(seconds(0.5)):
                await world.client.list(PODS)

        assert (await world.client.get(CONFIG_MAPS, "one", "default"))["kind"] == "ConfigMap"


async def test_a_closed_client_sends_no_requests(sim):
    async with a_world(sim), a_gate(sim) as gate:
        client = a_client(sim, GATE)
        await client.list(PODS)
        gate.holds_answers = True
        waiting = asyncio.gather(client.list(PODS))
        await tasks.sleep(seconds(1))
        await client.close()

        for call in (waiting, client.list(PODS)):
            with pytest.raises(Unavailable):
                await call
        assert connections(client) == 0


async def test_an_idle_client_comes_to_rest(sim):
    async with a_world(sim) as world:
        await world.client.list(PODS)
        await tasks.sleep(seconds(3600))
        before = len(sim.loop.tasks())
        await tasks.sleep(seconds(3600))

        assert (connections(world.client), len(sim.loop.tasks())) == (0, before)


async def test_a_server_that_hangs_up_at_once_is_told_and_nothing_is_left_of_it(sim):
    class HangsUp(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transport.close()

    with sim.network.host("server").active():
        server = await network.listen(HangsUp, "0.0.0.0", PORT)
    with sim.network.host("client").active():
        async with a_client(sim) as client:
            with pytest.raises(Unavailable):
                await client.list(PODS)
            await tasks.sleep(seconds(1))
            assert connections(client) == 0
    server.close()


async def test_when_one_connection_has_broken_the_others_are_not_tried_one_by_one(sim):
    async with a_world(sim), a_gate(sim) as gate, a_client(sim, GATE) as client:
        await asyncio.gather(*(client.list(PODS) for _ in range(10)))
        sim.network.set_latency("client", "gate", seconds(0.05))
        gate.close_all()

        assert (await client.list(PODS)).items == []
        assert (client.counts.repeats, gate.accepted) == (1, 11)


# Silence.


async def test_a_silent_server_is_given_up_on(sim):
    async with a_scripted_server(sim, lambda _, transport: None):
        limits = ClientLimits(answer_within=seconds(2), within=seconds(5))
        async with a_client(sim, limits=limits) as client:
            began_ns = sim.clock.monotonic_ns()
            with pytest.raises(Unavailable, match="timed out waiting for an answer") as lost:
                await client.create(PODS, OBJECT, "default")
            assert lost.value.may_have_happened
            assert (sim.clock.monotonic_ns() - began_ns) // 1_000_000_000 == 2

            with pytest.raises(Unavailable, match="timed out waiting for an answer") as lost:
                await client.list(PODS)
            assert not lost.value.may_have_happened
            assert (sim.clock.monotonic_ns() - began_ns) // 1_000_000_000 == 7  # Several attempts, and the deadline.


async def test_a_slow_answer_that_keeps_coming_is_waited_for(sim):
    running: list[asyncio.Task[None]] = []

    async def slowly(transport: asyncio.Transport) -> None:
        for byte in an_answer("200 OK", BODY):
            transport.write(bytes([byte]))
            await tasks.sleep(seconds(0.1))

    def answer(_: bytes, transport: asyncio.Transport) -> None:
        running.append(tasks.spawn(slowly(transport), name="answer"))

    async with a_scripted_server(sim, answer), a_client(sim, limits=ClientLimits(answer_within=seconds(1))) as client:
        assert await client.get(PODS, "one", "default") == OBJECT


async def test_a_network_that_lets_nothing_through_is_noticed_when_connecting(sim):
    async with a_world(sim, limits=ClientLimits(connect_within=seconds(1))) as world:
        sim.network.cut("client", "server")

        with pytest.raises(Unavailable, match="within 1 s") as lost:
            await world.client.create(CONFIG_MAPS, a_configmap("one"), "default")
        assert not lost.value.may_have_happened


# Answers.


async def test_a_large_body_goes_either_way(sim):
    async with a_world(sim) as world:
        big = {f"k{number}": "x" * 1000 for number in range(900)}
        await world.client.create(CONFIG_MAPS, {**a_configmap("big"), "data": big}, "default")

        for _ in range(3):
            assert (await world.client.get(CONFIG_MAPS, "big", "default"))["data"] == big
        assert opened(world.client) == 1


async def test_a_body_that_the_server_does_not_want_is_a_bad_request(sim):
    async with a_world(sim) as world:
        with pytest.raises(BadRequest) as refused:
            await world.client.create(CONFIG_MAPS, a_configmap("big", k="x" * 5_000_000), "default")

        assert refused.value.status == 413
        assert (await world.client.list(PODS)).items == []


def in_chunks(body: bytes, size: int) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


FORMS = {
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + in_chunks(BODY, 7),
    "a length": an_answer("200 OK", BODY),
    "a body until the end": b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + BODY,
    "an interim answer": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n"
    + an_answer("200 OK", BODY),
    "odd headers": an_answer("200 OK", BODY, "X-Empty:", "x-ODD:   \xe4 "),
}


@pytest.mark.parametrize("form", FORMS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(size=st.integers(1, 400))
async def test_an_answer_is_read_in_whatever_pieces_it_comes(sim, form, size):
    whole = FORMS[form]
    running: list[asyncio.Task[None]] = []

    async def send(transport: asyncio.Transport) -> None:
        for at in range(0, len(whole), size):
            transport.write(whole[at : at + size])
            await tasks.sleep(seconds(0.001))
        if "the end" in form:
            transport.close()

    def answer(_: bytes, transport: asyncio.Transport) -> None:
        running.append(tasks.spawn(send(transport), name="answer"))

    async with a_scripted_server(sim, answer), a_client(sim) as client:
        assert await client.get(PODS, "one", "default") == OBJECT
        assert await client.get(PODS, "one", "default") == OBJECT


MALFORMED = {
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n", "invalid HTTP answer"),
    "a wrong length": (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "invalid HTTP answer"),
    "two lengths": (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "invalid HTTP answer"),
    "a wrong chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "invalid HTTP answer"),
    "another protocol": (
        b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        "switched to another protocol without a request",
    ),
    "no JSON": (an_answer("200 OK", b"<html>Sign in</html>"), "cannot parse the answer.*Sign in"),
    "no object": (an_answer("200 OK", b"[1]"), "cannot parse the answer"),
    "broken text": (an_answer("200 OK", b'{"a":"\xff"}'), "cannot parse the answer"),
    "compression": (an_answer("200 OK", b"x", "Content-Encoding: gzip"), "gzip"),
    "an endless head": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000, "head of the answer"),
    "endless headers": (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 60_000, "head of the answer"),
    "an endless body": (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 20_000, "longer than 10000 bytes"),
}


@pytest.mark.parametrize("what", MALFORMED)
async def test_an_answer_that_makes_no_sense_is_told_clearly_and_not_asked_for_again(sim, what):
    sent, words = MALFORMED[what]
    limits = ClientLimits(body_bytes=10_000)
    async with (
        a_scripted_server(sim, lambda _, transport: transport.write(sent)),
        a_client(sim, limits=limits) as client,
    ):
        with pytest.raises(Unavailable, match=words) as odd:
            await client.get(PODS, "one", "default")
        assert not odd.value.may_have_happened
        with pytest.raises(Unavailable, match=words) as odd:
            await client.create(PODS, OBJECT, "default")
        assert odd.value.may_have_happened
        assert client.counts.repeats == 0


@pytest.mark.parametrize("part", [an_answer("200 OK", BODY)[:-1], b"HTTP/1.1 200 OK\r\nContent-", FORMS["chunks"][:-3]])
async def test_an_answer_that_is_cut_short_is_no_answer(sim, part):
    def answer(_: bytes, transport: asyncio.Transport) -> None:
        transport.write(part)
        transport.close()

    async with a_scripted_server(sim, answer), a_client(sim) as client:
        with pytest.raises(Unavailable, match="before its answer was complete") as lost:
            await client.create(PODS, OBJECT, "default")
        assert lost.value.may_have_happened


async def test_what_comes_unasked_is_not_taken_for_the_next_answer(sim):
    wrong = an_answer("200 OK", b'{"kind":"Wrong"}')
    answers = [an_answer("200 OK", BODY) + wrong, an_answer("200 OK", BODY), an_answer("200 OK", BODY)]

    def answer(_: bytes, transport: asyncio.Transport) -> None:
        transport.write(answers.pop(0))
        if len(answers) == 1:
            transport.write(wrong)

    async with a_scripted_server(sim, answer), a_client(sim) as client:
        for _ in range(3):
            assert await client.get(PODS, "one", "default") == OBJECT
            await tasks.sleep(seconds(1))
        assert opened(client) == 3


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(garbage=st.binary(max_size=200), keeps_head=st.booleans(), closes=st.booleans())
async def test_whatever_a_server_says_the_client_neither_breaks_nor_hangs(sim, garbage, keeps_head, closes):
    head = b"HTTP/1.1 200 OK\r\n" if keeps_head else b""

    def answer(_: bytes, transport: asyncio.Transport) -> None:
        transport.write(head + garbage)
        if closes:
            transport.close()

    async with a_scripted_server(sim, answer), a_client(sim, limits=ClientLimits(answer_within=seconds(1))) as client:
        try:
            response = await client.request("POST", "/")
        except ApiError:
            pass
        else:
            assert isinstance(response, ServerResponse)


async def test_what_is_sent_is_what_a_server_expects(sim):
    pieces = []

    def answer(data: bytes, transport: asyncio.Transport) -> None:
        pieces.append(data)
        transport.write(an_answer("200 OK", BODY))

    async with a_scripted_server(sim, answer), a_client(sim, token="t", user_agent="me/1.0") as client:
        await client.get(PODS, "one", "default")
        await client.create(PODS, OBJECT, "a b")
        await client.delete(PODS, "one", "default")
        await client.delete(PODS, "one", "default", uid="u")

    common = b"HTTP/1.1\r\nHost: server:6443\r\nUser-Agent: me/1.0\r\n"
    common += b"Authorization: Bearer t\r\nAccept: application/json\r\n"
    sent = b'{"kind":"Pod","metadata":{"name":"one"},"apiVersion":"v1"}'
    options = b'{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"u"}}'
    json = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    assert pieces == [
        b"GET /api/v1/namespaces/default/pods/one " + common + b"\r\n",
        b"POST /api/v1/namespaces/a%20b/pods " + common + json % len(sent) + sent,
        b"DELETE /api/v1/namespaces/default/pods/one " + common + b"\r\n",
        b"DELETE /api/v1/namespaces/default/pods/one " + common + json % len(options) + options,
    ]
