"""Programs of the machine: start one, recognise it later, signal it, wait for its end.

    running = commands.start(["/usr/bin/python3", "-m", "mainstay", "server"], output=log_path)
    ...                                     # any process, also one of a later life, that has kept the identity:
    if commands.is_alive(running):
        commands.send(running, signal.SIGTERM)
        await commands.ended(running)

A process id alone says nothing: after its process has ended the number is given away again, and after the machine was
restarted all of them are. `Identity` is the id together with when the process started and with the boot that this
was in; two of them are equal only if it is the very same process. What ended and was not reaped yet counts as ended.

Whatever is started here gets a session of its own, so that no signal of a terminal reaches it, no standard input, and
no open files but those named. It lives on when its parent ends. While the parent lives, it is reaped here: at the next
call of any of these functions that looks at a process.

Linux only: this reads /proc and uses process file descriptors. Copies of this very process are made in processes.py.
"""

import asyncio
import atexit
import contextlib
import errno
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Final

# Those started by this process and not reaped yet, and how the last ones ended. Only changed by single steps that are
# whole, so calls from several threads do no harm.
_children: Final[dict["Identity", "subprocess.Popen[bytes]"]] = {}
_codes: Final[dict["Identity", int]] = {}
_CODES_KEPT: Final = 1000


@dataclass(frozen=True, slots=True)
class Identity:
    """One process, and no other one that ever had its number. All fields are plain: it may be written down as JSON."""

    pid: int
    started: int
    """In clock ticks since the machine started."""
    boot: str


@cache
def boot_id() -> str:
    """Differs each time the machine is started."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def find_identity(pid: int) -> Identity | None:
    """The process that has this number now. None if there is none, or if it has ended."""
    stat = _stat(pid)
    if stat is None or stat[0] in "ZX":
        return None
    return Identity(pid, stat[1], boot_id())


def own_identity() -> Identity:
    """Of this process."""
    own = find_identity(os.getpid())
    assert own is not None
    return own


def is_alive(identity: Identity) -> bool:
    """Whether it still runs. False for ever after it was false."""
    _reap()
    return find_identity(identity.pid) == identity


def send(identity: Identity, number: signal.Signals) -> bool:
    """Send a signal to this process, and never to another one that has got its number. False if it is gone."""
    with _descriptor(identity) as descriptor:
        if descriptor is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, number)
            return True
        return False


def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    output: Path | int | None = None,
    inherit: Sequence[int] = (),
) -> Identity:
    """Start a program. Returns when it is really running; raises `OSError` if that cannot be.

    `env` is its whole environment, by default that of this process. `output` takes what it writes to standard output
    and standard error: a file is appended to, and made if it is not there; by default all of it is thrown away.
    `inherit` are the descriptors it gets, with the same numbers.
    """
    _reap()
    opened = None
    if isinstance(output, Path):
        opened = output = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        process = subprocess.Popen(
            list(argv),
            env=None if env is None else dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if output is None else output,
            stderr=subprocess.STDOUT,
            pass_fds=inherit,
            start_new_session=True,
        )
    finally:
        if opened is not None:
            os.close(opened)
    # Before it can be reaped: the number is its own even if it has ended meanwhile.
    stat = _stat(process.pid)
    assert stat is not None
    identity = Identity(process.pid, stat[1], boot_id())
    _children[identity] = process
    return identity


@dataclass(frozen=True, slots=True)
class Finished:
    """A program that has ended."""

    code: int
    """Its exit code, or the signal, negative."""
    output: bytes
    errors: bytes


def run_to_end(
    argv: Sequence[str],
    *,
    given: bytes = b"",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    limit: timedelta | None = None,
) -> Finished:
    """Run a program, give it something to read, and take what it writes. Raises `OSError` if it cannot be started, and
    `TimeoutError` if it was killed because it had not ended within the limit.

    It blocks until the program has ended: call it on a `tasks.Worker`.
    """
    limit_s = None if limit is None else limit.total_seconds()
    try:
        done = subprocess.run(
            list(argv), input=given, capture_output=True, env=env, cwd=cwd, check=False, timeout=limit_s
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{argv[0]} has not ended within {limit}") from None
    return Finished(done.returncode, done.stdout, done.stderr)


async def ended(identity: Identity) -> None:
    """Wait until it has ended. Returns at once if it has. Any number of tasks may wait for the same one."""
    with _descriptor(identity) as descriptor:
        if descriptor is not None:
            await readable(descriptor)
    _reap()


async def readable(descriptor: int) -> None:
    """Wait until something can be read from a pipe or the like, or its end is reached. For one task at a time."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def is_readable() -> None:
        loop.remove_reader(descriptor)
        if not over.done():
            over.set_result(None)

    loop.add_reader(descriptor, is_readable)
    try:
        await over
    finally:
        loop.remove_reader(descriptor)


def exit_code(identity: Identity) -> int | None:
    """How it ended: its exit code, or the signal, negative. None while it runs; and when that is unknown here, because
    another process has started it, or because that many have ended since."""
    _reap()
    return _codes.get(identity)


@contextlib.contextmanager
def _descriptor(identity: Identity) -> Iterator[int | None]:
    """An open descriptor of the process: from then on, it cannot become another one. None if it has ended."""
    try:
        descriptor = os.pidfd_open(identity.pid)
    except OSError as error:
        if error.errno not in (errno.ESRCH, errno.EINVAL):
            raise
        yield None
        return
    try:
        yield descriptor if find_identity(identity.pid) == identity else None
    finally:
        os.close(descriptor)


def _reap() -> None:
    for identity, process in list(_children.items()):
        code = process.poll()
        if code is not None:
            _codes[identity] = code
            _children.pop(identity, None)
    for identity in list(_codes)[:-_CODES_KEPT]:
        _codes.pop(identity, None)


def _let_go() -> None:
    """This process ends, and what it has started goes on. Popen would warn of that."""
    _reap()
    for process in _children.values():
        process.returncode = 0


atexit.register(_let_go)


def _stat(pid: int) -> tuple[str, int] | None:
    """State and start time, from /proc."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name comes second, in parentheses, and may contain anything.
    fields = text[text.rindex(b")") + 2 :].split()
    return fields[0].decode(), int(fields[19])
