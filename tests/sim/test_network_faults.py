"""Cuts, resets and power failures of the simulated network."""

import asyncio
import errno
from datetime import timedelta

import pytest

from mainstay.sim.net.network import Network
from mainstay.sim.net.wire import WINDOW_BYTES
from mainstay.sim.simulation import Simulation
from tests.sim.network_calls import HOUR_S, Listener, a_connection, connect, failure_of, now_ns

# What a test leaves open goes away with its run: streams need not be closed one by one here.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


# Cuts.


async def test_what_is_sent_into_a_cut_arrives_in_order_after_it_heals(sim):
    async with a_connection(sim.network) as ((_, writer), (peer_reader, _)):
        writer.write(b"in flight,")
        sim.network.cut("agent", "server")
        for number in range(10):
            writer.write(b"%d," % number)
            await asyncio.sleep(1)
        sim.network.heal("agent", "server")
        assert await peer_reader.readexactly(30) == b"in flight,0,1,2,3,4,5,6,7,8,9,"


async def test_a_healed_link_is_noticed_when_tcp_tries_again(sim):
    async with a_connection(sim.network) as ((_, writer), (peer_reader, _)):
        sim.network.cut("agent", "server")
        stalled_at = now_ns() + 200_000
        writer.write(b"x")
        await asyncio.sleep(10)
        sim.network.heal("agent", "server")
        await peer_reader.readexactly(1)
        # Repeated after 0.2, 0.4, 0.8, 1.6, 3.2 and 6.4 seconds, the first five of them in vain.
        assert now_ns() - stalled_at == 12_600_000_000 + 200_000


async def test_a_cut_is_not_noticed_by_those_who_say_nothing(sim):
    async with a_connection(sim.network) as ((_, writer), (peer_reader, _)):
        sim.network.cut("agent", "server")
        await asyncio.sleep(24 * HOUR_S)
        sim.network.heal("agent", "server")
        writer.write(b"still there")
        assert await peer_reader.readexactly(11) == b"still there"


async def test_data_that_does_not_arrive_for_a_quarter_of_an_hour_fails_the_connection(sim):
    async with a_connection(sim.network) as ((reader, writer), (peer_reader, peer_writer)):
        sim.network.cut("agent", "server")
        writer.write(b"lost")
        began = now_ns()
        assert (await failure_of(reader.read())).errno == errno.ETIMEDOUT
        assert 15 * 60 < (now_ns() - began) / 1e9 < 16 * 60
        # The other side knows nothing of it until it says something itself.
        sim.network.heal("agent", "server")
        await asyncio.sleep(HOUR_S)
        peer_writer.write(b"are you there?")
        assert isinstance(await failure_of(peer_reader.read()), ConnectionResetError)


async def test_data_that_arrives_but_is_never_acknowledged_fails_the_sender(sim):
    async with a_connection(sim.network) as ((reader, writer), (peer_reader, _)):
        sim.network.cut("server", "agent", one_way=True)
        writer.write(b"heard")
        assert await peer_reader.readexactly(5) == b"heard"
        assert (await failure_of(reader.read())).errno == errno.ETIMEDOUT


async def test_a_one_way_cut_lets_the_other_way_through(sim):
    async with a_connection(sim.network) as ((reader, writer), (peer_reader, peer_writer)):
        sim.network.cut("agent", "server", one_way=True)
        writer.write(b"held back")
        peer_writer.write(b"comes through")
        assert await reader.readexactly(13) == b"comes through"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(peer_reader.read(1), 100)
        sim.network.heal_all()
        assert await peer_reader.readexactly(9) == b"held back"


async def test_a_window_that_is_full_when_the_link_is_cut_opens_after_it_heals(sim):
    async with a_connection(sim.network) as ((_, writer), (peer_reader, _)):
        body = bytes(3_000_000)
        writer.write(body)
        await asyncio.sleep(1)
        assert writer.transport.get_write_buffer_size() > 0
        sim.network.cut("agent", "server")
        reading = asyncio.ensure_future(peer_reader.readexactly(len(body)))
        await asyncio.sleep(60)
        assert not reading.done()
        sim.network.heal_all()
        assert await reading == body


