"""Look around in a run while its time stands still: its API over real HTTP, for kubectl and for `mainstay why`.

    frozen = frozen_at(bundle, "43s")
    async with still(frozen, port=0) as server:
        print(server.url)

The run is made again in a fork, with its journal kept. What was committed up to a moment, and what was recorded up to
then, is given to an API server like any other, whose clock shows that moment for ever: ages in tables are those of the
run. The store has all of its history, so one can look at earlier moments, too. Every client is an administrator.

Nothing can be written, and nothing happens: no controller and no agent runs here. Logs and metrics of pods are not
there, because their nodes are not.
"""

import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from mainstay.api import times
from mainstay.api.errors import StatusError, StatusReason
from mainstay.env import Chance, Env, SystemClock, SystemDisk, tasks
from mainstay.env.build import build
from mainstay.http.messages import Request
from mainstay.http.server import HttpServer
from mainstay.journal.bundle import open_bundle, packed
from mainstay.journal.bundle_contents import gathered
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.scheduler.why.placement import rests_on
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.auth.authorization import MASTERS, Authorizer, User
from mainstay.server.auth.kubeconfig import ByToken, kubeconfig_text, server_url
from mainstay.server.decisions.journal import in_memory
from mainstay.server.request.app import Api
from mainstay.server.request.context import ApiCall
from mainstay.server.request.pipeline import PipelineOptions
from mainstay.sim.cluster.history import Event, RevisionCommitted, StoreReopened, StoreRestored
from mainstay.sim.errors import SimulationError
from mainstay.sim.failure.rerun import repeat_run
from mainstay.sim.run.bundle import RunBundle
from mainstay.sim.run.run import Booted, RunResult
from mainstay.store.errors import StoreUnavailable
from mainstay.store.interface import Check, Entry, TransactionRefused, Write
from mainstay.store.interface import Committed as Done
from mainstay.store.local import LocalStore
from mainstay.store.log import DeletedVersion, LogRow, MemoryLog, Recovered, decode_row, encode_row

HOST: Final = "127.0.0.1"
ADMIN: Final = User("looker-on", (MASTERS, "system:authenticated"))
DRAIN_WITHIN: Final = timedelta(seconds=1)
STILL: Final = "the cluster is read-only: this server shows a simulated run frozen in time"
_READING: Final = ("GET", "HEAD", "OPTIONS")
_REVIEWS: Final = ("/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/")  # Posted, and yet only asked.
_SECONDS: Final = re.compile(r"\d+(\.\d+)?")


class NoSuchTime(SimulationError):
    """What was said is no moment of the run. Says what would be one."""


