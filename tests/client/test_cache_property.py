"""Caches over an unreliable network: no promise is broken, and each planted bug is found."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mainstay.sim.errors import Unhandled
from tests.client import cache_faults
from tests.twins import caches as twins

pytestmark = pytest.mark.slow

SEEDS = range(12)
WRITES = 300

ROOT = Path(__file__).parent.parent.parent


def test_a_cache_is_what_there_was_at_its_revision_whatever_happens_on_the_way():
    for seed in SEEDS:
        cache_faults.run(seed, WRITES)


def test_and_also_after_thousands_of_writes():
    cache_faults.run(5, 3000)


@pytest.mark.parametrize(
    "twin",
    [
        twins.keeps_what_is_missing_from_a_state,
        twins.takes_a_name_for_an_object,
        twins.applies_whatever_comes,
        twins.takes_half_a_state_for_all_of_it,
        twins.says_it_is_where_it_only_was_told_to_go,
        twins.forgets_to_leave_an_index,
    ],
    ids=lambda twin: twin.__name__,
)
def test_a_cache_with_a_planted_bug_is_caught(twin: twins.Twin, monkeypatch):
    twin(monkeypatch)

    with pytest.raises(cache_faults.Broken if twin is not twins.applies_whatever_comes else Unhandled):
        for seed in range(40):
            cache_faults.run(seed, WRITES)


def test_the_same_seed_gives_the_same_run_in_any_process():
    program = f"from tests.client import cache_faults; print(cache_faults.run(7, {WRITES}))"
    digests = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]

    assert digests[0] == digests[1] != ""
    assert cache_faults.run(7, WRITES) != cache_faults.run(8, WRITES)
