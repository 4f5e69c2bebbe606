"""Whose long answer makes its next piece, in virtual time."""

import asyncio
from collections import Counter

import pytest

from mainstay.env import tasks
from mainstay.server.flow.turns import AnswerTurns, TurnQueue
from tests.server.world import CONFIGMAPS, Client, a_server


async def make_pieces(turns: AnswerTurns, name: str, made: list[str], count: int) -> None:
    for _ in range(count):
        await turns.wait()
        made.append(name)
    turns.end()


def no_pieces() -> list[str]:
    return []


def nothing() -> None:
    """What is called when an answer is over."""


async def test_flows_take_turns_however_many_answers_each_has():
    queue, made = TurnQueue(), no_pieces()
    works = [make_pieces(queue.begin(1, 10, nothing), "greedy", made, 50) for _ in range(20)]
    works.append(make_pieces(queue.begin(2, 10, nothing), "other", made, 50))
    await asyncio.gather(*works)
    assert Counter(made[:100]) == {"greedy": 50, "other": 50}


async def test_a_flow_has_turns_by_its_weight():
    queue, made = TurnQueue(), no_pieces()
    works = [
        make_pieces(queue.begin(1, 30, nothing), "heavy", made, 90),
        make_pieces(queue.begin(2, 10, nothing), "light", made, 90),
    ]
    await asyncio.gather(*works)
    assert Counter(made[:80])["heavy"] == pytest.approx(60, abs=2)


async def test_one_piece_is_made_in_a_turn_of_the_loop():
    queue, made, turns = TurnQueue(), no_pieces(), 0
    working = [tasks.spawn(make_pieces(queue.begin(n, 1, nothing), "x", made, 5), name="x") for n in range(10)]
    longest, before = 0, 0
    while not all(task.done() for task in working):
        await tasks.turns(1)
        longest, before, turns = max(longest, len(made) - before), len(made), turns + 1
    assert (longest, len(made)) == (1, 50)


async def test_a_client_that_goes_away_takes_no_turn_of_others():
    queue, made = TurnQueue(), no_pieces()
    gone = [tasks.spawn(make_pieces(queue.begin(1, 1, nothing), "gone", made, 5), name="gone") for _ in range(5)]
    here = tasks.spawn(make_pieces(queue.begin(2, 1, nothing), "here", made, 5), name="here")
    await tasks.turns(1)
    for task in gone:
        task.cancel()
    await here
    assert made.count("here") == 5
    assert made.count("gone") <= 1


async def test_the_end_is_told_once():
    told: list[str] = []
    turns = TurnQueue().begin(1, 1, lambda: told.append("over"))
    turns.end()
    turns.end()
    assert told == ["over"]


async def fill(client: Client) -> None:
    for number in range(60):
        body = {"metadata": {"name": f"c{number}"}, "data": {"text": "x" * 20_000}}
        await client.create(CONFIGMAPS, body)


@pytest.mark.parametrize("path", [CONFIGMAPS, f"{CONFIGMAPS}?watch=1"])
async def test_lists_and_watches_that_begin_with_the_state_take_turns(sim, monkeypatch, path: str):
    waited: list[str] = []
    wait = AnswerTurns.wait

    async def spied(self: AnswerTurns) -> None:
        waited.append(path)
        await wait(self)

    monkeypatch.setattr(AnswerTurns, "wait", spied)
    async with a_server(sim) as client:
        await fill(client)
        waited.clear()
        if path == CONFIGMAPS:
            assert len((await client.get(path))["items"]) == 60
        else:
            async with client.watch(path) as events:
                assert len(await events.take(60)) == 60
        assert len(waited) >= 3
