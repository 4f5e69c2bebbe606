"""The promises of a scheduler at work, each with a planted bug that breaks it."""

import pytest

from tests.scheduler import test_cycle
from tests.scheduler.queue import test_scheduling_queue
from tests.twins import scheduling

pytestmark = pytest.mark.slow


def test_to_lose_a_cure_is_found(monkeypatch):
    scheduling.loses_what_comes_before_the_parking(monkeypatch)

    with pytest.raises(AssertionError):
        test_scheduling_queue.test_a_cure_that_comes_between_the_decision_and_the_parking_is_not_lost()


async def test_to_free_the_room_of_a_binding_that_may_yet_be_done_is_found(sim, monkeypatch):
    scheduling.takes_no_answer_for_a_no(monkeypatch)

    with pytest.raises(AssertionError):
        await test_cycle.test_a_binding_without_an_answer_holds_its_room_until_it_is_known_what_became_of_it(
            sim, monkeypatch
        )


async def test_to_try_the_same_node_again_is_found(sim, monkeypatch):
    scheduling.tries_the_same_node_again(monkeypatch)

    with pytest.raises(AssertionError):
        await test_cycle.test_a_refused_binding_gets_a_fresh_candidate_at_once(sim, monkeypatch)


async def test_not_to_ask_again_is_found(sim, monkeypatch):
    scheduling.gives_up_repeating(monkeypatch)

    with pytest.raises((AssertionError, TimeoutError)):
        await test_cycle.test_a_request_that_gets_lost_is_sent_again(sim, monkeypatch)
