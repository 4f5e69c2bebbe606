"""Hosts, names and faults of the simulated network."""

import asyncio
import errno
import select
import socket
from datetime import timedelta

import pytest

from mainstay.sim.errors import Unsimulated
from mainstay.sim.net.network import Network
from mainstay.sim.run.choices import Choice, Tape
from mainstay.sim.simulation import Simulation
from tests.sim.network_calls import PORT, Listener, a_connection, connect, failure_of, now_ns

# What a test leaves open goes away with its run: streams need not be closed one by one here.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


# Hosts and names.


async def test_a_host_is_found_by_name_and_by_address(sim):
    server, agent = sim.network.host("server"), sim.network.host("agent")
    listener = await Listener(server).start()
    for name in ("server", "SERVER.", server.address):
        _, writer = await connect(agent, name)
        assert writer.get_extra_info("peername") == (server.address, PORT)
        _, accepted = await listener.accepted.get()
        assert accepted.get_extra_info("peername")[0] == agent.address
    assert server.address.startswith("10.")
    assert server.address != agent.address
    assert sim.network.host("server") is server


async def test_an_unknown_name_cannot_be_resolved(sim):
    with pytest.raises(socket.gaierror) as raised:
        await asyncio.open_connection("nowhere", PORT)
    assert raised.value.errno == socket.EAI_NONAME


async def test_an_address_without_a_host_is_unreachable():
    assert (await failure_of(asyncio.open_connection("10.9.9.9", PORT))).errno == errno.EHOSTUNREACH


async def test_a_port_without_a_listener_refuses_after_a_round_trip(sim):
    error = await failure_of(connect(sim.network.host("agent"), sim.network.host("server").name))
    assert isinstance(error, ConnectionRefusedError)
    assert now_ns() == 2 * 200_000


async def test_the_loopback_of_a_host_is_its_own(sim):
    server, agent = sim.network.host("server"), sim.network.host("agent")
    listener = await Listener(server).start("127.0.0.1")
    assert isinstance(await failure_of(connect(agent, "localhost")), ConnectionRefusedError)
    assert isinstance(await failure_of(connect(agent, "server")), ConnectionRefusedError)
    for name in ("localhost", "127.0.0.1", "::1"):
        await connect(server, name)
        _, writer = await listener.accepted.get()
        assert writer.get_extra_info("peername")[0] == "127.0.0.1"


async def test_two_hosts_can_listen_on_the_same_port(sim):
    first = await Listener(sim.network.host("server-0")).start()
    second = await Listener(sim.network.host("server-1")).start()
    await connect(sim.network.host("agent"), "server-1")
    await second.accepted.get()
    assert first.accepted.empty()


async def test_a_host_can_only_listen_on_its_own_addresses(sim):
    other = sim.network.host("other")
    error = await failure_of(Listener(sim.network.host("server")).start(other.address))
    assert error.errno == errno.EADDRNOTAVAIL


async def test_any_address_is_one_listener_in_whatever_notation():
    server = await asyncio.start_server(lambda *_: None, ["0.0.0.0", "::"], PORT)
    assert len(server.sockets) == 1
    server.close()
    server = await asyncio.start_server(lambda *_: None, "::1", PORT)
    assert server.sockets[0].getsockname() == ("::1", PORT, 0, 0)
    await asyncio.open_connection("localhost", PORT)


async def test_free_ports_are_given_out_in_turn(sim):
    servers = [await asyncio.start_server(lambda *_: None, "localhost", 0) for _ in range(3)]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    assert ports == [ports[0], ports[0] + 1, ports[0] + 2]
    servers[0].close()
    _, writer = await asyncio.open_connection("localhost", ports[1])
    assert writer.get_extra_info("sockname") == ("127.0.0.1", ports[0] + 3)


async def test_what_a_host_starts_stays_on_it(sim):
    server, agent = sim.network.host("server"), sim.network.host("agent")
    where: list[str] = []

    async def look() -> None:
        where.append(sim.network.here().name)
        await asyncio.create_task(look_again())

    async def look_again() -> None:
        where.append(sim.network.here().name)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        where.append(sim.network.here().name)
        await asyncio.create_task(look_again())
        writer.close()

    with server.active():
        await asyncio.start_server(accept, "0.0.0.0", PORT)
    assert sim.network.here().name == "localhost"
    await agent.spawn(look())
    reader, _ = await connect(agent, "server")
    await reader.read()
    assert where == ["agent", "agent", "server", "server"]


