"""Every store against a plain model, a dictionary for each revision: also over restarts, where data is kept.

Hypothesis makes up sequences of calls, and shortens those that fail. The model is as simple as can be, so that it is
obviously right: no index, no history but copies.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
import uvloop
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mainstay.sim.errors import Unhandled
from mainstay.sim.simulation import Simulation
from mainstay.store.errors import Compacted
from mainstay.store.interface import (
    ABSENT,
    Check,
    Committed,
    DeleteEntry,
    Entry,
    Hold,
    KeyChange,
    Put,
    Store,
    StoreWatch,
    TransactionRefused,
    Write,
)
from tests.requirements import needs
from tests.store.backends import Backend
from tests.twins.store import MODEL_TWINS

pytestmark = pytest.mark.slow

T = TypeVar("T")
State = dict[str, Entry]

KEYS = ["a", "ab", "b/1", "b/2", "b0", "ü"]
PREFIXES = ["", "a", "b/", "ü", "none"]
FRACTIONS = st.integers(0, 100)  # Of the history: where a revision is taken from.

writes_of_a_commit = st.lists(
    st.one_of(
        st.builds(Put, st.sampled_from(KEYS), st.binary(max_size=3)),
        st.builds(DeleteEntry, st.sampled_from(KEYS)),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda write: write.key,
)
checks_of_a_commit = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from(["right", "right", "right", "absent", "old"])),
    max_size=3,
    unique_by=lambda check: check[0],
)


class Model:
    """What the store should hold: the state at each revision."""

    def __init__(self, start: int) -> None:
        self.states: dict[int, State] = {start: {}}
        self.latest = start
        self.compacted = 0

    @property
    def state(self) -> State:
        return self.states[self.latest]

    def apply(self, writes: list[Write]) -> int:
        """Do these writes. Returns the revision the store should answer with."""
        state = dict(self.state)
        revision = self.latest + 1
        for write in writes:
            previous = state.get(write.key)
            if isinstance(write, DeleteEntry):
                state.pop(write.key, None)
            elif previous is None:
                state[write.key] = Entry(write.key, write.value, revision, revision, 1)
            else:
                state[write.key] = Entry(write.key, write.value, previous.created, revision, previous.version + 1)
        if state != self.state:
            self.latest = revision
            self.states[revision] = state
        return self.latest

    def changed_by(self, writes: list[Write]) -> int:
        """How many keys these writes would change now."""
        return sum(isinstance(write, Put) or write.key in self.state for write in writes)

    def failing(self, checks: list[Check], at: int) -> dict[str, Entry | None]:
        state = self.states[at]
        return {
            check.key: state.get(check.key)
            for check in checks
            if (ABSENT if check.key not in state else state[check.key].revision) != check.revision
        }

    def changes(self, prefix: str, after: int) -> list[KeyChange]:
        found = []
        for revision in range(after + 1, self.latest + 1):
            before, now = self.states[revision - 1], self.states[revision]
            found += [
                KeyChange(revision, key, now.get(key), before.get(key))
                for key in KEYS
                if key.startswith(prefix) and before.get(key) != now.get(key)
            ]
        return sorted(found, key=lambda change: (change.revision, change.key))

    def under(self, prefix: str, at: int) -> list[Entry]:
        state = self.states[at]
        return [state[key] for key in sorted(state) if key.startswith(prefix)]


class StoreMachine(RuleBasedStateMachine):
    """Calls a store and the model alike and compares."""

    backend_name: ClassVar[str]
    runner: ClassVar[asyncio.Runner | None]
    """The production loop, for a store that needs one. The same for all examples, for gRPC wants it so."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="mainstay-model-"))
        self.backend = Backend.make(self.backend_name, self.directory)
        self.simulation = Simulation()
        self.watches: list[tuple[StoreWatch, str, int]] = []
        self.holds: list[Hold] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        # On the loop itself: a store has no need of patched clocks, and they are patched in again for each call.
        return self.simulation.loop.run_until_complete(work) if self.runner is None else self.runner.run(work)

    async def _reopen(self) -> Store:
        return await self.backend.reopen()

    @initialize()
    def open(self) -> None:
        self.store = self.run(self._reopen())
        self.model = Model(self.run(self.store.revision()))

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.run(self._close())
        self.simulation.close()
        shutil.rmtree(self.directory)

    async def _close(self) -> None:
        for watch, _, _ in self.watches:
            watch.close()
        await self.store.close()

    def revision_at(self, fraction: int) -> int:
        first = min(self.model.states)
        return first + (self.model.latest - first) * fraction // 100

    def checks(self, wanted: list[tuple[str, str]]) -> list[Check]:
        checks = []
        for key, how in wanted:
            entry = self.model.state.get(key)
            revision = ABSENT if entry is None or how == "absent" else entry.revision
            checks.append(Check(key, max(revision - 1, 0) if how == "old" else revision))
        return checks

    @rule(wanted=checks_of_a_commit, writes=writes_of_a_commit)
    def commit(self, wanted: list[tuple[str, str]], writes: list[Write]) -> None:
        checks = self.checks(wanted)
        answer = self.run(self.store.commit(checks, writes))
        found = self.model.failing(checks, self.model.latest)
        assert answer == (TransactionRefused(found) if found else Committed(self.model.apply(writes)))

    # Not on a real etcd: who wins there depends on the machine, and Hypothesis needs the same story each time.
    @precondition(lambda self: self.runner is None)
    @rule(commits=st.lists(st.tuples(checks_of_a_commit, writes_of_a_commit), min_size=2, max_size=6))
    def commit_at_once(self, commits: list[tuple[list[tuple[str, str]], list[Write]]]) -> None:
        """Several commits race. The revisions they got say in which order; that order must explain everything."""
        before = self.model.latest
        asked = [(self.checks(wanted), writes) for wanted, writes in commits]

        async def race() -> list[Committed | TransactionRefused]:
            return await asyncio.gather(*(self.store.commit(checks, writes) for checks, writes in asked))

        answered = list(zip(asked, self.run(race()), strict=True))
        done: dict[int, list[tuple[list[Check], list[Write]]]] = {}
        for case, answer in answered:
            if isinstance(answer, Committed):
                done.setdefault(answer.revision, []).append(case)
        for revision in sorted(done):
            if revision > self.model.latest:
                # Of those with one revision, one made it, and then the others had nothing left to change.
                checks, writes = max(done[revision], key=lambda case: self.model.changed_by(case[1]))
                assert self.model.failing(checks, self.model.latest) == {}
                self.model.apply(writes)
            assert self.model.latest == revision
            assert sum(self.model.changed_by(writes) for _, writes in done[revision] if not _puts(writes)) == 0
        for (checks, _), answer in answered:
            if isinstance(answer, TransactionRefused):
                moments = range(before, self.model.latest + 1)
                assert any(answer.found == self.model.failing(checks, at) for at in moments)

    @rule(prefix=st.sampled_from(PREFIXES), fraction=FRACTIONS)
    def read_an_old_range(self, prefix: str, fraction: int) -> None:
        at = self.revision_at(fraction)
        if at < self.model.compacted:
            with pytest.raises(Compacted):
                self.run(self.store.range(prefix, at=at))
        else:
            page = self.run(self.store.range(prefix, at=at))
            assert (page.entries, page.revision, page.remaining) == (self.model.under(prefix, at), at, 0)

    @rule(prefix=st.sampled_from(PREFIXES), limit=st.integers(1, 3), fraction=FRACTIONS)
    def read_page_by_page(self, prefix: str, limit: int, fraction: int) -> None:
        at = max(self.revision_at(fraction), self.model.compacted)
        expected = self.model.under(prefix, at)
        after = None
        found: list[Entry] = []
        while True:
            page = self.run(self.store.range(prefix, at=at, limit=limit, after=after))
            found += page.entries
            assert page.remaining == len(expected) - len(found)
            if not page.remaining:
                break
            after = page.entries[-1].key
        assert found == expected

    @rule(key=st.sampled_from(KEYS), fraction=FRACTIONS)
    def get(self, key: str, fraction: int) -> None:
        at = max(self.revision_at(fraction), self.model.compacted)
        assert self.run(self.store.get(key, at=at)) == self.model.states[at].get(key)
        assert self.run(self.store.get(key)) == self.model.state.get(key)

    @rule(prefix=st.sampled_from(PREFIXES), fraction=FRACTIONS)
    def open_a_watch(self, prefix: str, fraction: int) -> None:
        after = self.revision_at(fraction)
        watch = self.store.watch(prefix, after=after)
        if after < self.model.compacted:
            with pytest.raises(Compacted):
                self.run(_next(watch))
        else:
            self.watches.append((watch, prefix, after))

    @precondition(lambda self: self.watches)
    @rule(which=st.integers(0, 100))
    def read_a_watch(self, which: int) -> None:
        index = which % len(self.watches)
        watch, prefix, reached = self.watches[index]
        expected = self.model.changes(prefix, reached)
        if not expected:
            return  # It would wait; or be told of a compaction, though it has missed nothing: either is fine.
        is_outdated = reached < self.model.compacted
        try:
            found, reached = self.run(_read(watch, None if is_outdated else len(expected)))
        except Compacted:
            # A watch that was slow may, but need not, be told: it may have had the changes in hand already.
            assert reached < self.model.compacted
            self.watches.pop(index)
            return
        if not is_outdated:
            assert sorted(found, key=lambda change: (change.revision, change.key)) == expected
            assert [change.revision for change in found] == sorted(change.revision for change in found)
        self.watches[index] = (watch, prefix, reached)

    @rule(fraction=FRACTIONS)
    def compact(self, fraction: int) -> None:
        target = self.revision_at(fraction)
        allowed = min([target, *(hold.revision for hold in self.holds)])
        self.model.compacted = max(self.model.compacted, allowed)
        assert self.run(self.store.compact(target)) == self.model.compacted

    @rule(fraction=FRACTIONS)
    def take_a_hold(self, fraction: int) -> None:
        revision = self.revision_at(fraction)
        if revision >= self.model.compacted:
            self.holds.append(self.store.hold(revision))

    @precondition(lambda self: self.holds)
    @rule()
    def release_a_hold(self) -> None:
        self.holds.pop(0).release()

    @precondition(lambda self: self.backend_name != "memory")
    @rule()
    def restart(self) -> None:
        self.run(self._close())
        self.watches.clear()
        self.holds.clear()
        self.store = self.run(self._reopen())

    @invariant()
    def the_latest_state_agrees(self) -> None:
        page = self.run(self.store.range(""))
        assert page.entries == self.model.under("", self.model.latest)
        assert page.revision == self.model.latest


