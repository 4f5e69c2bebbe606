"""A little of the fuzzer with every run of the tests, and more in the deep lane. See the package's docstring."""

import pytest

from tests.fuzz.episodes import run_episode
from tests.twins import requests as twins

EPISODES_MAX = 20
"""What an episode asks for changes with the API. So which one meets a bug is left to chance, but not whether."""


@pytest.mark.parametrize(
    "number",
    [
        *(pytest.param(number, marks=pytest.mark.slow) for number in range(2)),
        *(pytest.param(number, marks=pytest.mark.deep) for number in range(2, 22)),
    ],
)
def test_an_episode_of_odd_requests_finds_nothing(number):
    episode = run_episode(seed=1, number=number)
    assert not episode.findings, episode.report()


def test_an_episode_is_a_function_of_its_seed_and_number():
    first, second = run_episode(seed=2, number=7, requests=60), run_episode(seed=2, number=7, requests=60)
    assert first == second
    assert sum(first.statuses.values()) == 60


@pytest.mark.slow
@pytest.mark.parametrize(
    ("twin", "found"),
    [
        (twins.fails_in_one_handler, "exception"),
        (twins.writes_before_it_validates, "stored by a request that was answered"),
        (twins.writes_in_a_dry_run, "stored by a request that was answered"),
        (twins.answers_503_for_another_reason, "status 503"),
        (twins.takes_half_a_body_for_the_whole, "accepted without all of its body"),
        (twins.keeps_the_room_of_bodies, "connection"),
        (twins.keeps_the_seats_of_a_client_that_left, "seats in use at the end"),
    ],
    ids=lambda given: given if isinstance(given, str) else given.__name__,
)
def test_a_planted_bug_is_found_within_a_few_episodes(twin, found, monkeypatch):
    twin(monkeypatch)
    episodes = (run_episode(seed=1, number=number) for number in range(EPISODES_MAX))
    assert any(finding.what.startswith(found) for episode in episodes for finding in episode.findings)