async def test_names_and_addresses_are_answered_as_by_the_socket_module(sim):
    loop = asyncio.get_running_loop()
    server = sim.network.host("server")
    info = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (server.address, 80))
    assert await loop.getaddrinfo("server", 80) == [info]
    assert await loop.getaddrinfo(b"server", "http", type=socket.SOCK_STREAM) == [info]
    assert await loop.getaddrinfo(server.address, "80", flags=socket.AI_NUMERICHOST) == [info]
    assert (await loop.getaddrinfo(None, 80))[0][4] == ("127.0.0.1", 80)
    assert (await loop.getaddrinfo(None, 80, flags=socket.AI_PASSIVE))[0][4] == ("0.0.0.0", 80)
    assert (await loop.getaddrinfo("localhost", 80, family=socket.AF_INET6))[0][4] == ("::1", 80, 0, 0)
    assert await loop.getnameinfo((server.address, 80)) == ("server", "80")
    assert await loop.getnameinfo((server.address, 80), socket.NI_NUMERICHOST) == (server.address, "80")
    assert await loop.getnameinfo(("127.0.0.1", 80)) == ("localhost", "80")
    for question in (
        {"host": "server", "port": 80, "flags": socket.AI_NUMERICHOST},
        {"host": "server", "port": 80, "family": socket.AF_INET6},
        {"host": "::1", "port": 80, "family": socket.AF_INET},
        {"host": "server", "port": "gopher"},
        {"host": "server", "port": 80, "type": socket.SOCK_DGRAM},
    ):
        with pytest.raises(socket.gaierror):
            await loop.getaddrinfo(**question)


# Delays.


async def test_a_message_takes_as_long_as_the_way_it_goes(sim):
    async with a_connection(sim.network) as ((reader, writer), (peer_reader, peer_writer)):
        began = now_ns()
        writer.write(b"question")
        await peer_reader.readexactly(8)
        peer_writer.write(b"answer")
        await reader.readexactly(6)
        assert now_ns() - began == 2 * 200_000

        sim.network.set_latency("agent", "server", timedelta(milliseconds=30))
        began = now_ns()
        writer.write(b"question")
        await peer_reader.readexactly(8)
        assert now_ns() - began == 30_000_000


async def test_jitter_is_drawn_and_never_reorders(sim):
    sim.network.set_latency("agent", "server", timedelta(milliseconds=1), jitter=timedelta(milliseconds=70))
    async with a_connection(sim.network) as ((_, writer), (peer_reader, _)):
        message = bytes(range(200))
        for byte in message:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.001)
        assert await peer_reader.readexactly(200) == message
    drawn = [choice.chosen for choice in sim.choices.tape if choice.label == "net/agent>server/latency"]
    assert len(set(drawn)) == 8
    assert not [choice for choice in sim.choices.tape if choice.label == "net/localhost>localhost/latency"]


def test_with_benign_choices_a_jittering_link_is_as_fast_as_any():
    async def main(simulation: Simulation) -> None:
        simulation.network.set_latency("agent", "server", timedelta(milliseconds=1), jitter=timedelta(milliseconds=70))
        async with a_connection(simulation.network) as ((_, writer), (peer_reader, _)):
            began = now_ns()
            writer.write(b"x")
            await peer_reader.readexactly(1)
            assert now_ns() - began == 1_000_000

    with Simulation(tape=Tape()) as simulation:
        simulation.run(main(simulation))


def test_nothing_arrives_before_its_time_because_of_what_was_sent_after_it():
    async def main(simulation: Simulation) -> None:
        simulation.network.set_latency("agent", "server", timedelta(milliseconds=1), jitter=timedelta(milliseconds=70))
        async with a_connection(simulation.network) as ((_, writer), (peer_reader, _)):
            began = now_ns()
            writer.write(b"slow")
            await asyncio.sleep(0.001)
            writer.write(b"fast")
            assert await peer_reader.readexactly(4) == b"slow"
            assert now_ns() - began == 71_000_000

    # The handshake draws two delays on this way. The third is that of the first message.
    tape = Tape([Choice("net/agent>server/latency", ordinal=2, options=8, chosen=7)])
    with Simulation(tape=tape) as simulation:
        simulation.run(main(simulation))


# Sockets.


async def test_a_socket_of_the_programs_own_is_connected_by_the_loop(sim):
    loop = asyncio.get_running_loop()
    listener = await Listener(sim.network.host("server")).start()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as sock:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert sock.gettimeout() == 0
        sock.bind(("127.0.0.1", 0))
        assert sock.getsockname()[1] > 0
        with pytest.raises(OSError, match="not connected"):
            sock.getpeername()
    assert sock.fileno() == -1
    sock = socket.socket()
    await loop.sock_connect(sock, (sim.network.host("server").address, PORT))
    _, writer = await asyncio.open_connection(sock=sock)
    writer.write(b"hello")
    peer_reader, _ = await listener.accepted.get()
    assert await peer_reader.readexactly(5) == b"hello"
    assert writer.get_extra_info("socket") is sock


