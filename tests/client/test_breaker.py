"""When a server is left alone, and when it is tried again."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.kind_names import PODS
from mainstay.client import breaker
from mainstay.client.breaker import (
    HEALTHY,
    BreakerClosed,
    BreakerOpen,
    BreakerProbing,
    BreakerRules,
    BreakerState,
    State,
)
from mainstay.client.errors import Unavailable
from mainstay.client.limits import ClientLimits
from mainstay.env import tasks
from mainstay.env.invariants import BrokenInvariant
from tests.client.world import a_client, a_scripted_server, an_answer, seconds
from tests.server.world import a_server

RULES = BreakerRules(failures_max=3, open_for=timedelta(seconds=1), open_for_max=timedelta(seconds=4))
S = 1_000_000_000
PROBE = 30 * S


def after_failures(count: int, now_ns: int = 0) -> State:
    state: State = HEALTHY
    for _ in range(count):
        state = breaker.failed(state, now_ns, RULES)
    return state


def test_it_opens_after_so_many_failures_in_a_row():
    assert after_failures(2) == BreakerClosed(2)
    assert after_failures(3) == BreakerOpen(until_ns=S, trips=1)


def test_an_answer_in_between_starts_the_count_again():
    assert breaker.succeeded(after_failures(2)) == HEALTHY


@pytest.mark.parametrize("failures", [-1, 3])
def test_a_count_that_cannot_be_is_noticed(failures: int):
    with pytest.raises(BrokenInvariant, match=f"failures={failures}"):
        breaker.failed(BreakerClosed(failures), 0, RULES)


def test_nothing_is_sent_while_it_is_open():
    assert breaker.admit(after_failures(3), S - 1, RULES) is None


def test_then_one_probe_may_go_and_no_second():
    probing = breaker.admit(after_failures(3), S, RULES)

    assert probing == BreakerProbing(S + PROBE, 1)
    assert breaker.admit(probing, S + 1, RULES) is None


def test_a_probe_that_is_answered_closes_it():
    assert breaker.succeeded(BreakerProbing(S, 5)) == HEALTHY


def test_each_probe_that_fails_doubles_the_wait_up_to_a_limit():
    waits = []
    state: State = after_failures(3)
    now_ns = S
    for _ in range(4):
        probing = breaker.admit(state, now_ns, RULES)
        assert probing is not None
        state = breaker.failed(probing, now_ns, RULES)
        assert isinstance(state, BreakerOpen)
        waits.append((state.until_ns - now_ns) // S)
        now_ns = state.until_ns

    assert waits == [2, 4, 4, 4]


def test_a_probe_of_which_nothing_is_heard_is_lost_after_a_while():
    probing = BreakerProbing(PROBE, 2)

    assert breaker.admit(probing, PROBE - 1, RULES) is None
    assert breaker.admit(probing, PROBE, RULES) == BreakerProbing(2 * PROBE, 2)


def test_failures_of_what_was_sent_before_it_opened_do_not_prolong_it():
    assert breaker.failed(BreakerOpen(S, 1), S // 2, RULES) == BreakerOpen(S, 1)


def test_its_condition_has_a_name():
    states = (HEALTHY, BreakerClosed(2), BreakerOpen(1, 1), BreakerProbing(1, 1))

    assert [breaker.condition(state) for state in states] == [
        BreakerState.CLOSED,
        BreakerState.CLOSED,
        BreakerState.OPEN,
        BreakerState.PROBING,
    ]


steps = st.lists(st.tuples(st.sampled_from(["ask", "answered", "failed"]), st.integers(0, 10 * S)), max_size=60)


@given(steps)
def test_it_is_never_shut_for_ever_and_never_opens_without_cause(taken):
    state: State = HEALTHY
    now_ns, failures = 0, 0
    for step, passed_ns in taken:
        now_ns += passed_ns
        match step:
            case "ask":
                state = breaker.admit(state, now_ns, RULES) or state
            case "answered":
                state, failures = breaker.succeeded(state), 0
            case "failed":
                state, failures = breaker.failed(state, now_ns, RULES), failures + 1
        assert isinstance(state, BreakerClosed) == (failures < RULES.failures_max)
    longest_ns = PROBE + 4 * S
    assert breaker.admit(state, now_ns + longest_ns, RULES) is not None


async def test_a_dead_server_is_left_alone_and_found_again(sim):
    limits = ClientLimits(breaker=RULES)
    with sim.network.host("client").active():
        async with a_client(sim, limits=limits) as client:
            with pytest.raises(Unavailable):
                await client.list(PODS)
            assert [state.condition for state in client.servers()] == [BreakerState.OPEN]
            unsent = client.counts.unsent
            began_ns = sim.clock.monotonic_ns()
            for _ in range(100):
                with pytest.raises(Unavailable, match="no server available") as refused:
                    await client.list(PODS)
                assert not refused.value.may_have_happened

            assert (client.counts.unsent, sim.clock.monotonic_ns()) == (unsent, began_ns)  # Nothing was tried.
            async with a_server(sim):
                await tasks.sleep(seconds(1))
                assert (await client.list(PODS)).items == []

            assert [state.condition for state in client.servers()] == [BreakerState.CLOSED]


async def test_a_probe_that_was_given_up_does_not_keep_others_out(sim):
    def silent(_: bytes, transport: object) -> None:
        pass

    async with a_scripted_server(sim, silent), a_client(sim, limits=ClientLimits(breaker=RULES)) as client:
        sim.network.cut("client", "server")
        for _ in range(2):
            with pytest.raises(Unavailable):
                await client.list(PODS)
        sim.network.heal("client", "server")
        await tasks.sleep(seconds(10))
        with pytest.raises(TimeoutError):
            async with tasks.timeout(seconds(1)):
                await client.list(PODS)

        assert client.servers()[0].condition is BreakerState.OPEN


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_a_server_that_says_it_can_do_nothing_counts_as_failing(sim, status):
    answer = an_answer(f"{status} No", b"no")
    async with a_scripted_server(sim, lambda _, transport: transport.write(answer)), a_client(sim) as client:
        with pytest.raises(Unavailable):
            await client.list(PODS)

        assert client.servers()[0].condition is BreakerState.OPEN


async def test_a_server_that_fails_on_one_request_does_not(sim):
    answer = an_answer("500 No", b"no")
    async with a_scripted_server(sim, lambda _, transport: transport.write(answer)), a_client(sim) as client:
        with pytest.raises(Unavailable):
            await client.list(PODS)

        assert client.servers()[0].condition is BreakerState.CLOSED
