"""Which connection goes when there are too many."""

from datetime import timedelta
from typing import cast

from mainstay.env import tasks
from mainstay.http.connection_table import FRESH_MIN, ConnectionEntry, ConnectionTable
from mainstay.http.limits import HttpLimits
from tests.http.clients import connected, echo, get, later, serving


class Holder:
    def __init__(self, *, is_busy: bool = False) -> None:
        self.is_busy = is_busy
        self.is_dropped = False

    def drop(self) -> None:
        self.is_dropped = True


def entered(table: ConnectionTable, count: int, address: str = "a", *, is_busy: bool = False, is_used: bool = False):
    entries: list[ConnectionEntry] = []
    for _ in range(count):
        entry = table.enter(address, Holder(is_busy=is_busy))
        assert entry is not None
        if is_used:
            table.use(entry)
        entries.append(entry)
    return entries


def dropped(entries: list[ConnectionEntry]) -> list[int]:
    return [number for number, entry in enumerate(entries) if cast(Holder, entry.holder).is_dropped]


def test_a_flood_of_one_address_pushes_out_its_own_oldest():
    table = ConnectionTable(HttpLimits(connections=1_000, connections_per_address=100))
    other = entered(table, 1, "b")
    flood = entered(table, 600)
    assert dropped(flood) == list(range(500))
    assert not dropped(other)


def test_connections_that_have_asked_go_after_those_that_have_not_and_busy_ones_stay():
    table = ConnectionTable(HttpLimits(connections=1_000, connections_per_address=100))
    busy = entered(table, 20, is_busy=True, is_used=True)
    idle = entered(table, 10, is_used=True)
    fresh = entered(table, 80)
    assert (dropped(busy), dropped(idle), dropped(fresh)) == ([], [], list(range(10)))
    table = ConnectionTable(HttpLimits(connections=1_000, connections_per_address=100))
    busy = entered(table, 50, is_busy=True, is_used=True)
    idle = entered(table, 10, is_used=True)
    fresh = entered(table, 45)  # Few, and some may be about to show a certificate.
    assert (dropped(busy), dropped(idle), dropped(fresh)) == ([], [0, 1, 2, 3, 4], [])


def test_a_certificate_is_let_in_where_all_are_busy_and_others_are_told():
    table = ConnectionTable(HttpLimits(connections=100, connections_per_address=50))
    entered(table, 50, is_busy=True, is_used=True)
    ordinary, certified = entered(table, 2)
    table.certify(certified)
    assert (ordinary.is_surplus, certified.is_surplus) == (True, False)
    entered(table, 38, "b", is_busy=True, is_used=True)
    late = entered(table, 12, "c")
    assert all(entry.is_surplus for entry in late[1:])  # The last tenth.
    for entry in late[:9]:
        table.certify(entry)
        assert not entry.is_surplus


def test_beyond_all_limits_nothing_is_let_in():
    table = ConnectionTable(HttpLimits(connections=10))
    entered(table, 10 + FRESH_MIN, is_busy=True, is_used=True)
    assert table.enter("a", Holder()) is None
    assert table.dropped == 1


def test_what_left_is_not_counted_and_may_leave_again():
    table = ConnectionTable(HttpLimits(connections=4, connections_per_address=4))
    for _ in range(100):
        [entry] = entered(table, 1, is_busy=True, is_used=True)
        assert not entry.is_surplus
        table.leave(entry)
        table.leave(entry)
    assert table.dropped == 0


async def test_a_client_gets_through_a_flood_of_its_own_address():
    limits = HttpLimits(connections=1_000, connections_per_address=100)
    async with serving(echo, limits) as server:
        idle = await connected(server)
        await idle.ask(get())
        flood = [await connected(server) for _ in range(300)]
        client = await connected(server)
        assert (await client.ask(get())).status == 200
        assert (await idle.ask(get())).status == 200
        await tasks.sleep(timedelta(seconds=1))
        assert sum(each.is_over for each in flood) == 202
        assert server.connections_dropped == 202


async def test_busy_connections_of_one_address_are_bounded():
    async with serving(later(timedelta(hours=1)), HttpLimits(connections_per_address=10)) as server:
        for _ in range(10):
            (await connected(server)).send(get())
        await tasks.sleep(timedelta(seconds=1))
        late = await connected(server)
        assert (await late.reply()).status == 503
