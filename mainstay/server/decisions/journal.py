"""The journal of a server, put together: what goes into it, what can be asked of it, who is told of decisions.

    the store ─► history ─┐
    components ─► POST ───┼─► DATA_DIR/journal ─► pages (pages.py), Decision objects (reads.py)
    this server's own ────┘

`open_journal` is for a process with a disk; a simulation has all of it in memory (`in_memory`). Without a journal a
server works all the same: nothing is collected, and who asks is told so.
"""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from mainstay.api.errors import StatusError
from mainstay.env import Clock, Disk, SystemDisk, tasks, vital
from mainstay.env.health import find_current
from mainstay.journal import wire
from mainstay.journal.closed_segment import ClosingHelper
from mainstay.journal.decisions import DecisionRecorder
from mainstay.journal.errors import JournalError, JournalUnreachable
from mainstay.journal.file_check import check_journal
from mainstay.journal.former_epoch import set_aside
from mainstay.journal.former_names import describe_former, find_former
from mainstay.journal.history import HistoryRecorder
from mainstay.journal.interface import Journal
from mainstay.journal.joint_journal import JointJournal
from mainstay.journal.local_journal import LocalJournal
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.reader import Reader
from mainstay.journal.segments import SegmentLimits
from mainstay.server.decisions.collector import Collector, DiskKeeper, Keeper, MemoryKeeper
from mainstay.server.decisions.counts import DecisionCounts
from mainstay.server.decisions.feed import DecisionFeed
from mainstay.server.decisions.history_source import StoreHistory
from mainstay.server.decisions.objects import rendered
from mainstay.server.decisions.peers import PeerJournals
from mainstay.server.decisions.refusals import Refusals
from mainstay.server.decisions.write_notes import WriteNotes
from mainstay.server.request.metrics import Metrics
from mainstay.store.errors import StoreError
from mainstay.store.interface import Store

CAUGHT_UP_WITHIN: Final = timedelta(seconds=5)  # A disk that takes longer is no reason to answer nothing.
WARNINGS_MAX: Final = 10  # Shown of one journal. The log has all of them.
_TICK: Final = timedelta(milliseconds=10)


@dataclass(frozen=True, slots=True)
class JournalLimits:
    """How much is kept: of history, and of decisions."""

    keep: timedelta = timedelta(days=7)
    keep_bytes: int = 2 * 1024 * 1024 * 1024
    """On disk, of each of the two."""


def unreachable(error: JournalUnreachable) -> StatusError:
    """What a client hears if only another server can know, and that one does not answer."""
    # Not 5xx: this server is well, and clients must not turn away from it.
    return StatusError(424, wire.INCOMPLETE, str(error), {})


class ServerJournal:
    """What the rest of the server knows of its journal."""

    def __init__(
        self,
        journal: Journal,
        keeper: Keeper,
        clock: Clock,
        catch_up: Callable[[], Awaitable[None]],
        build: str = "",
    ) -> None:
        self.local = journal
        """What this server has collected itself."""
        self.journal = journal
        """What is asked: also what its peers have collected, when they are known (`join`)."""
        self.counts = DecisionCounts()
        self.feed = DecisionFeed(clock, rendered)
        self.collector = Collector(keeper, self.feed, self.counts)
        self.refusals = Refusals(self.collector, self.counts, clock, build)
        self.notes = WriteNotes(self.collector, self.refusals, clock)
        self._catch_up = catch_up

    def join(self, peers: PeerJournals) -> None:
        """Answer from now on for all servers."""
        self.journal = JointJournal(peers.find_members)

    async def catch_up(self) -> None:
        """Wait until what has happened so far can be asked about; but not for long."""
        with contextlib.suppress(TimeoutError, JournalError, StoreError):
            async with tasks.timeout(CAUGHT_UP_WITHIN):
                await self._catch_up()


async def open_journal(
    disk: Disk,
    store: Store,
    clock: Clock,
    limits: JournalLimits,
    closing: contextlib.AsyncExitStack,
    metrics: Metrics,
    build: str = "",
) -> ServerJournal:
    """Record what happens to a store, and what is decided, into a directory. Raises `JournalError`, `OSError`."""
    kept = SegmentLimits(keep=limits.keep, keep_bytes=limits.keep_bytes)
    source = StoreHistory(store)
    # Only where there are processes: a simulation has none, and must be the same each time.
    helper = ClosingHelper() if isinstance(disk, SystemDisk) else None
    if helper is not None:
        closing.callback(helper.close)
    with contextlib.closing(tasks.Worker("journal start")) as worker:
        await worker.run(set_aside, disk, await store.revision())
        warnings = [describe_former(prefix) for prefix in find_former(await worker.run(disk.names))]
    history = HistoryRecorder(disk, source, clock, kept, helper)
    await history.start()
    if (health := find_current()) is not None:
        health.add("history", history.find_problem)
        health.add_warning("journal", lambda: "; ".join(warnings[:WARNINGS_MAX]))
    closing.callback(source.close)
    closing.push_async_callback(history.close)
    recorder = DecisionRecorder(disk, clock, kept, helper)
    await recorder.start()
    if health is not None:
        health.add("decisions", recorder.find_problem)
    closing.push_async_callback(recorder.close)
    checking = vital.spawn(check_journal(disk, warnings.append), name="journal-check", may_end=True)
    closing.push_async_callback(tasks.stop, checking)
    local = LocalJournal(Reader(disk))
    closing.callback(local.close)

    async def catch_up() -> None:
        await history.reach(await store.revision())
        await recorder.flush()

    journal = ServerJournal(local, DiskKeeper(recorder, clock), clock, catch_up, build)
    closing.push_async_callback(journal.refusals.close)
    metrics.counter("mainstay_journal_changes_total", "Changes recorded.", lambda: history.changes)
    metrics.counter(
        "mainstay_journal_failures_total", "Failed writes of the journal.", lambda: history.failures + recorder.failures
    )
    metrics.gauge("mainstay_journal_frontier", "Recorded durably up to this revision.", lambda: history.frontier)
    journal.counts.dropped_elsewhere("disk", lambda: recorder.dropped)
    metrics.more(journal.counts.collect)
    return journal


def in_memory(kept: MemoryJournal, store: Store, clock: Clock) -> ServerJournal:
    """For a simulation, where others put the history into it."""

    async def catch_up() -> None:
        revision = await store.revision()
        while (await kept.extent()).reached < revision:
            await tasks.sleep(_TICK)

    return ServerJournal(kept, MemoryKeeper(kept), clock, catch_up)
