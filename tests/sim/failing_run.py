"""A run that fails, small and quick, for tests of what is done with such runs.

A clerk's answer is lost, and a server with a planted bug does what it is asked a second time.
"""

from functools import cache

from mainstay.sim.failure.rerun import repeat_run
from mainstay.sim.run.bundle import RunBundle
from mainstay.sim.run.choices import Choice, Tape
from mainstay.sim.run.forks import decode, encode
from mainstay.sim.run.run import Booted, RunResult

SCENARIO = "one-delivery"
PLANTED = "tests.twins.sim:does_an_operation_each_time_it_is_asked"

LOST = Choice("fault/answer-lost/clerk", 4, 2, 1)
EARLIER = Choice("fault/pause", 0, 2, 1)
TAPE = [EARLIER, Choice("fault/pause/duration", 0, 7, 2), LOST, Choice("work/pause", 1, 5, 3)]


@cache
def failing_run() -> RunBundle:
    """Its bundle. The answer that is lost is all that matters of its tape."""
    empty = RunResult(SCENARIO, 1, "violated", "", "", 0.0, 0)  # type: ignore[arg-type]
    bundle = RunBundle.of(empty, scenario=SCENARIO, planted=PLANTED)
    (sent,) = repeat_run(bundle, _result, tapes=[Tape(TAPE)])
    return RunBundle.of(decode(sent), scenario=SCENARIO, planted=PLANTED)


def _result(booted: Booted, result: RunResult) -> bytes:
    return encode(result)
