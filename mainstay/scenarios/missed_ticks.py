"""CronJobs whose cluster was asleep, whose clocks jump, and that are suspended for long. (kubernetes #42649, #45825)

Hundreds of ticks are missed in one go. A controller that counts them, and gives up above a hundred, never runs
again; one that makes up for each of them runs hundreds at once. Here the last one is made up for, and then it goes on.
No tick has a second Job: not when the leader goes between making the Job and saying so, not when the clock is set
back, and not when the Job of that tick is long done and gone. (Catalogue 19)
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import CRON_JOBS
from mainstay.client.client import Client
from mainstay.client.errors import ApiError
from mainstay.controllers.job.controller import Jobs
from mainstay.env import tasks
from mainstay.scenarios._cronjobs import TICK, CronJobController, latest, read_last_tick, read_period
from mainstay.scenarios._stages import NAMESPACE, SERVERS, SILENCE, USER
from mainstay.scenarios._workloads import AGENTS, WorkloadStage, decode, told
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.one_acting_leader import OneActingLeader
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

JOBS_PREFIX: Final = "batch/jobs/"
CRONS_PREFIX: Final = "batch/cronjobs/"
EVERY: Final[Mapping[str, int]] = {"often": 1, "rarely": 10}
ASLEEP: Final = (timedelta(minutes=7), timedelta(hours=3), timedelta(hours=20), timedelta(days=9))
"""For so long all programs were asleep: nine days of a minute each are 12,960 ticks."""
SET_BY: Final = tuple(timedelta(seconds=seconds) for seconds in (-150, -70, -20, 40))
"""How far one clock is set back or forth: by more than a tick, and by less."""
LONG_ASLEEP: Final = timedelta(hours=5)
AGAIN_WITHIN: Final = timedelta(minutes=2)
AWAY: Final = timedelta(seconds=4)
WINDOW: Final = timedelta(seconds=30)
MADE_MAX: Final = 6
SUCCEEDED: Final[Object] = {"phase": "Succeeded"}


class MissedTicks(WorkloadStage):
    controllers = (CronJobController(), Jobs())
    user = None  # Mainstay has no controller for CronJobs, so its own user has no rights for one.
    turn_every = timedelta(seconds=10)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._goes_after_the_next = False
        self._is_asking = False
        self._suspending: asyncio.Task[None] | None = None
        world.history.subscribe(self._saw_a_job)

    async def prepare(self, client: Client) -> None:
        for name, minutes in EVERY.items():
            await client.create(CRON_JOBS, a_cron_job(name, minutes))

    async def turn(self, client: Client) -> None:
        if self._is_over:
            return
        name = list(EVERY)[self.choose("which", len(EVERY))]
        match self.choose("what", 8):
            case 0 | 1:
                self._sleep(ASLEEP[self.choose("for long", len(ASLEEP))])
            case 2:
                # Just as it has made the next Job, before it could say so.
                self._goes_after_the_next = True
                self._sleep(ASLEEP[0])
            case 3 | 4 as number:
                await self._suspend(client, name, number == 3)
            case 5:
                program = self.programs[self.choose("whose clock", len(self.programs))]
                self.world.sim.get_clock(program).jump(SET_BY[self.choose("set by", len(SET_BY))])
            case _:
                await tasks.sleep(timedelta(minutes=2))
                await self._set_back()

    async def go_on(self, client: Client, pod: Object) -> None:
        if pod_state.is_active(pod):
            await told(client, pod, SUCCEEDED)

    async def finish(self) -> None:
        await super().finish()
        self._suspending = tasks.spawn(self._suspend_all(), name="all are suspended")

    async def check(self) -> None:
        """All were suspended, and slept for long. Then they run again, soon, and for the present."""
        self._set_right()
        self._sleep(LONG_ASLEEP)
        began = self.world.sim.get_clock(self.programs[0]).wall()
        await self._all(suspended(False))
        await tasks.sleep(AGAIN_WITHIN)
        for cron in await self.objects(CRONS_PREFIX):
            name, tick = cron["metadata"]["name"], latest(began, read_period(cron))
            if read_last_tick(cron) < tick:
                text = f"{name} has not run again: its last run was for {read_last_tick(cron)}, but {tick} has passed"
                raise Violated("missed ticks", text)
            if not any(
                _read_tick(job) == str(cron["status"]["lastScheduleTime"]) for job in await self._find_jobs(cron)
            ):
                raise Violated("missed ticks", f"{name} reports a run, but there is no Job")

    def _sleep(self, duration: timedelta) -> None:
        """All programs were asleep for so long: all clocks have gone on."""
        for name in (*SERVERS, *self.programs, USER, AGENTS):
            self.world.sim.get_clock(name).jump(duration)

    async def _set_back(self) -> None:
        """Two ticks have run, and it is the time of the first again."""
        if self._is_over:
            return
        for program in self.programs:
            self.world.sim.get_clock(program).jump(SET_BY[self.choose("set back by", 2)])
        await tasks.sleep(timedelta(minutes=1))

    def _set_right(self) -> None:
        """All clocks show the same again. None goes back for it."""
        clocks = [self.world.sim.get_clock(name) for name in (*SERVERS, *self.programs)]
        most = max(clock.skew for clock in clocks)
        for clock in clocks:
            clock.skew = most

    def _saw_a_job(self, event: Event) -> None:
        if self._goes_after_the_next and _is_new_job(event):
            self._goes_after_the_next = False
            leader = self.leader()
            if leader is not None and self.world.programs[leader].is_running:
                self.world.after(timedelta(0), lambda: self._lose(leader))

    def _lose(self, name: str) -> None:
        program = self.world.programs[name]
        if program.is_running:
            self.world.faults.note(f"{name} crashes after it has created a Job")
            self.world.faults.crash(program, AWAY)

    async def _suspend(self, client: Client, name: str, is_suspended: bool) -> None:
        self._is_asking = True
        try:
            await client.patch(CRON_JOBS, name, NAMESPACE, suspended(is_suspended))
        finally:
            self._is_asking = False

    async def _suspend_all(self) -> None:
        while self._is_asking:  # It may be about to resume one.
            await tasks.sleep(timedelta(seconds=1))
        await self._all(suspended(True))

    async def _all(self, body: Object) -> None:
        """Whatever fails, in the end it is done."""
        async with self.world.client_for(USER, self.world.sim.env("all")) as client:
            for name in EVERY:
                while True:
                    with suppress(ApiError):
                        await client.patch(CRON_JOBS, name, NAMESPACE, body)
                        break
                    await tasks.sleep(timedelta(seconds=1))

    async def _find_jobs(self, cron: Object) -> list[Object]:
        uid = cron["metadata"]["uid"]
        jobs = await self.objects(JOBS_PREFIX)
        return [job for job in jobs if _read_owner(job) == uid]


class OncePerTick:
    """Of each tick there is one Job, ever; and no more than a few in a short time."""

    name = "once per tick"

    def __init__(self) -> None:
        self._made: dict[tuple[str, str], RevisionCommitted] = {}
        self._lately: dict[str, deque[RevisionCommitted]] = {}

    def saw(self, event: Event) -> None:
        if not _is_new_job(event):
            return
        assert isinstance(event, RevisionCommitted)
        assert event.value is not None
        job = decode(event.value)
        cron, tick = _read_owner(job), _read_tick(job)
        first = self._made.setdefault((cron, tick), event)
        if first is not event:
            raise Violated(self.name, f"a second Job was created for {tick}", [first, event])
        lately = self._lately.setdefault(cron, deque())
        lately.append(event)
        while lately[0].at_ns < event.at_ns - WINDOW.total_seconds() * 1e9:
            lately.popleft()
        if len(lately) > MADE_MAX:
            raise Violated(self.name, f"{len(lately)} Jobs of one CronJob were created within {WINDOW}", list(lately))

    async def at_end(self, world: World) -> None:
        """Everything was told while it happened."""


def a_cron_job(name: str, minutes: int) -> Object:
    pod = {"containers": [{"name": "main", "image": "work:1"}], "restartPolicy": "Never"}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "schedule": f"*/{minutes} * * * *",
            "successfulJobsHistoryLimit": 1,
            "jobTemplate": {"spec": {"template": {"spec": pod}}},
        },
    }


def suspended(is_suspended: bool) -> Object:
    return {"spec": {"suspend": is_suspended}}


def _is_new_job(event: Event) -> bool:
    return (
        isinstance(event, RevisionCommitted)
        and event.key.startswith(JOBS_PREFIX)
        and event.value is not None
        and event.previous is None
    )


def _read_owner(job: Object) -> str:
    return str(job["metadata"]["ownerReferences"][0]["uid"])


def _read_tick(job: Object) -> str:
    return str(job["metadata"]["annotations"][TICK])


SCENARIO: Final = Scenario(
    name="missed-ticks",
    about="CronJobs miss hundreds of runs by pause, suspension or clock: they run again, once for each time.",
    make=MissedTicks,
    checkers=lambda: [AcknowledgedWrites(), OneActingLeader(), OncePerTick()],
    faults=("watch-delay", "watch-disconnect", "answer-lost", "crash", "crash-before", "crash-after", "pause"),
    lasts=timedelta(minutes=4),
    calm=timedelta(minutes=15),
    silence=SILENCE,
    ids=("19",),
)
