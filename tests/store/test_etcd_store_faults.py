"""The store on etcd with faults at random, with planted bugs, and on a real etcd that crashes."""

import asyncio
from datetime import timedelta

import pytest

import mainstay.store.etcd.store as store_module
from mainstay.env import Chance, tasks
from mainstay.sim.simulation import Simulation
from mainstay.store.errors import (
    OutcomeUnknown,
    StoreUnavailable,
)
from mainstay.store.etcd import EtcdStore, open_etcd
from mainstay.store.etcd.watch import EtcdWatch
from mainstay.store.interface import (
    Check,
    Committed,
    TransactionRefused,
    Write,
)
from tests.requirements import needs
from tests.store.etcd_calls import SEEDS, a_store
from tests.store.etcd_history import Notes, Violation, follow, settle, write
from tests.store.etcd_process import EtcdProcess, an_etcd_cluster
from tests.store.fake_etcd import FakeEtcd, Faults

pytestmark = pytest.mark.slow


# Any fault at all, at random.


def run_with_faults(seed: int, faults: Faults) -> Notes:
    """Two processes write and watch while things go wrong, then what they were told is checked."""
    with Simulation(seed) as simulation:
        return simulation.run(_writers_and_watchers(FakeEtcd(simulation.choices), faults))


async def _writers_and_watchers(etcd: FakeEtcd, faults: Faults) -> Notes:
    stores = (a_store(etcd), a_store(etcd))
    notes = (Notes(), Notes())
    watching = [
        tasks.spawn(follow(each.watch("", after=1), seen), name="watch")
        for each, seen in zip(stores, notes, strict=True)
    ]
    etcd.faults = faults
    writers = [write(stores[number % 2], notes[0], f"writer-{number}", ["x", "y", "z"], 12) for number in range(4)]
    await asyncio.gather(*writers)
    etcd.faults = Faults()
    await tasks.sleep(timedelta(minutes=1))  # Until whatever was late has landed.
    await settle(stores[0], *zip(watching, notes, strict=True))
    for each in stores:
        await each.close()
    return notes[0]


LOSSES = Faults(lose_request=0.1, lose_response=0.2, delay_request=0.1, delay_response=0.1)
CUTS = Faults(cut_watch=0.3, delay_watch=0.3)
EVERYTHING = Faults(0.05, 0.1, 0.05, 0.05, 0.2, 0.2)


@pytest.mark.parametrize("faults", [LOSSES, CUTS, EVERYTHING], ids=["losses", "cuts", "everything"])
def test_no_fault_makes_the_store_break_a_promise(faults: Faults) -> None:
    unknown = sum(len(run_with_faults(seed, faults).unknown) for seed in SEEDS)
    assert (unknown > 0) == (faults.lose_response > 0)


def expect_violation(faults: Faults, match: str) -> None:
    """Some seed must show it."""
    with pytest.raises(Violation, match=match):
        _ = [run_with_faults(seed, faults) for seed in SEEDS]


def test_twin_a_lost_answer_is_reported_as_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_commit_error", lambda error: StoreUnavailable(str(error)))
    expect_violation(LOSSES, "said not to have happened")


def test_twin_a_lost_answer_is_reported_as_a_success(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = EtcdStore.commit

    async def hopeful(self: EtcdStore, checks: list[Check], writes: list[Write]) -> Committed | TransactionRefused:
        try:
            return await commit(self, checks, writes)
        except OutcomeUnknown:
            return Committed(await self.revision())

    monkeypatch.setattr(EtcdStore, "commit", hopeful)
    expect_violation(LOSSES, "was acknowledged")


def test_twin_a_commit_is_repeated_when_its_answer_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = EtcdStore.commit

    async def stubborn(self: EtcdStore, checks: list[Check], writes: list[Write]) -> Committed | TransactionRefused:
        try:
            return await commit(self, checks, writes)
        except OutcomeUnknown:
            return await commit(self, checks, writes)

    monkeypatch.setattr(EtcdStore, "commit", stubborn)
    expect_violation(LOSSES, "said not to have happened")


def test_twin_a_broken_watch_is_resumed_one_revision_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_resumption(monkeypatch, +1)
    expect_violation(CUTS, "something is missing|the watch led to")


def test_twin_a_broken_watch_is_resumed_one_revision_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_resumption(monkeypatch, -1)
    expect_violation(CUTS, "was delivered again")


def plant_resumption(monkeypatch: pytest.MonkeyPatch, shift: int) -> None:
    pause = EtcdWatch._pause

    async def shifted(self: EtcdWatch, error: Exception) -> None:
        self._received += shift
        await pause(self, error)

    monkeypatch.setattr(EtcdWatch, "_pause", shifted)


# A real etcd that crashes.


async def write_and_watch_while_members_crash(members: list[EtcdProcess], crashes: int) -> None:
    """Kill one member after the other, each time after a while of writing, and start it again."""
    store = await open_etcd([member.endpoint for member in members], chance=Chance(b"test"))
    notes = Notes()
    watching = tasks.spawn(follow(store.watch("", after=1), notes), name="watch")
    is_over = asyncio.Event()
    writers = [
        tasks.spawn(_write_until(is_over, store, notes, f"writer-{number}"), name="write") for number in range(8)
    ]
    for crash in range(crashes):
        acknowledged = len(notes.acknowledged)
        while len(notes.acknowledged) < acknowledged + 100:
            await tasks.sleep(timedelta(milliseconds=10))
        member = members[crash % len(members)]
        member.kill()
        await asyncio.to_thread(member.start)
    is_over.set()
    for writer in writers:
        await writer
    await settle(store, (watching, notes))
    await store.close()


async def _write_until(is_over: asyncio.Event, store: EtcdStore, notes: Notes, writer: str) -> None:
    attempt = 0
    while not is_over.is_set():
        attempt += 1
        await write(store, notes, f"{writer}/{attempt}", ["x", "y", writer], 3, pause=timedelta(0))


@needs("etcd")
@pytest.mark.real_loop
async def test_when_a_real_etcd_is_killed_no_acknowledged_write_is_lost_and_a_watch_has_no_gap() -> None:
    with EtcdProcess() as etcd:
        await write_and_watch_while_members_crash([etcd], crashes=3)


@needs("etcd")
@pytest.mark.real_loop
async def test_when_each_member_of_a_real_cluster_is_killed_in_turn_nothing_is_lost_either() -> None:
    with an_etcd_cluster(3) as members:
        await write_and_watch_while_members_crash(members, crashes=3)