async def test_a_window_does_not_open_while_the_news_of_it_cannot_come_back(sim):
    async with a_connection(sim.network) as ((_, writer), (peer_reader, _)):
        body = bytes(3_000_000)
        writer.write(body)
        await asyncio.sleep(1)
        sim.network.cut("server", "agent", one_way=True)
        waiting = writer.transport.get_write_buffer_size()
        reading = asyncio.ensure_future(peer_reader.readexactly(len(body)))
        await asyncio.sleep(60)
        assert writer.transport.get_write_buffer_size() == waiting
        sim.network.heal_all()
        assert await reading == body


async def test_a_full_window_without_an_answer_fails_the_sender(sim):
    async with a_connection(sim.network) as ((reader, writer), (_, peer_writer)):
        assert isinstance(peer_writer.transport, asyncio.Transport)
        peer_writer.transport.pause_reading()
        writer.write(bytes(WINDOW_BYTES))
        await asyncio.sleep(1)
        sim.network.cut("agent", "server")
        writer.write(b"one more")
        assert (await failure_of(reader.read())).errno == errno.ETIMEDOUT


async def test_cutting_again_before_anything_got_through_goes_on_waiting(sim):
    async with a_connection(sim.network) as ((_, writer), (peer_reader, _)):
        sim.network.cut("agent", "server")
        writer.write(b"patience")
        for _ in range(5):
            await asyncio.sleep(10)
            sim.network.heal_all()
            sim.network.cut("agent", "server")
        sim.network.heal_all()
        assert await peer_reader.readexactly(8) == b"patience"


async def test_a_connection_closed_during_a_cut_ends_properly_after_it(sim):
    async with a_connection(sim.network) as ((_, writer), (peer_reader, _)):
        sim.network.cut("agent", "server")
        writer.write(b"last words")
        writer.close()
        await writer.wait_closed()
        await asyncio.sleep(5)
        sim.network.heal_all()
        assert await peer_reader.read() == b"last words"


def test_a_connection_that_is_over_on_one_side_waits_for_nothing():
    async def main(network: Network) -> None:
        async with a_connection(network) as ((_, writer), _):
            network.cut("server", "agent", one_way=True)
            writer.write(b"last words")
            writer.close()
            await asyncio.sleep(HOUR_S)

    with Simulation(keep_trace=True) as simulation:
        simulation.run(main(simulation.network))
        noted = [event.what for event in simulation.trace.events()]
    assert noted.count("net.stalled agent>server#1c") == 1
    assert not [what for what in noted if what.startswith("net.failed")]


async def test_connecting_waits_for_a_cut_to_heal(sim):
    await Listener(sim.network.host("server")).start()
    sim.network.cut("agent", "server")
    connecting = asyncio.ensure_future(connect(sim.network.host("agent"), "server"))
    await asyncio.sleep(10)
    assert not connecting.done()
    sim.network.heal_all()
    await connecting
    assert now_ns() == 15_000_000_000 + 2 * 200_000  # Tried after 0, 1, 3, 7 and 15 seconds.


@pytest.mark.parametrize("blocked", ["there", "back"])
async def test_connecting_is_given_up_after_two_minutes(sim, blocked):
    listener = await Listener(sim.network.host("server")).start()
    sim.network.cut(*(("agent", "server") if blocked == "there" else ("server", "agent")), one_way=True)
    error = await failure_of(connect(sim.network.host("agent"), "server"))
    assert error.errno == errno.ETIMEDOUT
    assert now_ns() == 127_000_000_000
    assert listener.accepted.empty()


async def test_a_listener_that_closes_during_the_handshake_resets_the_connection(sim):
    listener = await Listener(sim.network.host("server")).start()
    sim.network.set_latency("agent", "server", timedelta(seconds=1))
    connecting = asyncio.ensure_future(connect(sim.network.host("agent"), "server"))
    await asyncio.sleep(1.5)
    listener.server.close()
    reader, _ = await connecting
    assert isinstance(await failure_of(reader.read()), ConnectionResetError)
    assert listener.accepted.empty()


# Resets and power.


async def test_a_reset_fails_both_ends_and_no_other_connection(sim):
    async with a_connection(sim.network) as ((reader, writer), (peer_reader, _)):
        _, other = await connect(sim.network.host("bystander"), "server")
        writer.write(b"never read")
        sim.network.reset("agent", "server")
        assert isinstance(await failure_of(reader.read()), ConnectionResetError)
        assert isinstance(await failure_of(peer_reader.read()), ConnectionResetError)
        assert not other.is_closing()
        writer.write(b"more")
        assert isinstance(await failure_of(writer.drain()), ConnectionResetError)


