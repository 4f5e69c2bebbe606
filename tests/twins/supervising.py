"""Bugs that a supervisor could have."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from mainstay.supervisor import decide
from mainstay.supervisor.records import ProcessRecord
from mainstay.supervisor.supervisor import Supervisor
from tests.supervisor.processes import FakeMachine

Twin = Callable[[pytest.MonkeyPatch, FakeMachine], None]


def knows_processes_by_number_alone(patch: pytest.MonkeyPatch, machine: FakeMachine) -> None:
    """The process that has the number now is taken for the one that had it."""
    honest = ProcessRecord.identity

    def identity(self: ProcessRecord) -> object:
        now = machine.alive.get(self.pid)
        return honest.fget(self) if now is None else now.identity  # type: ignore[attr-defined]

    patch.setattr(ProcessRecord, "identity", property(identity))


def starts_again_what_has_no_record(patch: pytest.MonkeyPatch, machine: FakeMachine) -> None:
    patch.setattr(FakeMachine, "lost", lambda self, wanted: {})


def restarts_at_once(patch: pytest.MonkeyPatch, machine: FakeMachine) -> None:
    patch.setattr(decide, "pause", lambda failures: timedelta(microseconds=1))


def never_forgives(patch: pytest.MonkeyPatch, machine: FakeMachine) -> None:
    patch.setattr(decide, "STEADY_AFTER", timedelta(days=1000))


def never_kills(patch: pytest.MonkeyPatch, machine: FakeMachine) -> None:
    patch.setattr(decide, "GRACE", timedelta(days=1000))


def takes_no_lock(patch: pytest.MonkeyPatch, machine: FakeMachine) -> None:
    patch.setattr(Supervisor, "_lock", lambda self: None)


def minds_no_turns(patch: pytest.MonkeyPatch, machine: FakeMachine) -> None:
    patch.setattr(decide, "_must_end", lambda process, component, wish, turn: True)


def adopts_whatever_it_runs(patch: pytest.MonkeyPatch, machine: FakeMachine) -> None:
    honest = decide._must_end

    def must_end(
        process: decide.Process, component: decide.ProcessSpec | None, wish: decide.Wish, turn: int | None
    ) -> bool:
        return False if isinstance(wish, decide.Run) else honest(process, component, wish, turn)

    patch.setattr(decide, "_must_end", must_end)


def never_probes(patch: pytest.MonkeyPatch, machine: FakeMachine) -> None:
    async def find_failure(self: FakeMachine, name: str) -> str | None:
        return None

    patch.setattr(FakeMachine, "find_failure", find_failure)


def forgets_no_failure(patch: pytest.MonkeyPatch, machine: FakeMachine) -> None:
    """One that was ill once is taken for ill ever after."""
    honest = FakeMachine.find_failure
    known: dict[str, str] = {}

    async def find_failure(self: FakeMachine, name: str) -> str | None:
        found = await honest(self, name)
        if found:
            known[name] = found
        return known.get(name, found)

    patch.setattr(FakeMachine, "find_failure", find_failure)
