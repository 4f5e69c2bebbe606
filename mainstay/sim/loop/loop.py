"""An asyncio event loop in virtual time.

The loop runs what is ready, first come first served. When nothing is, it sets its clock to the next timer: waiting
costs nothing. It has no selector and no threads; connections are the simulated network's (sim/net/network.py), blocking
calls run inline (executor.py), and what cannot be simulated is refused with `Fenced`. Tasks and futures are asyncio's
own (tasks.py), so that any asyncio program runs here as it is.

Three things differ from asyncio on purpose. A failure that reaches the loop's exception handler stops the run with
`Unhandled`, unless the program has set a handler of its own. When nothing can ever happen again the run stops with
`Deadlock`. And a run in which steps follow each other without end while time stands still stops with `Livelock`.

Time is kept in whole nanoseconds: sums of floats would depend on how they were added up. Timers due at the same moment
run in the order in which they were set. As in asyncio, the loop goes in rounds: what a step makes ready runs in the
next round, and timers that are due by then run after it.

Not promised: debug mode (`set_debug` is remembered and changes nothing), and calls from other threads.
"""

import asyncio
import gc
import heapq
import itertools
import weakref
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from concurrent.futures import Executor
from contextvars import Context
from functools import cached_property
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, TypeVarTuple

from mainstay.sim.errors import Deadlock, Livelock, TooLong
from mainstay.sim.foreign.fences import FencedLoop, refuse_tls
from mainstay.sim.loop import task_stack
from mainstay.sim.loop.executor import InlineExecutors
from mainstay.sim.loop.failures import Failures
from mainstay.sim.loop.generators import AsyncGenerators
from mainstay.sim.loop.tasks import SimFuture, SimHandle, SimTask, SimTimer
from mainstay.sim.loop.trace import BATCH, Trace, name_callback
from mainstay.sim.process_table import PROCESS, ProcessTable, SimProcess
from mainstay.sim.run.choices import Choices

if TYPE_CHECKING:
    from mainstay.sim.net.network import Network

T = TypeVar("T")
Args = TypeVarTuple("Args")

# A fleet of thousands may well wake at one moment and take a few hundred thousand steps. More than this is a loop.
STEPS_PER_INSTANT_MAX: Final = 1_000_000

# Timers later than this (146 years) are never due: programs that wait "forever" pass any large number, or infinity.
FOREVER_NS: Final = 1 << 62

# The collector is off during a run (sim/foreign/patches.py). A long run still has to get rid of its reference cycles
# now and then: at a fixed number of events, so that finalisers run at the same moment each time.
COLLECT_EVERY_BATCHES: Final = 1024


class _Stop(BaseException):
    """Ends the innermost loop. Thrown by a step of its own, so that no other step has to look whether to stop."""


