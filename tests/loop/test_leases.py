"""Leaders: one at a time, and those that were deposed can do no more."""

import asyncio
from datetime import timedelta
from typing import cast

import pytest

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import CONFIG_MAPS, LEASES
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, Conflict, Fenced, Unavailable
from mainstay.env import Clock, tasks
from mainstay.loop.fencing import ObservedLease
from mainstay.loop.lease import DEFAULT_TIMES, Leader, may_take
from mainstay.loop.term import Deposed, Term
from tests.client.world import a_client, a_gate, a_world

SECOND_NS = 1_000_000_000


def a_lease(holder: str, duration_s: int = 15):
    return {"spec": {"holderIdentity": holder, "leaseDurationSeconds": duration_s}}


@pytest.mark.parametrize(
    ("lease", "seen_for_s", "expected"),
    [
        (a_lease(""), 0, True),
        (a_lease("other"), 14, False),
        (a_lease("other"), 17, True),
        (a_lease("other", 60), 17, False),
        (a_lease("me"), 0, True),
    ],
)
def test_a_lease_is_taken_when_it_is_free_or_was_seen_unchanged_for_long_enough(lease, seen_for_s, expected):
    assert may_take(lease, "me", ObservedLease(1, 0), seen_for_s * SECOND_NS, DEFAULT_TIMES) is expected


class Office:
    """Notes who leads when, and writes under each term."""

    def __init__(self) -> None:
        self.terms: list[tuple[str, int]] = []
        self.leading: dict[str, Term] = {}
        self.both = False

    def lead(self, name: str, client):
        async def lead(term: Term) -> None:
            self.terms.append((name, term.revision))
            self.leading[name] = term
            self.both = self.both or sum(each.is_valid for each in self.leading.values()) > 1
            number = 0
            try:
                while True:
                    number += 1
                    made = {"metadata": {"name": f"{name}-{term.revision}-{number}"}}
                    try:
                        await client.create(CONFIG_MAPS, made, "default", write=WriteOptions(term=term.text))
                    except Fenced as error:
                        raise Deposed(str(error)) from error
                    except ApiError:
                        pass
                    await tasks.sleep(timedelta(seconds=1))
            finally:
                del self.leading[name]

        return lead


async def test_one_of_several_leads_and_another_one_follows_when_it_goes(sim):
    office = Office()
    async with a_world(sim) as world:
        candidates = {}
        for name in ("a", "b", "c"):
            leader = Leader(world.client, sim.env(name), "kube-system", "boss", f"{name}_1")
            candidates[name] = tasks.spawn(leader.run(office.lead(name, world.client)), name=name)
        await tasks.sleep(timedelta(minutes=2))
        assert len(office.terms) == 1

        first = office.terms[0][0]
        await tasks.stop(candidates.pop(first))
        await tasks.sleep(timedelta(seconds=5))  # It gave the lease back, so no candidate waits for its end.
        assert len(office.terms) == 2
        assert office.terms[1][0] != first
        lease = await world.client.get(LEASES, "boss", "kube-system")
        assert lease["spec"]["leaseTransitions"] >= 1
        for task in candidates.values():
            await tasks.stop(task)
        assert not office.both


async def test_a_leader_that_cannot_renew_stops_before_the_next_one_begins(sim):
    office = Office()
    async with a_world(sim) as world, a_gate(sim) as gate, a_client(sim, "gate:7000", name="a") as cut_off:
        one = Leader(cut_off, sim.env("a"), "kube-system", "boss", "a_1")
        two = Leader(world.client, sim.env("b"), "kube-system", "boss", "b_1")
        running = [tasks.spawn(one.run(office.lead("a", cut_off)), name="a")]
        await tasks.sleep(timedelta(seconds=5))
        running.append(tasks.spawn(two.run(office.lead("b", world.client)), name="b"))
        await tasks.sleep(timedelta(seconds=20))
        assert list(office.leading) == ["a"]

        gate.holds_answers = True
        await tasks.sleep(timedelta(seconds=60))
        assert list(office.leading) == ["b"]
        assert not office.both
        gate.holds_answers = False
        gate.break_all()
        await tasks.sleep(timedelta(seconds=60))
        assert list(office.leading) == ["b"]
        for task in running:
            await tasks.stop(task)