class FrozenState(msgspec.Struct, frozen=True):
    """A run at one moment."""

    result: RunResult
    """Of the whole run, which went on."""
    at_ns: int
    """On the clock of the run."""
    began_ns: int
    wall: datetime
    """What the clocks of the run showed."""
    rows: list[tuple[int, bytes]]
    """All that was ever committed up to then, as a store writes it down."""
    journal: bytes
    """As a bundle (journal/bundle.py)."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(FrozenState).decode


def freeze_at(bundle: RunBundle, at: str = "") -> FrozenState:
    """Make the run again, with a journal, and keep what there was at a moment; by default when it ended.

    `at` is a time since the work began (`43s`), on the clock of the run (`59.04`, as stories show it), or on the clocks
    of its programs (`2026-01-01T00:00:59Z`). Raises `NoSuchTime`, and as `repeat_run` does (rerun.py).
    """
    _parsed(at)  # If it is no time, that is said at once.
    (sent,) = repeat_run(bundle, partial(_look, at), journal=True)
    return _decode(sent)


def _look(at: str, booted: Booted, result: RunResult) -> bytes:
    ended_ns, wall = booted.sim.loop.time_ns(), booted.sim.clock.wall()
    how, asked = _parsed(at)
    match how:
        case "since":
            at_ns = booted.began_ns + asked
        case "clock":
            at_ns = asked
        case "wall":
            ago = wall - datetime.fromtimestamp(asked / 1e6, UTC)
            at_ns = ended_ns - ago // timedelta(microseconds=1) * 1000
        case _:
            at_ns = ended_ns
    at_ns = min(max(at_ns, booted.began_ns), ended_ns)
    then = wall - timedelta(microseconds=(ended_ns - at_ns) // 1000)
    rows = [(row.revision, encode_row(row)) for row in rows_until(booted.world.history.events, at_ns)]
    assert booted.world.journal is not None
    journal = tasks.run(_packed(booted.world.journal, then))
    return _encode(FrozenState(result, at_ns, booted.began_ns, then, rows, journal))


def _parsed(at: str) -> tuple[str, int]:
    """How a moment is given, and its number: nanoseconds, of the wall clock microseconds."""
    if not at:
        return "end", 0
    if _SECONDS.fullmatch(at):
        return "clock", int(float(at) * 1e9)
    try:
        return "since", times.parse_duration(at) // timedelta(microseconds=1) * 1000
    except ValueError:
        pass
    try:
        return "wall", _micros(times.parse_time(at))
    except ValueError:
        text = f"{at!r} must be a duration since the start (43s), a time of the story (59.04) or RFC 3339"
        raise NoSuchTime(text) from None


def _micros(at: datetime) -> int:
    return (at - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)


async def _packed(journal: MemoryJournal, until: datetime) -> bytes:
    begins = datetime.fromtimestamp(0, UTC)
    contents = await gathered(
        journal,
        since=begins,
        until=until + timedelta(microseconds=1),
        build=build(),
        made_at=until,
        rests_on=rests_on,
    )
    return b"".join(packed(contents))


def rows_until(events: Iterable[Event], at_ns: int) -> list[LogRow]:
    """What a store has written down that has come to this. What it has lost, or was put back from, is not there."""
    rows: dict[int, dict[str, Entry | DeletedVersion]] = {}
    for event in events:
        if event.at_ns > at_ns:
            break
        if isinstance(event, StoreReopened | StoreRestored):
            rows = {revision: writes for revision, writes in rows.items() if revision <= event.revision}
        elif isinstance(event, RevisionCommitted):
            value = event.value
            entry = (
                DeletedVersion(event.key, event.revision)
                if value is None
                else Entry(event.key, value, 0, event.revision, 0)
            )
            rows.setdefault(event.revision, {})[event.key] = entry
    return _numbered(rows)


def _numbered(rows: Mapping[int, Mapping[str, Entry | DeletedVersion]]) -> list[LogRow]:
    """With how often each key was written since it was made."""
    made: dict[str, tuple[int, int]] = {}
    numbered = []
    for revision in sorted(rows):
        writes: list[Entry | DeletedVersion] = []
        for key, write in rows[revision].items():
            if isinstance(write, DeletedVersion):
                made.pop(key, None)
                writes.append(write)
            else:
                created, version = made.get(key, (revision, 0))
                made[key] = created, version + 1
                writes.append(Entry(key, write.value, created, revision, version + 1))
        numbered.append(LogRow(revision, tuple(writes)))
    return numbered


# Serving it.


@dataclass(frozen=True, slots=True)
class FrozenServer:
    """A server in which time stands still."""

    url: str
    kubeconfig: str
    """The text of the file with which clients find it."""


@asynccontextmanager
async def serve_frozen(frozen: FrozenState, port: int = 0) -> AsyncIterator[FrozenServer]:
    """Serve it on this machine; port 0 takes any free one. Raises `OSError` if the port cannot be had."""
    async with AsyncExitStack() as closing:
        store = await _StillStore.open(_Written([decode_row(revision, row) for revision, row in frozen.rows]))
        closing.push_async_callback(store.close)
        # A disk is part of every environment. Nothing is left on this one.
        env = Env(_StillClock(frozen.wall), Chance(b"still"), SystemDisk(Path()))
        kept = open_bundle(frozen.journal).journal
        kept.reached(await store.revision())
        journal = in_memory(kept, store, env.clock)
        closing.push_async_callback(journal.refusals.close)
        authenticator = _AnyAdministrator({})
        options = PipelineOptions(before=(_refuse_writes,))
        api = await Api.start(store, env, authenticator, journal=journal, options=options)
        closing.push_async_callback(api.stop)
        store.stand_still()
        http = await HttpServer.start(api.answer, HOST, port, clock=SystemClock(), on_head=True)
        closing.push_async_callback(http.drain, DRAIN_WITHIN)
        url = server_url("http", HOST, http.addresses[0][1])
        yield FrozenServer(url, kubeconfig_text(url, ByToken("none-is-needed"), user=ADMIN.name))


def _refuse_writes(call: ApiCall) -> None:
    request = call.request
    if request.method not in _READING and not request.path.startswith(_REVIEWS):
        raise StatusError(405, StatusReason.METHOD_NOT_ALLOWED, STILL, {})


class _StillClock:
    """Shows one moment for ever. Time of timeouts, which is not shown, goes on."""

    def __init__(self, wall: datetime) -> None:
        self._wall = wall
        self._running = SystemClock()

    def wall(self) -> datetime:
        return self._wall

    def monotonic_ns(self) -> int:
        return self._running.monotonic_ns()


class _Written(MemoryLog):
    """A log in which this was written."""

    def __init__(self, rows: Sequence[LogRow]) -> None:
        self._rows = rows

    async def open(self) -> Recovered:
        return Recovered(0, self._rows)


class _StillStore(LocalStore):
    """Takes no more writes once it stands still, not even the server's own."""

    _is_still = False

    def stand_still(self) -> None:
        self._is_still = True

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> Done | TransactionRefused:
        if self._is_still:
            raise StoreUnavailable(STILL)
        return await super().commit(checks, writes)


class _AnyAdministrator(Authenticator):
    """Takes every client for an administrator: there is nothing to protect, and kubectl sends no token without TLS."""

    def authenticate(self, request: Request, authorizer: Authorizer) -> User:
        return ADMIN