class SimLoop(FencedLoop):
    """Made by `Simulation`, or by itself wherever asyncio takes a loop: then `time` and `random` stay the real ones."""

    def __init__(
        self,
        choices: Choices | None = None,
        trace: Trace | None = None,
        *,
        steps_per_instant_max: int = STEPS_PER_INSTANT_MAX,
    ) -> None:
        self.trace = Trace() if trace is None else trace
        self.choices = Choices(trace=self.trace) if choices is None else choices
        self.executors = InlineExecutors(self)
        self.failures = Failures(self)
        self.processes = ProcessTable(self)
        self.stops_at_failure = True
        self._generators = AsyncGenerators(self)
        self._now_ns = 0
        self._ready: deque[SimHandle] = deque()
        self._timers: list[tuple[int, int, SimTimer]] = []  # A heap of what is later than now.
        self._due: list[tuple[int, int, SimTimer]] = []  # What was set for now, or earlier, since the round began.
        self.limit_ns = FOREVER_NS  # Where the clock must not go.
        self._timers_max = 1024  # Above this the cancelled ones are thrown out.
        self._timer_numbers = itertools.count()
        self._numbers = itertools.count()
        self._task_names = itertools.count(1)
        self._tasks: dict[asyncio.Task[Any], None] = {}  # In order of creation. May hold some that have just ended.
        self._tasks_max = 64  # Above this the ended ones are thrown out.
        # Tasks that have failed, and whose exception was not retrieved yet.
        self._unseen: list[weakref.ref[asyncio.Task[Any]]] = []
        self._default_executor_closed = False
        self._task_factory: Any = None
        self._steps_per_instant_max = steps_per_instant_max
        self._running = False
        self._stop_handle: asyncio.Handle | None = None
        self._closed = False
        self._debug = False
        self.slow_callback_duration = 0.1

    def __repr__(self) -> str:
        return f"<SimLoop at {self._now_ns / 1_000_000_000:.9f} running={self._running} closed={self._closed}>"

    @cached_property
    def network(self) -> "Network":
        from mainstay.sim.net.network import Network

        return Network(self)

    # Time

    def time(self) -> float:
        return self._now_ns / 1_000_000_000

    def time_ns(self) -> int:
        """Virtual time in nanoseconds since the run began."""
        return self._now_ns

    # Scheduling

    def call_soon(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        handle = SimHandle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.TimerHandle:
        when_ns = FOREVER_NS if delay > 1e10 else self._now_ns + round(delay * 1e9)
        return self._call_at_ns(when_ns, callback, args, context)

    def call_at(
        self, when: float, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self._call_at_ns(FOREVER_NS if when > 1e10 else round(when * 1e9), callback, args, context)

    def call_at_ns(
        self, when_ns: int, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Like `call_at`, in exact nanoseconds. A time that has passed already means now."""
        return self._call_at_ns(when_ns, callback, args, context)

    def _call_at_ns(
        self, when_ns: int, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> SimTimer:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        timer = SimTimer(when_ns, callback, args, self, context)
        if when_ns <= self._now_ns:
            # Not in the heap, so that steps never have to look there. It waits for the end of this round and not for
            # time to go on: steps that keep each other going cannot keep it waiting.
            self._due.append((when_ns, next(self._timer_numbers), timer))
        elif when_ns < FOREVER_NS:
            heapq.heappush(self._timers, (when_ns, next(self._timer_numbers), timer))
            if len(self._timers) > self._timers_max:
                self._drop_cancelled_timers()
        return timer

    def give_up_timers(self, is_given_up: Callable[[SimTimer], bool]) -> list[SimTimer]:
        """Take out those of which this is true, and return them."""
        self._drop_cancelled_timers()
        given_up = [entry for entry in self._timers if is_given_up(entry[2])]
        dropped = {entry[1] for entry in given_up}
        self._timers[:] = [entry for entry in self._timers if entry[1] not in dropped]
        heapq.heapify(self._timers)
        return [entry[2] for entry in given_up]

    def make_ready(self, handles: Iterable[SimHandle]) -> None:
        """Give these their turn, in this order, after what is ready already."""
        self._ready.extend(handles)

    def replace_ready(self, replacement: Callable[[SimHandle], SimHandle]) -> None:
        """Put something else in the place of what is ready. A round that is under way keeps its length."""
        handles = [replacement(handle) for handle in self._ready]
        self._ready.clear()
        self._ready.extend(handles)

    def _drop_cancelled_timers(self) -> None:
        self._timers = [entry for entry in self._timers if entry[2]._callback is not None]
        heapq.heapify(self._timers)
        self._timers_max = 2 * len(self._timers) + 1024

    # Tasks and futures

    def next_number(self) -> int:
        """A number that no other future of this loop has."""
        return next(self._numbers)

    def create_future(self) -> asyncio.Future[Any]:
        return SimFuture(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        if self._task_factory is not None:
            task: asyncio.Task[T] = (
                self._task_factory(self, coro) if context is None else self._task_factory(self, coro, context=context)
            )
            if name is not None and hasattr(task, "set_name"):
                task.set_name(name)
            self._tasks[task] = None
            return task
        text = f"Task-{next(self._task_names)}" if name is None else str(name)
        number = self.trace.define(f"{text} {getattr(coro, '__qualname__', type(coro).__qualname__)}")
        process = PROCESS.get(None) if context is None else context.get(PROCESS)
        made: SimTask[T] = SimTask(coro, self, text, number, context, process)  # type: ignore[arg-type]
        self._tasks[made] = None
        if len(self._tasks) > self._tasks_max:
            self._drop_ended_tasks()
        return made

    def give_up_tasks(self, process: SimProcess) -> list[asyncio.Task[Any]]:
        """Forget the tasks of a process that is dead, and return those that have not ended."""
        given_up = [task for task in self._tasks if isinstance(task, SimTask) and task.process is process]
        for task in given_up:
            del self._tasks[task]
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
        # Failures are not reported: the code that would handle them is dead as well.
        unseen = [ended for ref in self._unseen if (ended := ref()) is not None]
        own = [ended for ended in unseen if isinstance(ended, SimTask) and ended.process is process]
        for ended in (*own, *given_up):
            if ended.done():
                ended._log_traceback = False
        return [task for task in given_up if not task.done()]

    def tasks(self) -> list[asyncio.Task[Any]]:
        """The tasks that have not ended, in the order they were made."""
        return [task for task in self._tasks if not task.done()]

    def _drop_ended_tasks(self) -> None:
        ended = [task for task in self._tasks if task.done()]
        for task in ended:
            del self._tasks[task]
            if task._log_traceback:  # Set by asyncio until the exception is retrieved.
                self._unseen.append(weakref.ref(task))
        self._tasks_max = 2 * len(self._tasks) + 64

    def report_unseen_failures(self, *, also_held: bool = False) -> None:
        """Raise `Unhandled` if a task has failed and its exception can no longer be retrieved.

        When that is, asyncio notices by itself, as soon as the task is not referenced. With `also_held` those that some
        code holds count too: there is no run left in which they could ask."""
        self._drop_ended_tasks()
        unseen = [task for ref in self._unseen if (task := ref()) is not None and task._log_traceback]
        if also_held:
            for task in unseen:
                message = f"task {task.get_name()!r} failed, and its exception was never retrieved"
                self.call_exception_handler({"message": message, "exception": task.exception(), "task": task})
        self._unseen = [weakref.ref(task) for task in unseen if task._log_traceback]
        self.failures.raise_first()

    def set_task_factory(self, factory: Any) -> None:
        if factory is not None and not callable(factory):
            raise TypeError("task factory must be a callable or None")
        self._task_factory = factory

    def get_task_factory(self) -> Any:
        return self._task_factory

    # Running

    def run_forever(self) -> None:
        self._check_closed()
        if self._running:
            raise RuntimeError("This event loop is already running")
        if events._get_running_loop() is not None:
            raise RuntimeError("Cannot run the event loop while another loop is running")
        self._running = True
        events._set_running_loop(self)
        try:
            with self._generators.watched():
                self._run()
        finally:
            events._set_running_loop(None)
            self._running = False
            if self._stop_handle is not None:
                self._stop_handle.cancel()
                self._stop_handle = None
        self.failures.raise_first()

    def run_until_complete(self, future: Any) -> Any:
        self._check_closed()
        is_new = not asyncio.isfuture(future)
        future = asyncio.ensure_future(future, loop=self)
        if is_new:
            # The caller learns of an unfinished task: its destruction need not be reported as well.
            future._log_destroy_pending = False
        future.add_done_callback(_stop_loop)
        try:
            self.run_forever()
        except BaseException as error:
            if future.done() and not future.cancelled() and (own := future.exception()) not in (None, error):
                error.add_note(f"the main task has failed as well: {own!r}")
            raise
        finally:
            future.remove_done_callback(_stop_loop)
        if not future.done():
            raise RuntimeError("Event loop stopped before Future completed.")
        return future.result()

    def stop(self) -> None:
        if self._stop_handle is None:
            self._stop_handle = self.call_soon(_throw_stop, context=Context())  # In no process: it cannot be halted.

    def _run(self) -> None:
        """The loop itself. Everything here is paid for at each step: what can be done once a batch is."""
        ready = self._ready
        next_handle = ready.popleft
        buffer = self.trace.buffer
        record = buffer.append
        find_id = self.trace.ids.get
        batches_of_this_instant = 0
        batches_max = max(1, self._steps_per_instant_max // BATCH)
        due = self._due
        halted = self.processes.halted
        while True:
            if due:
                due.sort()
                ready.extend([entry[2] for entry in due])
                due.clear()
            elif not ready:
                self._go_to_next_timer()
                batches_of_this_instant = 0
            if halted:
                self.processes.sort_out(ready)
            for _ in range(len(ready)):
                if len(buffer) >= BATCH:
                    batches_of_this_instant += 1
                    if batches_of_this_instant > batches_max:
                        self._raise_livelock()
                    self._end_batch()
                handle = next_handle()
                callback = handle._callback
                if callback is None:
                    continue
                kind = type(callback)
                if kind is FunctionType or kind is MethodType:
                    record(find_id(callback.__qualname__) or self._find_id(callback))
                else:
                    owner = getattr(callback, "__self__", None)
                    record(owner.number if type(owner) is SimTask else self._find_id(callback))
                try:
                    handle._context.run(callback, *handle._args)
                except _Stop:
                    return
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 - as asyncio does; nothing is lost, see failures.py
                    self.call_exception_handler(
                        {
                            "message": f"Exception in callback {name_callback(callback)}",
                            "exception": error,
                            "handle": handle,
                        }
                    )

    def _go_to_next_timer(self) -> None:
        """Nothing is ready: set the clock to the next timer, and make everything ready that is due then."""
        timers = self._timers
        while timers and timers[0][2]._callback is None:
            heapq.heappop(timers)  # Cancelled: it must not move the clock.
        if not timers:
            self._raise_deadlock()
        when_ns = timers[0][0]
        if when_ns > self.limit_ns:
            self._raise_too_long()
        self._now_ns = when_ns
        self.trace.buffer.append(~when_ns)
        while timers and timers[0][0] == when_ns:
            self._ready.append(heapq.heappop(timers)[2])

    def _end_batch(self) -> None:
        self.trace.end_batch()
        if len(self.trace.checkpoints) % COLLECT_EVERY_BATCHES == 0 and not gc.isenabled():
            gc.collect()

    def _find_id(self, callback: object) -> int:
        return self.trace.find_id(name_callback(callback))

    def _raise_livelock(self) -> NoReturn:
        counts: dict[int, int] = {}
        for entry in self.trace.buffer:
            if entry > 0:
                counts[entry] = counts.get(entry, 0) + 1
        ran = "\n".join(f"  {self.trace.names[entry]}: {count} times" for entry, count in counts.items())
        raise Livelock(
            f"{self._steps_per_instant_max} steps at {self.time()} s of virtual time without progress."
            f" The last {len(self.trace.buffer)} events ran:\n{ran}"
        )

    def _raise_deadlock(self) -> NoReturn:
        self.failures.raise_first()  # If there are any, they are likely to be why.
        tasks = self.tasks()
        raise Deadlock(
            f"at {self.time()} s of virtual time no task is ready and no timer is set (deadlock)."
            + (f" Waiting tasks:\n{task_stack.describe(tasks)}" if tasks else " There are no tasks.")
        )

    def _raise_too_long(self) -> NoReturn:
        self.failures.raise_first()
        raise TooLong(
            f"at {self.time()} s of virtual time the run has not ended; the limit is {self.limit_ns / 1e9} s."
            f" Waiting tasks:\n{task_stack.describe(self.tasks())}"
        )

    # Ending

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        if self._running:
            raise RuntimeError("Cannot close a running event loop")
        for task in self.tasks():
            # The code that closes a loop with tasks in it knows about them, or does not want to.
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._closed = True
        self._ready.clear()
        self._due.clear()
        self._timers.clear()
        self._tasks.clear()
        self.network.forget()
        self.processes.bury()

    def _check_closed(self) -> None:
        if self._closed:
            raise RuntimeError("Event loop is closed")

    async def shutdown_asyncgens(self) -> None:
        await self._generators.shut_down()

    # Failures

    def set_exception_handler(self, handler: Any) -> None:
        if handler is not None and not callable(handler):
            raise TypeError(f"A callable object or None is expected, got {handler!r}")
        self.failures.handler = handler

    def get_exception_handler(self) -> Any:
        return self.failures.handler

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.report(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.remember(context)

    def stop_at_failure(self) -> None:
        """Stop before the next step: it would run in a program that is already wrong."""
        if self._running and self.stops_at_failure and self._stop_handle is None:
            self._stop_handle = SimHandle(_throw_stop, (), self, Context())
            self._ready.appendleft(self._stop_handle)

    # Blocking calls

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Args], T], *args: *Args) -> asyncio.Future[T]:
        self._check_closed()
        if executor is None and self._default_executor_closed:
            raise RuntimeError("Executor shutdown has been called")
        return self.executors.submit(executor, func, args)

    def set_default_executor(self, executor: Any) -> None:
        """Accepted and ignored: all executors are alike here."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        self._default_executor_closed = True

    # Debugging

    def get_debug(self) -> bool:
        return self._debug

    def set_debug(self, enabled: bool) -> None:
        self._debug = enabled

    # Network

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        return await self.network.getaddrinfo(host, port, **options)

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> Any:
        return await self.network.getnameinfo(sockaddr, flags)

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        refuse_tls(options)
        return await self.network.create_connection(protocol_factory, host, port, **options)

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        refuse_tls(options)
        return await self.network.create_server(protocol_factory, host, port, **options)

    async def sock_connect(self, sock: Any, address: Any) -> None:
        await self.network.sock_connect(sock, address)


def _stop_loop(future: asyncio.Future[Any]) -> None:
    if not future.cancelled() and isinstance(future.exception(), (SystemExit, KeyboardInterrupt)):
        return  # It has left the loop already.
    future.get_loop().stop()


def _throw_stop() -> NoReturn:
    raise _Stop
