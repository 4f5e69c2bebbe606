"""The server asks agents, in virtual time: what it passes on, what it says without an answer, who waits for whom."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import aiohttp
import pytest

from mainstay.agent.serve.server import AgentServing
from mainstay.api.errors import StatusError
from mainstay.http.messages import Request, Response
from mainstay.http.outgoing import Exchange, WrongCertificate
from mainstay.http.server import HttpServer
from mainstay.server.node_proxy.agents import AgentAddress, Connector, find_address
from tests.agent.fake_runner import FakeRunner
from tests.server.world import PODS, Client, a_pod, a_server

PORT = 10250
NODES = "/api/v1/nodes"
USAGE = "/apis/metrics.k8s.io/v1beta1"
ADMIN = {"Authorization": "Bearer admintoken"}


def a_node(name: str = "node-1", host: str = "node-1", port: int = PORT) -> dict[str, Any]:
    status = {
        "addresses": [{"type": "Hostname", "address": "elsewhere"}, {"type": "InternalIP", "address": host}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    return {"metadata": {"name": name}, "status": status}


class Machine:
    """A node whose agent only serves."""

    def __init__(self, serving: AgentServing, runner: FakeRunner, client: Client) -> None:
        self.serving = serving
        self.runner = runner
        self.client = client
        self.pods: dict[tuple[str, str], Any] = {}

    def find(self, namespace: str, name: str) -> Any:
        return self.pods.get((namespace, name))

    async def add_pod(self, name: str, **spec: Any) -> str:
        pod = await self.client.create(PODS, a_pod(name, nodeName="node-1", **spec))
        self.pods["default", name] = pod
        uid: str = pod["metadata"]["uid"]
        return uid


@asynccontextmanager
async def a_machine(sim) -> AsyncIterator[Machine]:
    """A server, a node with an agent, and a client of the server."""
    async with a_server(sim) as client:
        await client.create(NODES, a_node())
        with sim.network.host("node-1").active():
            serving = await AgentServing.start(sim.env("node-1"), "0.0.0.0", PORT)
            runner = FakeRunner()
            machine = Machine(serving, runner, client)
            serving.serve("node-1", machine, runner)
        yield machine
        with sim.network.host("node-1").active():
            await serving.stop()


@asynccontextmanager
async def exec_in(machine: Machine, pod: str, *command: str, protocol: str = "v5.channel.k8s.io", **options: str):
    query = [("command", word) for word in command] + list({"stdout": "1", "stderr": "1", **options}.items())
    async with machine.client.session.ws_connect(
        f"{machine.client.base}{PODS}/{pod}/exec", params=query, protocols=(protocol,), headers=ADMIN
    ) as socket:
        assert socket.protocol == protocol
        assert await socket.receive_bytes() == b"\x01"
        yield socket


async def test_the_agent_of_a_node_is_where_the_node_says():
    assert find_address(a_node()) == AgentAddress("node-1", "node-1", PORT, "")
    with pytest.raises(StatusError, match="has no agent address"):
        find_address({"metadata": {"name": "node-1"}})


@pytest.mark.parametrize("port", [-1, 65536])
def test_an_agent_is_at_no_port_that_does_not_exist(port):
    with pytest.raises(StatusError, match="must be between 1 and 65535"):
        find_address(a_node(port=port))


@pytest.mark.parametrize("host", ["169.254.169.254", "0.0.0.0", "224.0.0.1"])
async def test_the_server_connects_to_no_address_of_cloud_metadata(sim, host):
    with pytest.raises(StatusError, match=r"has no usable agent address: .* may not be") as refused:
        await Connector().ask(AgentAddress("node-1", host, PORT, ""), ["usage"])
    assert refused.value.code == 503


async def test_a_name_does_not_hide_an_address_that_is_refused(sim, monkeypatch):
    async def resolve(host: str, port: int) -> list[str]:
        return {"metadata.internal": ["169.254.169.254"]}[host]

    monkeypatch.setattr("mainstay.env.network.resolve", resolve)
    with pytest.raises(StatusError, match=r"169\.254\.169\.254 may not be in the link-local range"):
        await Connector().ask(AgentAddress("node-1", "metadata.internal", PORT, ""), ["usage"])


@pytest.mark.parametrize("host", ["x..y", f"{'a' * 64}.example"])
def test_an_agent_at_a_name_that_cannot_be_one_is_unavailable(host):
    async def program() -> None:
        with pytest.raises(StatusError, match="not a host name") as refused:
            await Connector(is_plain_allowed=True).ask(AgentAddress("node-1", host, PORT, ""), ["usage"])
        assert refused.value.code == 503

    asyncio.run(program())  # The names of a simulation are not encoded.


async def test_a_client_does_not_learn_who_was_found_at_an_address(sim, monkeypatch):
    for failure in (WrongCertificate("sha256:of-the-other"), ssl.SSLError(1, "[SSL] banner of the other")):

        async def connect(*args: Any, failure: Exception = failure, **options: Any) -> Exchange:
            raise failure

        monkeypatch.setattr("mainstay.server.node_proxy.agents.connect", connect)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        with pytest.raises(StatusError) as refused:
            await Connector(tls).ask(AgentAddress("node-1", "10.0.0.7", PORT, "sha256:00"), ["usage"])
        assert "other" not in refused.value.message.replace("another", "")


async def test_a_log_is_passed_on(sim):
    async with a_machine(sim) as machine:
        container = machine.runner.begin(await machine.add_pod("web"))
        machine.runner.say(container, "hello\n")

        answer = await machine.client.ask("GET", f"{PODS}/web/log")

        assert (answer.status, answer.body, answer.headers["Content-Type"]) == (200, "hello\n", "text/plain")


async def test_a_follower_who_does_not_read_makes_the_runner_wait(sim):
    async with a_machine(sim) as machine:
        container = machine.runner.begin(await machine.add_pod("web"))
        for _ in range(20_000):
            machine.runner.say(container, "x" * 999 + "\n")

        url = f"{machine.client.base}{PODS}/web/log?follow=true"
        async with machine.client.session.get(url, headers=ADMIN) as response:
            assert (await response.content.readline())[:1] == b"x"
            await asyncio.sleep(30)
            waited_at = machine.runner.lines_read
            assert waited_at < 10_000
            await asyncio.sleep(30)
            assert machine.runner.lines_read == waited_at
            for _ in range(19_999):
                await response.content.readline()
            assert machine.runner.lines_read == 20_000
            assert machine.runner.readers == 1
        await asyncio.sleep(1)
        assert machine.runner.readers == 0


async def test_a_log_that_breaks_off_on_the_way_breaks_off_for_the_client(sim):
    async with a_machine(sim) as machine:
        container = machine.runner.begin(await machine.add_pod("web"))
        machine.runner.say(container, "hello\n")
        url = f"{machine.client.base}{PODS}/web/log?follow=true"
        async with machine.client.session.get(url, headers=ADMIN) as response:
            assert await response.content.readline() == b"hello\n"
            assert machine.serving._http is not None
            for connection in list(machine.serving._http._service.connections):
                connection.cut_off()
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.content.read()


async def test_input_that_has_ended_does_not_end_the_output(sim):
    async with a_machine(sim) as machine:
        machine.runner.begin(await machine.add_pod("web"))
        async with exec_in(machine, "web", "cat", stdin="1") as socket:
            await socket.send_bytes(b"\x00one")
            assert await socket.receive_bytes() == b"\x01one"
            await socket.send_bytes(b"\x00two")
            await socket.send_bytes(b"\xff\x00")
            assert await socket.receive_bytes() == b"\x01two"
            ended = await socket.receive_bytes()
            assert (ended[:1], json.loads(ended[1:])) == (b"\x03", {"metadata": {}, "status": "Success"})
            assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
            assert socket.close_code == 1000


async def test_a_failure_is_told_with_its_exit_code(sim):
    async with a_machine(sim) as machine:
        machine.runner.begin(await machine.add_pod("web"))
        async with exec_in(machine, "web", "fail", "3", protocol="v4.channel.k8s.io") as socket:
            assert await socket.receive_bytes() == b"\x02it is no use\n"
            status = json.loads((await socket.receive_bytes())[1:])
            assert status["reason"] == "NonZeroExitCode"
            assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


async def test_a_terminal_is_told_its_size(sim):
    async with a_machine(sim) as machine:
        machine.runner.begin(await machine.add_pod("web"))
        async with exec_in(machine, "web", "size", tty="1", stdin="1") as socket:
            await socket.send_bytes(b'\x04{"Width":"nonsense"}')
            await socket.send_bytes(b'\x04{"Width":132,"Height":40}')
            assert await socket.receive_bytes() == b"\x01132 40\n"


async def test_a_command_whose_output_is_not_read_waits_and_dies_with_its_client(sim):
    async with a_machine(sim) as machine:
        machine.runner.begin(await machine.add_pod("web"))
        async with exec_in(machine, "web", "yes") as socket:
            assert (await socket.receive_bytes())[:2] == b"\x01y"
            await asyncio.sleep(30)
            written = machine.runner.sessions[0].written
            assert written < 10_000_000
            await asyncio.sleep(30)
            assert machine.runner.sessions[0].written == written
        await asyncio.sleep(30)
        assert machine.runner.sessions[0].is_killed


async def test_input_that_is_not_taken_waits_and_the_client_is_missed_all_the_same(sim):
    async with a_machine(sim) as machine:
        machine.runner.begin(await machine.add_pod("web"))
        async with exec_in(machine, "web", "sleep", "100000", stdin="1") as socket:
            sending = asyncio.create_task(_send_without_end(socket))
            await asyncio.sleep(10)
            assert not sending.done()
            sending.cancel()
            # As a client does that was killed: nothing is said, not even on a connection that is not read.
            socket._response.connection.transport.abort()
        await asyncio.sleep(30)
        assert machine.runner.sessions[0].is_killed


async def _send_without_end(socket: aiohttp.ClientWebSocketResponse) -> None:
    while True:
        await socket.send_bytes(b"\x00" + bytes(100_000))


async def test_when_the_agent_goes_down_commands_end_and_their_clients_hear_of_it(sim):
    async with a_machine(sim) as machine:
        machine.runner.begin(await machine.add_pod("web"))
        async with exec_in(machine, "web", "sleep", "100000") as socket:
            await machine.serving.stop()
            message = await socket.receive()
            assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1001)
        assert machine.runner.sessions[0].is_killed


async def test_an_agent_that_does_not_answer_is_given_up(sim):
    async with a_server(sim) as client:
        await client.create(NODES, a_node(host="silent"))
        await client.create(PODS, a_pod("web", nodeName="node-1"))
        with sim.network.host("silent").active():

            async def never(request: Request) -> Response:
                await asyncio.sleep(1_000_000)
                raise AssertionError

            http = await HttpServer.start(never, "0.0.0.0", PORT)
        answer = await client.ask("GET", f"{PODS}/web/log")
        assert (answer.status, answer.body["reason"]) == (503, "ServiceUnavailable")
        assert answer.body["message"] == (
            'the agent of node "node-1" at http://silent:10250 gives no answer: no answer within 10 s'
        )
        await http.drain(timedelta(0))


async def test_a_node_that_says_nothing_of_its_agent(sim):
    async with a_server(sim) as client:
        await client.create(NODES, {"metadata": {"name": "node-1"}})
        await client.create(PODS, a_pod("web", nodeName="node-1"))

        answer = await client.ask("GET", f"{PODS}/web/log")

        assert answer.status == 503
        assert "has no agent address" in answer.body["message"]


async def test_where_there_is_tls_an_agent_without_is_not_asked(sim):
    connector = Connector(None, is_plain_allowed=False)
    with pytest.raises(StatusError, match="has no certificate of its agent"):
        await connector.ask(AgentAddress("node-1", "node-1", PORT, ""), ["usage"])


async def test_a_server_without_a_certificate_does_not_ask_agents_that_want_one(sim):
    with pytest.raises(StatusError, match="requires a client certificate"):
        await Connector().ask(AgentAddress("node-1", "node-1", PORT, "sha256:00"), ["usage"])


async def test_what_is_not_served_says_so(sim):
    async with a_machine(sim) as machine:
        machine.runner.begin(await machine.add_pod("web"))

        proxied = await machine.client.ask("GET", f"{PODS}/web/proxy")
        plain = await machine.client.ask("POST", f"{PODS}/web/exec?command=ls&stdout=1")

        assert proxied.status == 501
        assert (plain.status, plain.body["message"]) == (
            400,
            "SPDY is not supported, only WebSocket (v5.channel.k8s.io, v4.channel.k8s.io)",
        )


async def test_a_name_with_odd_characters_is_passed_on_as_it_is(sim):
    async with a_machine(sim) as machine:
        machine.runner.begin(await machine.add_pod("web"))
        async with exec_in(machine, "web", "echo", "a b&c=d/é?", "%2F") as socket:
            assert await socket.receive_bytes() == "\x01a b&c=d/é? %2F\n".encode()


async def test_usage_is_asked_for_once_in_a_while(sim):
    async with a_machine(sim) as machine:
        machine.runner.begin(await machine.add_pod("web"))

        nodes = await machine.client.get(f"{USAGE}/nodes")
        assert [(each["metadata"]["name"], each["usage"]) for each in nodes["items"]] == [
            ("node-1", {"cpu": "250000000n", "memory": "524288Ki"})
        ]
        assert nodes["kind"] == "NodeMetricsList"
        machine.runner.begin(machine.pods["default", "web"]["metadata"]["uid"], "second")
        pods = await machine.client.get(f"{USAGE}/namespaces/default/pods")
        assert [len(each["containers"]) for each in pods["items"]] == [1]
        await asyncio.sleep(10)
        pods = await machine.client.get(f"{USAGE}/pods?labelSelector=!x&fieldSelector=metadata.name=web")
        assert [len(each["containers"]) for each in pods["items"]] == [2]
        assert (await machine.client.get(f"{USAGE}/namespaces/other/pods"))["items"] == []


async def test_one_agent_that_does_not_answer_does_not_hide_the_others(sim):
    async with a_machine(sim) as machine:
        await machine.client.create(NODES, a_node("node-2", host="nowhere"))

        began = asyncio.get_running_loop().time()
        nodes = await machine.client.get(f"{USAGE}/nodes")

        assert [each["metadata"]["name"] for each in nodes["items"]] == ["node-1"]
        assert asyncio.get_running_loop().time() - began <= 2.5
        assert (await machine.client.ask("GET", f"{USAGE}/nodes/node-2")).status == 404


def _say(text: str, request: Request) -> Response:
    return Response(200, text.encode())


async def test_metrics_that_pods_serve_are_asked_of_their_agents(sim):
    async with a_machine(sim) as machine:
        annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"}
        for name, length in (("web-1", 3), ("web-2", 0.5), ("other", 7)):
            await machine.add_pod(name)
            body = {"metadata": {"labels": {"app": name.partition("-")[0]}, "annotations": annotations}}
            await machine.client.patch(f"{PODS}/{name}", body)
            pod = await machine.client.get(f"{PODS}/{name}")
            machine.pods["default", name] = pod | {"status": {"podIP": f"address-of-{name}"}}
            text = f'queue_length{{queue="a"}} {length}\nqueue_length{{queue="b"}} 1\n'
            with sim.network.host(f"address-of-{name}").active():
                await HttpServer.start(partial(_say, text), "0.0.0.0", 8080)

        group = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/pods"
        both = await machine.client.get(f"{group}/*/queue_length?labelSelector=app%3Dweb")
        one = await machine.client.get(f"{group}/web-2/queue_length?metricLabelSelector=queue%3Da")
        none = await machine.client.ask("GET", f"{group}/*/no_such_metric")

        values = [(each["describedObject"]["name"], each["value"]) for each in both["items"]]
        assert (both["kind"], values) == ("MetricValueList", [("web-1", "4"), ("web-2", "1500m")])
        assert [each["value"] for each in one["items"]] == ["500m"]
        assert (none.status, none.body["message"]) == (
            404,
            "the server could not find the metric no_such_metric for pods",
        )
        assert (await machine.client.ask("GET", f"{group}/*")).status in (404, 405)
