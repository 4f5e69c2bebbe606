"""A run can be looked at while its time stands still."""

from datetime import timedelta
from pathlib import Path

import pytest

from mainstay.api.kind_names import CONFIG_MAPS, SECRETS
from mainstay.client.client import Client
from mainstay.client.config import Config
from mainstay.client.errors import ApiError
from mainstay.client.remote_journal import RemoteJournal
from mainstay.env import Chance, Env, SystemClock, SystemDisk
from mainstay.sim.cluster.history import Event, RevisionCommitted, StoreReopened, StoreRestored
from mainstay.sim.failure.frozen_server import FrozenState, NoSuchTime, freeze_at, rows_until, serve_frozen
from mainstay.store.interface import Entry
from mainstay.store.log import DeletedVersion, LogRow
from tests.sim.failing_run import failing_run

pytestmark = pytest.mark.slow

ORDERS = CONFIG_MAPS


@pytest.fixture(scope="module")
def failed() -> FrozenState:
    return freeze_at(failing_run())


def client_of(url: str) -> Client:
    return Client(Config((url,)), Env(SystemClock(), Chance.fresh(), SystemDisk(Path())), user_agent="test")


@pytest.mark.real_loop
async def test_what_was_there_when_it_failed_can_be_read_and_not_written(failed: FrozenState):
    async with serve_frozen(failed) as server, client_of(server.url) as client:
        secrets = await client.list(SECRETS, "default")
        first = secrets.items[0]["metadata"]["name"]
        with pytest.raises(ApiError, match="the cluster is read-only") as refused:
            await client.delete(SECRETS, first, "default")
        changes = await RemoteJournal(client).changes(kind="secrets")

    problem = failed.result.problem
    assert refused.value.status == 405
    assert len(secrets.items) == len(changes.records)
    # What was delivered twice.
    names = [each["metadata"]["name"] for each in secrets.items]
    assert sum(f" creates core/secrets/default/{name} for #" in problem for name in names) == 2


def test_a_moment_before_the_end_has_less_of_everything(failed: FrozenState):
    early = freeze_at(failing_run(), "3s")

    assert early.at_ns == early.began_ns + 3_000_000_000
    assert early.wall == failed.wall - timedelta(microseconds=(failed.at_ns - early.at_ns) // 1000)
    assert 0 < len(early.rows) < len(failed.rows)
    assert early.rows == failed.rows[: len(early.rows)]
    assert early.result == failed.result


def test_a_moment_can_be_said_in_three_ways(failed: FrozenState):
    bundle = failing_run()
    since = freeze_at(bundle, "2s")

    assert freeze_at(bundle, f"{since.at_ns / 1e9}") == since
    assert freeze_at(bundle, since.wall.isoformat().replace("+00:00", "Z")) == since
    assert freeze_at(bundle, "10h").at_ns == failed.at_ns
    with pytest.raises(NoSuchTime, match="'soon' must be a duration since the start"):
        freeze_at(bundle, "soon")


def test_what_the_store_has_lost_is_not_there():
    events: list[Event] = [
        RevisionCommitted(1, 5, "a", b"1", None, None),
        RevisionCommitted(2, 6, "a", b"2", b"1", None),
        RevisionCommitted(2, 6, "b", b"1", None, None),
        RevisionCommitted(3, 7, "b", None, b"1", None),
        StoreReopened(4, 6),
        RevisionCommitted(5, 7, "a", None, b"2", None),
        StoreRestored(6, 5),
        RevisionCommitted(7, 6, "a", b"3", b"1", None),
        RevisionCommitted(99, 7, "c", b"1", None, None),
    ]

    assert rows_until(events, 3)[-1] == LogRow(7, (DeletedVersion("b", 7),))
    assert rows_until(events, 5)[-1] == LogRow(7, (DeletedVersion("a", 7),))
    assert rows_until(events, 9) == [LogRow(5, (Entry("a", b"1", 5, 5, 1),)), LogRow(6, (Entry("a", b"3", 5, 6, 2),))]
