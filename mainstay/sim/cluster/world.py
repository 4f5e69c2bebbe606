"""A simulated cluster, made of production parts: API servers over one store, and programs that talk to them.

    world = World(sim)
    world.add_server("server-0")
    world.add_server("server-1")
    world.add_program("controller", lambda env: run(world.client_for("controller", env), env))
    world.add_node("node-0")
    await world.boot()
    world.faults.start(["cut", "answer-lost"])
    ...
    await world.heal()
    await world.quiet(within=timedelta(minutes=2))

Each program is on a host of its own name and has a token of its own, so everybody knows who asks. What happens is in
`history`; what goes wrong is in `faults`. The code that makes the world is in no program, and is never hit by a fault.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import Context
from dataclasses import replace
from datetime import timedelta
from typing import Final

from mainstay.agent.agent import Agent
from mainstay.agent.fleet import PretendSettings, build_settings
from mainstay.agent.runners.pretend import choose_behaviour
from mainstay.agent.serve.server import AgentServing
from mainstay.agent.settings import AgentSettings
from mainstay.client.client import Client
from mainstay.client.config import Config
from mainstay.client.limits import ClientLimits
from mainstay.env import Env, tasks
from mainstay.http.server import HttpServer
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.record import DecisionRecord
from mainstay.server.auth import identities
from mainstay.server.auth.authorization import MASTERS, User, add_authenticated
from mainstay.server.backup.contents import BackupContents, select_entries
from mainstay.server.backup.directory_restore import find_next_revision
from mainstay.server.decisions.journal import ServerJournal, in_memory
from mainstay.server.request.app import Api
from mainstay.server.request.metrics import Metrics
from mainstay.server.request.pipeline import PipelineOptions
from mainstay.sim.cluster.authority import NO_AUTHORITY, ClusterAuthority
from mainstay.sim.cluster.badges import WorldAuthenticator
from mainstay.sim.cluster.history import (
    Event,
    FaultInjected,
    FaultsHealed,
    History,
    ProgramChanged,
    ProgramCrashed,
    ProgramStarted,
    RevisionCommitted,
)
from mainstay.sim.cluster.node_machine import SimMachine
from mainstay.sim.cluster.program_lifecycle import Main, Program, ProgramStep
from mainstay.sim.cluster.server_proxy import TOKEN, ServerProxy
from mainstay.sim.cluster.store_lifecycle import HEARTBEATS, STORE, KeptLog, StoreLifecycle
from mainstay.sim.cluster.store_proxy import StoreProxy
from mainstay.sim.disk import SimDisk
from mainstay.sim.errors import SimulationError
from mainstay.sim.faults.schedule import Faults
from mainstay.sim.simulation import Simulation
from mainstay.store.epoch_jump import build_rows
from mainstay.store.errors import StoreError
from mainstay.store.interface import Check, TransactionRefused, Write
from mainstay.store.interface import Committed as Done
from mainstay.store.local import LocalStore
from mainstay.store.log import LogRow
from mainstay.store.sealer import PLAIN, Sealer

__all__ = ["HEARTBEATS", "STORE", "KeptLog", "NotQuiet", "World"]

PORT: Final = 6443
AGENT_PORT: Final = 10250
DRAIN_WITHIN: Final = timedelta(seconds=10)
BOOT_WITHIN: Final = timedelta(minutes=5)
CALM: Final = timedelta(seconds=10)
START_AGAIN_AFTER: Final = timedelta(seconds=1)
# Of all servers of all worlds, and it repeats itself: runs with one seed have equal tokens.


class NotQuiet(SimulationError):
    """Writes go on for longer than they should. Says which were the last."""


class World:
    """A cluster in a simulation. With `disk` the store writes to a simulated disk; without, it has none. With `journal`
    all that happens and is decided is kept, to be explained and replayed."""

    def __init__(self, sim: Simulation, *, disk: bool = False, journal: bool = False) -> None:
        self.sim = sim
        self.history = History()
        self.programs: dict[str, Program] = {}
        """All but the servers, in the order in which they were added."""
        self.servers: dict[str, Program] = {}
        self.gates: dict[str, ServerProxy] = {}
        """The doors of those servers that run."""
        self.ports: dict[str, StoreProxy] = {}
        self.machines: dict[str, SimMachine] = {}
        """Of the nodes."""
        self.spared: dict[str, None] = {}
        """Programs that faults of one's own do not hit: they are part of the test, and not under test."""
        self.restores = 0
        """How often the store was put back."""
        self.authority = NO_AUTHORITY
        """What the servers sign with. Before the world boots."""
        self.are_states_published = False
        """Whether each server keeps its ComponentState. Set before the world boots."""
        self.lost: dict[str, None] = {}
        """Programs and servers that stay dead for good."""
        self.faults = Faults(self)
        sim.tellers.append(self._gone_wrong)
        self._host = StoreLifecycle(sim, self.history, MemoryJournal() if journal else None, has_disk=disk)
        self._users: dict[str, User] = {}
        self._serving: dict[str, asyncio.Event] = {}

    @property
    def store(self) -> LocalStore:
        """The store itself, once the world has booted. While it is away, what it was at last."""
        return self._host.process.store

    @property
    def has_disk(self) -> bool:
        return self._host.has_disk

    @property
    def has_store(self) -> bool:
        """Whether the store is there just now."""
        return self._host.is_open.is_set()

    @property
    def store_disk(self) -> SimDisk:
        return self._host.disk

    @property
    def last_write_ns(self) -> int:
        """When something was last written that is no heartbeat."""
        return self._host.last_write_ns

    @property
    def journal(self) -> MemoryJournal | None:
        """Of all that happens and is decided, if one is kept. May be given until the world boots."""
        return self._host.journal

    @journal.setter
    def journal(self, journal: MemoryJournal) -> None:
        self._host.journal = journal

    @property
    def recorder(self) -> Callable[[DecisionRecord], None] | None:
        """To be given to components: where they record what they decide."""
        return None if self.journal is None else self.journal.decided

    # Making it.

    def add_server(self, name: str) -> Program:
        """An API server. Add all of them before the world boots: clients know those that are there."""
        program = self.servers[name] = Program(self.sim, name, lambda env: self._serve(name, env), self._tell)
        self._serving[name] = asyncio.Event()
        return program

    def add_program(
        self,
        name: str,
        main: Main,
        *,
        user: User | None = None,
        is_spared: bool = False,
        versions: Mapping[str, Main] | None = None,
    ) -> Program:
        """A program. It may do everything unless another user is given. Started at boot; later ones, by hand. What else
        it may be replaced by for a while, an older build for instance, is in `versions`."""
        self.know(name, user)
        if is_spared:
            self.spared[name] = None
        program = self.programs[name] = Program(self.sim, name, main, self._tell, versions=versions)
        return program

    def add_node(
        self, name: str, settings: PretendSettings | AgentSettings | None = None, *, serves: bool = False
    ) -> Program:
        """A node: a machine, with containers that outlive the agent, and the agent. With `AgentSettings` of its own it
        does all that an agent does; otherwise pods need no command, and have no volumes and probes. If it `serves`,
        API servers can ask the agent what is used there."""
        number = len(self.machines)
        given = settings or PretendSettings()
        machine = self.machines[name] = SimMachine(self.sim, name, self.history)
        if isinstance(given, PretendSettings):
            machine.behave = choose_behaviour(self.sim.env(name), given.delays, given.failure_rate)
            given = build_settings(name, number, given)
        if serves:
            given = replace(given, serving_port=AGENT_PORT, host_address=self.sim.network.host(name).address)
        told = given

        async def main(env: Env) -> None:
            async with self.client_for(name, env) as client:
                runner = machine.runner(env)
                agent = Agent(client, env, runner, told, machine, recorder=self.recorder)
                if told.serving_port:
                    serving = await AgentServing.start(env, "0.0.0.0", told.serving_port)
                    serving.serve(name, agent, runner)
                await agent.run()

        return self.add_program(name, main, user=identities.build_node_user(name))

    def know(self, name: str, user: User | None = None) -> None:
        """Let a name be known to the servers, so that clients may be made for it."""
        self._users[TOKEN + name] = add_authenticated(user or User(name, (MASTERS,)))

    def client_for(self, name: str, env: Env, *, limits: ClientLimits | None = None) -> Client:
        """A client that asks as this program. It must be known: added, or told of with `know`."""
        if TOKEN + name not in self._users:
            raise ValueError(f"{name} is not a program of this world")
        servers = tuple(f"http://{server}:{PORT}" for server in self.servers)
        return Client(Config(servers, token=TOKEN + name), env, user_agent=f"{name}/sim", limits=limits)

    def begin_with(self, rows: Sequence[LogRow]) -> None:
        """Let the store have this when the world boots. Only one that has no disk."""
        if self.has_disk:
            raise SimulationError("a store with a disk starts with the content of the disk")
        self._host.rows = tuple(rows)

    def store_on_disk(self, make_sealer: Callable[[], Sealer] = lambda: PLAIN) -> None:
        """Give the store a disk, on which faults may happen. Before the world boots. Each opening of the store makes
        the sealer for what it writes."""
        self._host.has_disk = True
        self._host.make_sealer = make_sealer

    # Running it.

    async def boot(self, within: timedelta = BOOT_WITHIN) -> None:
        """Start everything, and wait until all servers can be reached."""
        await self._host.open()
        for server in self.servers.values():
            server.start()
        async with asyncio.timeout(within.total_seconds()):
            for serving in self._serving.values():
                await serving.wait()
        for program in self.programs.values():
            if not program.is_running:
                program.start()

    async def heal(self, lost: Collection[str] = ()) -> None:
        """Undo all faults, let there be no more, and start what has crashed. Those in `lost` stay dead for good."""
        await self.faults.stop()
        self.lost = dict.fromkeys(lost)
        self.sim.network.heal_all()
        for name, program in (*self.servers.items(), *self.programs.items()):
            program.resume()
            if name in lost:
                if program.is_running:
                    program.crash()
            elif program.ended is ProgramStep.CRASHED:
                program.start()
        self.history.add(FaultsHealed(self.sim.loop.time_ns()))

    async def quiet(self, within: timedelta, calm: timedelta = CALM) -> None:
        """Wait until nothing but heartbeats has been written for a while. Raises `NotQuiet`."""
        loop = self.sim.loop
        calm_ns, began_ns = _nanoseconds(calm), loop.time_ns()
        until_ns = began_ns + _nanoseconds(within)
        while (quiet_at_ns := max(self.last_write_ns, began_ns) + calm_ns) > loop.time_ns():
            if quiet_at_ns > until_ns:
                raise NotQuiet(f"writes still go on after {within}. The last writes:\n{self._last_writes()}")
            await asyncio.sleep((quiet_at_ns - loop.time_ns()) / 1e9)

    async def stop(self) -> None:
        """Stop everything in order. A run may also just end."""
        await self.faults.stop()
        for program in (*reversed(self.programs.values()), *self.servers.values()):
            await program.stop()
        await self._host.close()

    def after(self, duration: timedelta, call: Callable[[], None]) -> asyncio.TimerHandle:
        """Call something later, outside of all programs: it happens whichever are dead or paused by then."""
        return self.sim.loop.call_at_ns(self.sim.loop.time_ns() + _nanoseconds(duration), call, context=Context())

    def targets(self) -> list[Program]:
        """The programs that faults may hit."""
        return [program for name, program in self.programs.items() if name not in self.spared]

    async def compact(self) -> int:
        """Forget all history of the store up to now."""
        return await self._host.process.compact(await self.store.revision())

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> Done | TransactionRefused:
        """Write something past all servers, outside of all programs."""
        storing = self._host.process
        return await self.sim.loop.create_task(storing.commit(checks, writes), name="commit", context=Context())

    def backup(self) -> KeptLog:
        """All that was written so far. Only of a store that has no disk."""
        return self._host.backup()

    async def restore(self, backup: KeptLog) -> None:
        """Put the store back to what it was, as an operator does: all servers are stopped, and restarted on that."""
        self.restores += 1
        self._crash_servers()
        await self._host.restore(backup)
        self._start_servers()

    async def restore_file(self, contents: BackupContents) -> None:
        """The same from a backup that a server has made, as `mainstay restore` does it: in a new epoch."""
        entries = select_entries(contents.entries)
        kept = {entry.key for entry in entries}
        reaches = contents.facts.head.revision
        log = KeptLog()
        await log.fill(find_next_revision(reaches, self.sim.get_clock(STORE)), build_rows(entries))
        self.restores += 1
        self._crash_servers()
        left_out = [entry.key for entry in contents.entries if entry.key not in kept]
        await self._host.restore(log, reaches, left_out)
        self._start_servers()

    def lose_store(self, *, power: bool) -> None:
        """Let the store and all servers die at once; without `power`, its disk loses what it has not synced. Only of a
        store that has a disk. Servers that are started meanwhile wait for it."""
        self._crash_servers()
        self._host.lose(power=power)

    async def reopen_store(self) -> None:
        """Let the store and all servers come back on what the disk has."""
        await self._host.reopen()
        self._start_servers()

    def _crash_servers(self) -> None:
        for server in self.servers.values():
            server.crash()

    def _start_servers(self) -> None:
        for server in self.servers.values():
            if server.ended is ProgramStep.CRASHED and server.name not in self.lost:
                server.start()

    # Inside.

    async def _serve(self, name: str, env: Env) -> None:
        """What the process of an API server does (compare server/process.py)."""
        await self._host.is_open.wait()
        port = self.ports[name] = StoreProxy(self._host.process, self.faults.committing)
        authenticator = WorldAuthenticator(self._users, port, env)
        journal = None if self.journal is None else in_memory(self.journal, port, env.clock)
        api = await _started(port, env, authenticator, journal, self.authority)
        if self.are_states_published:
            api.publish_state(name)
        gate = ServerProxy(name, api.answer, api.registry, self._users, self.history, self.faults, self.sim.loop)
        self.gates[name] = gate
        http = await HttpServer.start(gate.answer, "0.0.0.0", PORT, on_head=True)
        self._serving[name].set()
        try:
            await self.sim.loop.create_future()
        finally:
            await http.drain(DRAIN_WITHIN)
            await api.stop()
            if journal is not None:
                await journal.refusals.close()

    def _tell(self, program: Program, step: ProgramStep) -> None:
        if step not in (ProgramStep.STARTED, ProgramStep.PAUSED, ProgramStep.RESUMED) and program.name in self.servers:
            self._serving[program.name].clear()
            self.gates.pop(program.name, None)
            if (port := self.ports.pop(program.name, None)) is not None:
                port.let_go()
        now_ns = self.sim.loop.time_ns()
        self.history.add(_build_event(now_ns, program, step))

    def _gone_wrong(self) -> list[str]:
        return [str(event) for event in self.history.events if isinstance(event, FaultInjected | ProgramCrashed)]

    def _last_writes(self, count: int = 20) -> str:
        writes = (
            event
            for event in reversed(self.history.events)
            if isinstance(event, RevisionCommitted) and not event.key.startswith(HEARTBEATS)
        )
        return "\n".join(f"  {event}" for event, _ in zip(writes, range(count), strict=False))


async def _started(
    port: StoreProxy,
    env: Env,
    authenticator: WorldAuthenticator,
    journal: ServerJournal | None,
    authority: ClusterAuthority,
) -> Api:
    """If the store does not let it start, it is started again, as a supervisor would."""
    metrics = Metrics(env.clock)
    if journal is not None:
        metrics.more(journal.counts.collect)
    while True:
        try:
            options = PipelineOptions(metrics)
            return await Api.start(port, env, authenticator, journal=journal, options=options, authority=authority)
        except StoreError:
            await tasks.sleep(START_AGAIN_AFTER)


def _build_event(now_ns: int, program: Program, step: ProgramStep) -> Event:
    match step:
        case ProgramStep.STARTED:
            return ProgramStarted(now_ns, program.name, program.incarnation)
        case ProgramStep.CRASHED:
            return ProgramCrashed(now_ns, program.name, program.incarnation)
        case _:
            return ProgramChanged(now_ns, program.name, program.incarnation, step)


def _nanoseconds(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1) * 1000
