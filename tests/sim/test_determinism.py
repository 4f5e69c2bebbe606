"""The same seed gives the same run: again in this process, in another process, and under any hash seed."""

import os
import subprocess
import sys

import msgspec
import pytest

from mainstay.sim.loop.trace import Recording, first_difference
from tests.sim import program

pytestmark = pytest.mark.slow


def record_in_another_process(seed: int, hash_seed: str, *options: str) -> Recording:
    done = subprocess.run(
        [sys.executable, "-m", "tests.sim.program", str(seed), *options],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=Recording)


@pytest.fixture(scope="module")
def here() -> Recording:
    return program.record(7)


@pytest.mark.parametrize("hash_seed", ["0", "1", "2", "random"])
def test_another_process_and_hash_seed_make_no_difference(here: Recording, hash_seed: str):
    there = record_in_another_process(7, hash_seed)

    assert first_difference(here, there) is None
    assert here == there


def test_a_second_run_in_the_same_process_makes_no_difference(here: Recording):
    again = program.record(7)

    assert first_difference(here, again) is None


def test_another_seed_makes_another_run(here: Recording):
    other = program.record(8)

    assert other.digest != here.digest
    assert first_difference(here, other) is not None


def test_a_leak_of_the_order_of_a_set_is_found_and_named():
    recordings = [record_in_another_process(7, hash_seed, "leak") for hash_seed in ("0", "1")]

    difference = first_difference(*recordings)

    assert difference is not None
    assert difference.left is not None
    assert difference.right is not None
    assert difference.left.what.startswith("leaked ")
    assert difference.right.what.startswith("leaked ")
    assert difference.left.time_ns == difference.right.time_ns == 1_000_000_000
