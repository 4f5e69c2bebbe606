"""An operator made with kopf, as it is, on its worst days: each of its known bugs is found, and the fixed one has none.

It is that of examples/worst_day, where each fault is tried at all places; here, only at some.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.worst_day.stage import BUGGY, FIXED, OPERATOR, the_story
from examples.worst_day.trying import CRASH, CUT, HANG, tries

pytestmark = pytest.mark.slow

CHILDREN = "/api/v1/namespaces/default"
TRACE = (
    "import logging; logging.disable(logging.CRITICAL)\n"
    "from examples.worst_day.stage import FIXED, the_story\n"
    "from mainstay.sim.run.forks import run_many\n"
    "(result,) = run_many(the_story('it changes', FIXED), [3])\n"
    "print(result.verdict, result.trace)\n"
)


def broken(story: str, module: str, instances: int, fault: str, *, one_in: int = 1, where: tuple[str, ...] = ("",)):
    """The promises that are broken by this fault at one place or another."""
    first, *runs = tries(the_story(story, module, instances), OPERATOR, fault, one_in=one_in, where=where)
    assert (first.aim, first.result.problem) == (None, "")
    assert runs
    return {run.broken for run in runs} - {""}


@pytest.mark.parametrize(
    ("story", "instances", "fault", "where", "promises"),
    [
        (
            "it changes",
            1,
            CRASH,
            (
                f"POST {CHILDREN}/secrets/orders-client-tls",  # And takes it for both certificates afterwards.
                f"DELETE {CHILDREN}/pods/orders-1",  # And takes its volume for a grown one.
                f"DELETE {CHILDREN}/pods/orders-2",  # And forgets its volume.
                f"PATCH {CHILDREN}/configmaps/orders-settings",  # And takes its members for restarted.
            ),
            {"nothing in the clear", "volumes large enough", "nothing left over", "settings in force"},
        ),
        ("it changes", 1, CUT, ("core/pods/default/orders-0, change 6",), {"all members there"}),
        (
            "it comes again",
            2,
            HANG,
            ("example.com/databases/default/orders, change 5", "example.com/databases/default/orders, change 10"),
            {"no data lost", "not another's data"},
        ),
    ],
)
def test_the_bugs_of_an_operator_are_found(
    story: str, instances: int, fault: str, where: tuple[str, ...], promises: set[str]
):
    assert broken(story, BUGGY, instances, fault, where=where) == promises


@pytest.mark.deep
@pytest.mark.parametrize(
    ("story", "instances", "fault", "one_in"),
    [("it changes", 1, CRASH, 6), ("it changes", 1, CUT, 8), ("it comes again", 2, HANG, 6)],
)
def test_the_fixed_operator_keeps_its_promises(story: str, instances: int, fault: str, one_in: int):
    assert broken(story, FIXED, instances, fault, one_in=one_in) == set()


@pytest.mark.deep
def test_an_operator_made_with_kopf_does_the_same_under_another_hash_seed():
    def trace(hash_seed: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", TRACE],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        return done.stdout

    first = trace("1")
    assert first.startswith("passed ")
    assert first == trace("77")