async def test_an_acquisition_whose_answer_was_lost_is_made_again(sim):
    office = Office()
    async with a_world(sim) as world, a_gate(sim) as gate, a_client(sim, "gate:7000", name="a") as client:
        leader = Leader(client, sim.env("a"), "kube-system", "boss", "a_1")
        gate.answers_to_lose = 2
        task = tasks.spawn(leader.run(office.lead("a", client)), name="a")
        await tasks.sleep(timedelta(seconds=30))
        assert list(office.leading) == ["a"]
        made = await world.client.create(
            CONFIG_MAPS, {"metadata": {"name": "x"}}, "default", write=WriteOptions(term=office.leading["a"].text)
        )
        assert made["metadata"]["name"] == "x"
        await tasks.stop(task)


async def test_a_candidate_without_the_right_says_so_once_and_leads_when_it_is_granted(sim, caplog):
    office = Office()
    async with a_world(sim) as world, a_client(sim, token="usertoken", name="a") as client:
        leader = Leader(client, sim.env("a"), "kube-system", "boss", "a_1")
        task = tasks.spawn(leader.run(office.lead("a", client)), name="a")
        await tasks.sleep(timedelta(minutes=1))
        assert office.terms == []
        said = [record.getMessage() for record in caplog.records if "cannot take" in record.getMessage()]
        assert len(said) == 1
        assert "kube-system/boss" in said[0]
        assert 'User "alice" cannot get resource "leases"' in said[0]

        await world.asking.create(
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            {
                "metadata": {"name": "alice"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
            },
        )
        await tasks.sleep(timedelta(seconds=10))
        assert list(office.leading) == ["a"]
        await tasks.stop(task)


class LosingClient:
    """Passes on what a leader asks for. Loses the answer to one renewal, and all writes after the conflict."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self.loses_answer = False
        self.lost_sent_ns = 0
        """When the renewal was sent whose answer was lost."""
        self.conflicts = 0

    async def get(self, kind: KindName, name: str, namespace: str) -> Object:
        return await self._client.get(kind, name, namespace)

    async def create(self, kind: KindName, obj: Object, *, write: WriteOptions) -> Object:
        return await self._client.create(kind, obj, write=write)

    async def replace(self, kind: KindName, obj: Object, *, write: WriteOptions) -> Object:
        if self.conflicts:
            raise Unavailable("cut off")
        sent_ns = self._clock.monotonic_ns()
        try:
            written = await self._client.replace(kind, obj, write=write)
        except Conflict:
            self.conflicts += 1
            raise
        if self.loses_answer:
            self.loses_answer, self.lost_sent_ns = False, sent_ns
            raise Unavailable("the answer is lost", may_have_happened=True)
        return written


async def test_a_conflict_with_its_own_renewal_gives_a_leader_no_time_beyond_that_renewal(sim):
    clock = sim.get_clock("a")
    async with a_world(sim) as world:
        losing = LosingClient(world.client, clock)
        terms: list[Term] = []

        async def lead(term: Term) -> None:
            terms.append(term)
            await asyncio.Event().wait()

        leader = Leader(cast(Client, losing), sim.env("a"), "kube-system", "boss", "a_1")
        task = tasks.spawn(leader.run(lead), name="a")
        await tasks.sleep(timedelta(seconds=1))
        losing.loses_answer = True
        while not losing.conflicts:
            await tasks.sleep(timedelta(milliseconds=100))
        await tasks.sleep(timedelta(seconds=1))

        (term,) = terms
        assert term.is_valid
        ends_ns = clock.monotonic_ns() + term.left // timedelta(microseconds=1) * 1000
        assert ends_ns <= losing.lost_sent_ns + DEFAULT_TIMES.hold_ns
        await tasks.stop(task)


async def test_a_leader_that_was_paused_is_refused_by_the_server_when_it_goes_on(sim):
    async with a_world(sim) as world:
        ready, go_on = asyncio.Event(), asyncio.Event()
        refused: list[BaseException] = []

        async def lead(term: Term) -> None:
            ready.set()
            await go_on.wait()
            try:
                # It has not looked at its clock, as a process that was stopped between two lines would not.
                write = WriteOptions(term=term.text)
                await world.client.create(CONFIG_MAPS, {"metadata": {"name": "late"}}, "default", write=write)
            except Fenced as error:
                refused.append(error)
                raise Deposed(str(error)) from error

        leader = Leader(world.client, sim.env("a"), "kube-system", "boss", "a_1")
        task = tasks.spawn(leader.run(lead), name="a")
        await ready.wait()
        lease = await world.client.get(LEASES, "boss", "kube-system")
        await world.client.replace(LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": "b_1"}})
        go_on.set()
        await tasks.sleep(timedelta(seconds=1))
        assert len(refused) == 1
        page = await world.client.list(CONFIG_MAPS, "default")
        assert "late" not in [item["metadata"]["name"] for item in page.items]
        await tasks.stop(task)
