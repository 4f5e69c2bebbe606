"""A machine in virtual time, whose processes end as the test says, and whose process ids come round again.

It behaves like the real one where a supervisor could go wrong: processes outlive their parent; an id is given away
again as soon as its process has ended; a signal goes to a process, not to a number; only those who wait for an end
learn of it; and how a process ended is known only to its parent.
"""

import asyncio
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from mainstay.env import Clock
from mainstay.env.commands import Identity
from mainstay.supervisor.decide import Process, ProcessSpec

PIDS = range(100, 106)


@dataclass
class Fake:
    component: ProcessSpec
    identity: Identity
    starter: int
    has_ended: asyncio.Event = field(default_factory=asyncio.Event)
    signals: list[signal.Signals] = field(default_factory=list)
    code: int | None = None


class FakeMachine:
    """`lifetimes` says how long each start of a component lasts; for ever if it says nothing."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._clock = clock
        self._loop = loop
        self._next = 0
        self._starter = 0
        self.boot = "boot-1"
        self.alive: dict[int, Fake] = {}
        self.all: list[Fake] = []
        self.lifetimes: dict[str, list[timedelta]] = {}
        self.deaf: set[str] = set()
        """Those who do not end when they are asked to."""
        self.failures: dict[str, str] = {}
        """What components say is wrong with them."""
        self.stopping = timedelta(seconds=1)
        self.broken = ""
        """Why nothing can be started, if so."""
        self.signalled_strangers: list[int] = []

    # What a supervisor sees.

    def start(self, component: ProcessSpec) -> Identity:
        if self.broken:
            raise OSError(2, self.broken, component.argv[0])
        fake = self._begin(component, self._starter)
        lifetimes = self.lifetimes.get(component.name)
        if lifetimes:
            self._end_after(fake, lifetimes.pop(0), 1)
        return fake.identity

    def is_alive(self, identity: Identity) -> bool:
        found = self.alive.get(identity.pid)
        return found is not None and found.identity == identity

    def send(self, identity: Identity, number: signal.Signals) -> bool:
        found = self.alive.get(identity.pid)
        if found is None or found.identity != identity:
            return False
        if found.starter < 0:
            self.signalled_strangers.append(identity.pid)
        found.signals.append(number)
        if number is signal.SIGKILL:
            self.end(found, -9)
        elif found.component.name not in self.deaf:
            self._end_after(found, self.stopping, 0)
        return True

    async def ended(self, identity: Identity) -> None:
        if self.is_alive(identity):
            await self.alive[identity.pid].has_ended.wait()

    def exit_code(self, identity: Identity) -> int | None:
        for fake in self.all:
            if fake.identity == identity and fake.starter == self._starter:
                return fake.code
        return None

    def lost(self, wanted: Sequence[ProcessSpec]) -> Mapping[str, Process]:
        names = {component.name for component in wanted}
        return {
            fake.component.name: Process(fake.identity, fake.component.argv, fake.component.turn)
            for _, fake in sorted(self.alive.items())
            if fake.component.name in names and fake.starter >= 0
        }

    async def find_failure(self, name: str) -> str | None:
        return self.failures.get(name, "") if name in self.running() else None

    def trim_logs(self) -> None:
        pass

    # What a test does.

    def running(self) -> list[str]:
        return sorted(fake.component.name for fake in self.alive.values() if fake.starter >= 0)

    def named(self, name: str) -> Fake:
        (found,) = [fake for fake in self.alive.values() if fake.component.name == name]
        return found

    def starts(self, name: str) -> int:
        return sum(fake.component.name == name for fake in self.all)

    def kill(self, name: str) -> None:
        self.end(self.named(name), -9)

    def end(self, fake: Fake, code: int) -> None:
        if self.alive.get(fake.identity.pid) is fake:
            del self.alive[fake.identity.pid]
            fake.code = code
            fake.has_ended.set()

    def a_stranger(self, pid: int) -> None:
        """A foreign process gets this number."""
        self.alive[pid] = fake = Fake(ProcessSpec("stranger", ("vi",)), self._identity(pid), -1)
        self.all.append(fake)

    def another_supervisor(self) -> None:
        """From now on, those who are started belong to another one, which knows nothing of how others end."""
        self._starter += 1

    def reboot(self) -> None:
        for fake in list(self.alive.values()):
            self.end(fake, -9)
        self.boot += "+"

    def _begin(self, component: ProcessSpec, starter: int) -> Fake:
        # Two servers on one store, or two agents of one node: what a supervisor must never bring about.
        assert component.name not in self.running(), f"{component.name} is started while it runs"
        fake = Fake(component, self._identity(self._a_pid()), starter)
        self.alive[fake.identity.pid] = fake
        self.all.append(fake)
        return fake

    def _a_pid(self) -> int:
        for _ in PIDS:
            pid = PIDS[self._next % len(PIDS)]
            self._next += 1
            if pid not in self.alive:
                return pid
        raise AssertionError("too many processes for this little machine")

    def _identity(self, pid: int) -> Identity:
        return Identity(pid, self._clock.monotonic_ns() // 10_000_000, self.boot)

    def _end_after(self, fake: Fake, delay: timedelta, code: int) -> None:
        self._loop.call_later(delay.total_seconds(), self.end, fake, code)
