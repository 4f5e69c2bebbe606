"""Another Python, with another hash seed, that makes runs: the second opinion of determinism_guard.py.

    with OtherProcess(hash_seed=17) as other:
        made = other.make(Wanted("racing-schedulers", [4, 25]))

It is started when it is first asked, and then kept: to start a Python and import everything takes a second, where a run
takes a tenth of one. It finds modules wherever this process does. What it is asked for it makes in forks, as this
process does (`make`), so that one request does not change what the next one finds.
"""

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import IO, Final

import msgspec

from mainstay.env.build import build
from mainstay.env.processes import Send
from mainstay.sim.errors import SimulationError
from mainstay.sim.loop.trace import Trace
from mainstay.sim.loop.traced_stacks import StackTrace, TracedEvent, watch_origins
from mainstay.sim.run.forks import LostFork, from_booted, run_in_forks
from mainstay.sim.run.lookup import UnknownScenario, find_patch, find_scenario
from mainstay.sim.run.run import Booted
from mainstay.sim.strategies.table import STRATEGIES

_HEAD: Final = struct.Struct("<I")


class RepeatFailed(SimulationError):
    """The other process cannot make these runs. Says why."""


class RunRequest(msgspec.Struct, frozen=True):
    """Runs to be made: all that can be said of them in words, since another process has nothing else to go by."""

    scenario: str
    """By name, or as module:attribute (lookup.py)."""
    seeds: list[int]
    planted: str = ""
    strategy: str = "random"
    jobs: int = 1
    stacks_of: int | None = None
    """The number of the batch of events that is to be told in full, with stacks."""


class RepeatedRuns(msgspec.Struct, frozen=True):
    """One that was made."""

    seed: int
    digest: str = ""
    checkpoints: list[str] = []
    before: int = 0
    """How many events there were before `seen`."""
    seen: list[TracedEvent] = []
    lost: str = ""
    """Why nothing of it is known: its process has died, or took too long. Empty if it came to its end."""


class _Answer(msgspec.Struct, frozen=True):
    build: str
    made: list[RepeatedRuns] = []
    problem: str = ""


_encode = msgspec.msgpack.Encoder().encode
_decode_wanted = msgspec.msgpack.Decoder(RunRequest).decode
_decode_made = msgspec.msgpack.Decoder(RepeatedRuns).decode
_decode_answer = msgspec.msgpack.Decoder(_Answer).decode


def make(wanted: RunRequest) -> list[RepeatedRuns]:
    """Make these runs in forks of this process, each once, also if it is lost. Raises `UnknownScenario`."""
    plant = find_patch(wanted.planted) if wanted.planted else None
    with_stacks = wanted.stacks_of is not None

    def patch() -> None:
        if with_stacks:
            watch_origins()
        if plant is not None:
            plant()

    trace = None if wanted.stacks_of is None else partial(StackTrace, wanted.stacks_of)
    made: dict[int, RepeatedRuns] = {}
    for sent in from_booted(find_scenario(wanted.scenario), partial(_make_all, wanted), patch, trace=trace):
        if isinstance(
            sent, LostFork
        ):  # The one that has booted the scenario, and all runs with it that are not made yet.
            made |= {seed: RepeatedRuns(seed, lost=sent.how) for seed in wanted.seeds if seed not in made}
        else:
            each = _decode_made(sent)
            made[each.seed] = each
    return list(made.values())


def _make_all(wanted: RunRequest, booted: Booted, send: Send) -> None:
    works = [partial(_make_one, wanted, booted, seed) for seed in wanted.seeds]
    for seed, sent in zip(wanted.seeds, run_in_forks(works, wanted.jobs), strict=True):
        send(_encode(RepeatedRuns(seed, lost=sent.how)) if isinstance(sent, LostFork) else sent)


def _make_one(wanted: RunRequest, booted: Booted, seed: int) -> bytes:
    result = booted.go(seed, strategy=STRATEGIES[wanted.strategy])
    trace: Trace = booted.sim.trace
    if not isinstance(trace, StackTrace):
        return _encode(RepeatedRuns(seed, result.trace, trace.checkpoints))
    trace.finish()
    return _encode(RepeatedRuns(seed, result.trace, trace.checkpoints, trace.before, trace.seen))


class RepeatProcess:
    """Give it back with `close`, or use it in a `with` block."""

    def __init__(self, hash_seed: int) -> None:
        self.hash_seed = hash_seed
        self._build = build()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "RepeatProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def make(self, wanted: RunRequest) -> list[RepeatedRuns]:
        """Raises `RepeatFailed`."""
        if self._process is None:
            self._process = self._start()
        asking, answering = self._process.stdin, self._process.stdout
        assert asking is not None
        assert answering is not None
        try:
            _send(asking, _encode(wanted))
            answer = _decode_answer(next(_received(answering)))
        except (BrokenPipeError, StopIteration):
            status = self._process.wait()
            self.close()  # Who asks again gets a new one: it was this request, maybe, and not the next.
            raise RepeatFailed(f"the repeating process exited with status {status}") from None
        if answer.problem:
            raise RepeatFailed(answer.problem)
        if answer.build != self._build:
            raise RepeatFailed("the source of Mainstay has changed since this process started: restart it")
        return answer.made

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()  # It ends when there is nothing left to read.
            self._process = None

    def _start(self) -> "subprocess.Popen[bytes]":
        environment = {
            **os.environ,
            "PYTHONHASHSEED": str(self.hash_seed),
            "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
        }
        return subprocess.Popen(
            [sys.executable, "-m", "mainstay.sim.run.repeat_process"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )


def _answer_all() -> None:
    """What the other process does: make what it is asked for, until there are no more requests."""
    asked = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # What programs print must not get among the answers.
    for request in _received(asked):
        try:
            answer = _Answer(build(), make(_decode_wanted(request)))
        except UnknownScenario as error:
            answer = _Answer(build(), problem=str(error))
        _send(answers, _encode(answer))


def _send(pipe: "IO[bytes]", body: bytes) -> None:
    pipe.write(_HEAD.pack(len(body)) + body)
    pipe.flush()


def _received(pipe: "IO[bytes]") -> Iterator[bytes]:
    while len(head := pipe.read(_HEAD.size)) == _HEAD.size:
        (length,) = _HEAD.unpack(head)
        if len(body := pipe.read(length)) < length:
            return  # The sender has ended.
        yield body


if __name__ == "__main__":
    _answer_all()