async def test_a_server_takes_a_socket_that_was_bound_before():
    sock = socket.socket()
    sock.bind(("127.0.0.1", PORT))
    refused = await failure_of(asyncio.open_connection("127.0.0.1", PORT))
    assert isinstance(refused, ConnectionRefusedError)
    async with await asyncio.start_server(lambda *_: None, sock=sock):
        await asyncio.open_connection("127.0.0.1", PORT)


@pytest.mark.parametrize("operation", ["accept", "connect", "recv", "sendall", "makefile"])
async def test_a_socket_does_nothing_past_the_loop(operation):
    with socket.socket() as sock, pytest.raises(Unsimulated, match=f"socket.{operation}"):
        getattr(sock, operation)()


async def test_only_tcp_is_there():
    for family, kind in ((socket.AF_UNIX, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM)):
        with pytest.raises(Unsimulated):
            socket.socket(family, kind)


def test_a_real_socket_cannot_take_part():
    async def main(real: socket.socket) -> None:
        with pytest.raises(Unsimulated):
            await asyncio.get_running_loop().sock_connect(real, ("127.0.0.1", PORT))
        with pytest.raises(Unsimulated):
            await asyncio.open_connection(sock=real)
        with pytest.raises(Unsimulated):
            await asyncio.start_server(lambda *_: None, sock=real)

    with socket.socket() as real, Simulation() as simulation:
        simulation.run(main(real))


async def test_tls_is_refused():
    with pytest.raises(Unsimulated, match="TLS"):
        await asyncio.open_connection("localhost", PORT, ssl=True)


async def test_polling_a_socket_tells_whether_there_is_something_to_read(sim):
    async with a_connection(sim.network) as ((_, writer), (_, peer_writer)):
        assert isinstance(writer.transport, asyncio.Transport)
        writer.transport.pause_reading()
        poll = select.poll()
        fd = writer.get_extra_info("socket").fileno()
        poll.register(fd, select.POLLIN)
        assert poll.poll(0) == []
        with pytest.raises(Unsimulated):
            poll.poll()
        peer_writer.close()
        await asyncio.sleep(1)
        assert poll.poll(0) == [(fd, select.POLLIN)]
        writer.transport.abort()
        await asyncio.sleep(1)
        assert poll.poll(0) == [(fd, select.POLLNVAL)]


# Sameness.


def digest_of_a_troubled_run(seed: int) -> str:
    async def main(network: Network) -> None:
        network.set_latency("agent", "server", timedelta(milliseconds=1), jitter=timedelta(milliseconds=9))
        async with a_connection(network) as ((_, writer), (peer_reader, _)):
            network.cut("agent", "server")
            writer.write(b"x" * 1000)
            await asyncio.sleep(1)
            network.heal_all()
            await peer_reader.readexactly(1000)
            network.vanish("server")
            network.come_back("server")
            writer.write(b"y")
            await asyncio.sleep(1)

    with Simulation(seed) as simulation:
        simulation.run(main(simulation.network))
        return simulation.digest


def test_equal_seeds_give_equal_digests_and_other_seeds_others():
    assert digest_of_a_troubled_run(1) == digest_of_a_troubled_run(1)
    assert digest_of_a_troubled_run(1) != digest_of_a_troubled_run(2)


def test_the_trace_names_hosts_and_connections():
    async def main(network: Network) -> None:
        async with a_connection(network) as ((_, writer), (peer_reader, _)):
            writer.write(b"question")
            await peer_reader.readexactly(8)
            network.cut("agent", "server", one_way=True)
            writer.write(b"!")
            await asyncio.sleep(1)
            network.reset("agent", "server")
            await asyncio.sleep(1)

    with Simulation(keep_trace=True) as simulation:
        simulation.run(main(simulation.network))
        noted = [event.what for event in simulation.trace.events() if event.what.startswith("net.")]
    assert noted == [
        "net.listening server 0.0.0.0 6443",
        "net.connected agent>server 1 6443",
        "net.accepted agent>server#1c",
        "net.data agent>server#1c 8",
        "net.cut agent>server",
        "net.stalled agent>server#1c",
        "net.reset agent server",
        "net.failed agent>server#1c ECONNRESET",
        "net.failed server>agent#1s ECONNRESET",
    ]