async def test_a_reset_that_gets_lost_is_sent_again_when_there_is_something_to_answer(sim):
    async with a_connection(sim.network) as ((reader, writer), (_, peer_writer)):
        assert isinstance(peer_writer.transport, asyncio.Transport)
        peer_writer.transport.pause_reading()
        writer.write(b"never read")
        await asyncio.sleep(1)
        sim.network.cut("server", "agent", one_way=True)
        peer_writer.transport.abort()
        reading = asyncio.ensure_future(reader.read())
        await asyncio.sleep(HOUR_S)
        sim.network.heal_all()
        await asyncio.sleep(HOUR_S)
        assert not reading.done()
        writer.write(b"hello?")
        assert isinstance(await failure_of(reading), ConnectionResetError)


async def test_a_vanished_host_says_nothing_and_hears_nothing(sim):
    async with a_connection(sim.network) as ((reader, writer), (peer_reader, peer_writer)):
        peer_writer.write(b"last words")
        sim.network.vanish("server")
        reading, peer_reading = asyncio.ensure_future(reader.read()), asyncio.ensure_future(peer_reader.read())
        await asyncio.sleep(24 * HOUR_S)
        assert not reading.done()
        writer.write(b"hello?")
        await asyncio.sleep(14 * 60)
        assert not reading.done()
        await asyncio.sleep(2 * 60)
        assert (await failure_of(reading)).errno == errno.ETIMEDOUT
        # No peer is left on the dead machine, whatever its code tries.
        peer_writer.write(b"ghost")
        peer_writer.close()
        await asyncio.sleep(HOUR_S)
        assert not peer_reading.done()
        peer_reading.cancel()


async def test_no_host_can_connect_to_or_from_a_vanished_one(sim):
    server, agent = sim.network.host("server"), sim.network.host("agent")
    await Listener(server).start()
    sim.network.vanish(server)
    assert (await failure_of(connect(agent, "server"))).errno == errno.ETIMEDOUT
    assert (await failure_of(connect(server, "agent"))).errno == errno.ENETDOWN
    assert (await failure_of(Listener(server).start())).errno == errno.ENETDOWN


async def test_a_host_that_came_back_resets_old_connections_and_listens_again(sim):
    server, agent = sim.network.host("server"), sim.network.host("agent")
    async with a_connection(sim.network) as ((reader, writer), _):
        sim.network.vanish(server)
        await asyncio.sleep(60)
        sim.network.come_back(server)
        assert isinstance(await failure_of(connect(agent, "server")), ConnectionRefusedError)
        writer.write(b"do you remember?")
        assert isinstance(await failure_of(reader.read()), ConnectionResetError)
        listener = await Listener(server).start()
        await connect(agent, "server")
        await listener.accepted.get()


async def test_data_waiting_for_a_vanished_host_is_reset_when_it_comes_back(sim):
    async with a_connection(sim.network) as ((reader, writer), _):
        writer.write(bytes(3_000_000))
        await asyncio.sleep(1)
        sim.network.vanish("server")
        await asyncio.sleep(60)
        assert not reader.at_eof()
        sim.network.come_back("server")
        assert isinstance(await failure_of(reader.read()), ConnectionResetError)


async def test_connections_that_are_over_leave_nothing_behind(sim):
    listener = await Listener(sim.network.host("server")).start()
    agent = sim.network.host("agent")
    for ending in ("client first", "server first", "both", "reset"):
        _, writer = await connect(agent, "server")
        _, peer_writer = await listener.accepted.get()
        writer.write(b"question")
        await asyncio.sleep(1)
        if ending == "reset":
            sim.network.reset("agent", "server")
        first, second = (peer_writer, writer) if ending == "server first" else (writer, peer_writer)
        first.close()
        await asyncio.sleep(0 if ending == "both" else 1)
        second.close()
        await asyncio.sleep(1)
        for link in (sim.network.link("agent", "server"), sim.network.link("server", "agent")):
            assert not link.ends, ending
        port = writer.get_extra_info("sockname")[1]
        assert agent.bound_to(agent.address, port) is None