def _puts(writes: list[Write]) -> bool:
    return any(isinstance(write, Put) for write in writes)


async def _next(watch: StoreWatch) -> object:
    return await anext(watch)


async def _read(watch: StoreWatch, count: int | None) -> tuple[list[KeyChange], int]:
    """So many changes, or the next batch if it is not known how many there must be; and how far that reaches."""
    batch = await anext(watch)
    changes = list(batch.changes)
    while count is not None and len(changes) < count:
        batch = await anext(watch)
        changes += batch.changes
    return changes, batch.revision


@pytest.mark.parametrize(
    ("backend_name", "examples"),
    [
        ("memory", 60),
        ("sqlite", 30),
        ("disk-log", 30),
        ("fake-etcd", 30),
        pytest.param("etcd", 4, marks=needs("etcd")),
        pytest.param("memory", 250, marks=pytest.mark.deep),
        pytest.param("sqlite", 120, marks=pytest.mark.deep),
        pytest.param("disk-log", 150, marks=pytest.mark.deep),
        pytest.param("fake-etcd", 150, marks=pytest.mark.deep),
        pytest.param("etcd", 12, marks=[needs("etcd"), pytest.mark.deep]),
    ],
)
def test_the_store_agrees_with_a_plain_model(backend_name: str, examples: int) -> None:
    run(backend_name, examples, list(Phase))


@pytest.mark.parametrize("twin", MODEL_TWINS, ids=lambda twin: twin.__name__)
def test_the_model_catches_a_planted_bug(twin, monkeypatch):
    twin(monkeypatch)

    # `Unhandled`: the store has noticed by itself, and ended its task.
    with pytest.raises((AssertionError, Compacted, Unhandled, pytest.fail.Exception)):
        run("memory", 250, [Phase.generate])  # Without shortening what fails: it is not going to be read.


def run(backend_name: str, examples: int, phases: list[Phase]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        attributes = {"backend_name": backend_name, "runner": runner if backend_name == "etcd" else None}
        run_state_machine_as_test(
            type("Machine", (StoreMachine,), attributes),
            settings=settings(
                max_examples=examples,
                stateful_step_count=40,
                deadline=None,
                derandomize=True,
                database=None,
                phases=phases,
                suppress_health_check=list(HealthCheck),
            ),
        )
