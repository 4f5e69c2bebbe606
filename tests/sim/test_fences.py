"""What cannot be simulated is refused, with a word on what to do instead."""

import _thread
import asyncio
import concurrent.futures
import os
import queue
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from mainstay.sim.errors import SimulationError, Unsimulated

REFUSED: dict[str, Callable[[], object]] = {
    "a thread": lambda: threading.Thread(target=print).start(),
    "a bare thread": lambda: _thread.start_new_thread(print, ()),
    "a thread pool": lambda: concurrent.futures.ThreadPoolExecutor().submit(print),
    "a process": lambda: subprocess.run([sys.executable, "-c", ""], check=True),
    "a fork": lambda: os.fork(),
    "a shell": lambda: os.system("true"),
    "a signal handler": lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "sleeping": lambda: time.sleep(0.1),
    "waiting for an event": lambda: threading.Event().wait(),
    "waiting for an event for a while": lambda: threading.Event().wait(0.1),
    "waiting for a queue": lambda: queue.Queue[int]().get(),
    "waiting for another thread's result": lambda: concurrent.futures.Future[int]().result(),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_what_blocks_or_leaves_the_process_is_refused(what: str):
    with pytest.raises(Unsimulated):
        REFUSED[what]()


REFUSED_BY_LOOP = {
    "add_reader": lambda loop: loop.add_reader(0, print),
    "add_writer": lambda loop: loop.add_writer(0, print),
    "remove_reader": lambda loop: loop.remove_reader(0),
    "remove_writer": lambda loop: loop.remove_writer(0),
    "add_signal_handler": lambda loop: loop.add_signal_handler(signal.SIGTERM, print),
    "remove_signal_handler": lambda loop: loop.remove_signal_handler(signal.SIGTERM),
}


@pytest.mark.parametrize("what", REFUSED_BY_LOOP)
async def test_the_loop_refuses_what_needs_the_operating_system(sim, what: str):
    with pytest.raises(Unsimulated, match=f"loop.{what}: .* not simulated"):
        REFUSED_BY_LOOP[what](sim.loop)


REFUSED_BY_LOOP_LATER = {
    "sock_accept": lambda loop, sock: loop.sock_accept(sock),
    "sock_recv": lambda loop, sock: loop.sock_recv(sock, 1),
    "sock_recv_into": lambda loop, sock: loop.sock_recv_into(sock, bytearray(1)),
    "sock_recvfrom": lambda loop, sock: loop.sock_recvfrom(sock, 1),
    "sock_recvfrom_into": lambda loop, sock: loop.sock_recvfrom_into(sock, bytearray(1)),
    "sock_sendall": lambda loop, sock: loop.sock_sendall(sock, b""),
    "sock_sendto": lambda loop, sock: loop.sock_sendto(sock, b"", ("localhost", 1)),
    "sock_sendfile": lambda loop, sock: loop.sock_sendfile(sock, None),
    "sendfile": lambda loop, sock: loop.sendfile(None, None),
    "connect_accepted_socket": lambda loop, sock: loop.connect_accepted_socket(asyncio.Protocol, sock),
    "connect_read_pipe": lambda loop, sock: loop.connect_read_pipe(asyncio.Protocol, sys.stdin),
    "connect_write_pipe": lambda loop, sock: loop.connect_write_pipe(asyncio.Protocol, sys.stdout),
    "create_unix_connection": lambda loop, sock: loop.create_unix_connection(asyncio.Protocol, "/x"),
    "create_unix_server": lambda loop, sock: loop.create_unix_server(asyncio.Protocol, "/x"),
    "create_datagram_endpoint": lambda loop, sock: loop.create_datagram_endpoint(asyncio.DatagramProtocol),
    "start_tls": lambda loop, sock: loop.start_tls(None, None, None),
    "subprocess_exec": lambda loop, sock: loop.subprocess_exec(asyncio.SubprocessProtocol, "true"),
    "subprocess_shell": lambda loop, sock: loop.subprocess_shell(asyncio.SubprocessProtocol, "true"),
}


@pytest.mark.parametrize("what", REFUSED_BY_LOOP_LATER)
async def test_the_loop_refuses_sockets_pipes_and_processes(sim, what: str):
    with socket.socket() as sock, pytest.raises(Unsimulated, match=f"loop.{what}: "):
        await REFUSED_BY_LOOP_LATER[what](sim.loop, sock)


async def test_encryption_is_refused(sim):
    context = ssl.create_default_context()

    with pytest.raises(Unsimulated, match="TLS"):
        await asyncio.open_connection("localhost", 443, ssl=context)
    with pytest.raises(Unsimulated, match="TLS"):
        await asyncio.start_server(lambda reader, writer: None, "localhost", 443, ssl=context)


async def test_a_program_may_take_a_refusal_as_a_missing_feature(sim):
    """As asyncio documents it for signal handlers, and as portable programs do."""
    with pytest.raises(NotImplementedError):
        sim.loop.add_signal_handler(signal.SIGTERM, print)
    assert issubclass(Unsimulated, SimulationError)


async def test_sleeping_for_no_time_is_allowed(sim):
    time.sleep(0)  # noqa: ASYNC251 - that is the point


async def test_a_blocking_call_may_wait_for_an_event_that_never_comes(sim):
    assert await asyncio.to_thread(threading.Event().wait, 3) is False
    assert sim.loop.time() == 3
    with pytest.raises(queue.Empty):
        await asyncio.to_thread(queue.Queue[int]().get, True, 2)
    assert sim.loop.time() == 5


def test_outside_a_run_nothing_is_refused():
    threads = [threading.Thread(target=time.sleep, args=(0,)) for _ in range(2)]
    for thread in threads:
        thread.start()
        thread.join()

    assert subprocess.run([sys.executable, "-c", ""], check=True).returncode == 0
