"""A comparison that never failed has shown nothing: with a planted bug it does."""

from random import Random

import pytest

from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.policy import DEFAULT
from mainstay.scheduler.what_if import build_columns
from tests.scheduler import naive
from tests.scheduler.cache.test_same_as_naive import EMPTY, agree, outcome
from tests.scheduler.random_clusters import random_objects, random_pod, something_happens
from tests.scheduler.telling import tell
from tests.twins.deciding import TWINS

SEEDS_MAX = 300


def a_run(number: int) -> None:
    """Some changes, and after each a few decisions."""
    random = Random(number)
    pods = [random_pod(random, f"p{each}") for each in range(3)]
    objects, columns = random_objects(random), build_columns(EMPTY)
    tell(columns, EMPTY, objects, random)
    vectors = Vectors(columns)
    for step in range(8):
        for pod in pods:
            agree(outcome(vectors, pod, DEFAULT), naive.decide(objects, pod, DEFAULT, "s"))
        after = something_happens(random, objects, step)
        tell(columns, objects, after, random)
        objects = after


def test_without_a_bug_all_runs_agree() -> None:
    for number in range(SEEDS_MAX // 10):
        a_run(number)


@pytest.mark.parametrize("name", TWINS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    TWINS[name](monkeypatch)

    with pytest.raises(AssertionError):
        for number in range(SEEDS_MAX):
            a_run(number)
