"""Puts the simulator's answers in place of real time, chance and threads while a run is on, and takes them away after.

A function, or a class, is replaced wherever it can be reached by name: in its own module, and in each module that took
it with `from time import time`. Finding those means going through all modules; what was found is remembered, so that
the next run only looks at modules that are new. `datetime` is a class, built in, that others hold on to in many ways
(annotations, subclasses, tables by type), so it is not replaced: two of its methods are, in place. Only the hashes of
some classes stay for good, since the objects of a run may outlive it (sim/loop/hashes.py).

Beyond reach: a function that was kept elsewhere before the run, in an attribute of a class or as a default argument.
Such code reads the real clock. It is found by running twice (tests/sim/test_determinism.py shows how).
"""

import asyncio
import contextlib
import ctypes
import gc
import os
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from types import ModuleType
from typing import Any, Final

from mainstay.sim.foreign import chance, context, fences, network, order
from mainstay.sim.foreign import time as foreign_time
from mainstay.sim.foreign.context import Replacement, RunContext
from mainstay.sim.loop import hashes
from mainstay.sim.loop.tasks import SimTask
from mainstay.sim.process_table import current_process

Namespace = dict[str, Any]
Site = tuple[Namespace, str, object, object]  # Where something can be found by name: the real thing, its stand-in.


@contextlib.contextmanager
def installed(run: RunContext) -> Iterator[None]:
    """Let foreign code on this thread find `run` around it, until the block is left."""
    hashes.install()
    context.enter(run)
    try:
        # The names before the generator that some of them lead to: no other thread may draw from the run's.
        with _collector_off(), _utc(), _methods(), _datetime(), _names(), chance.shared_generator(run):
            yield
    finally:
        context.leave()


@contextlib.contextmanager
def _collector_off() -> Iterator[None]:
    # The collector starts when enough objects were made anywhere in the process, and runs finalisers: at another
    # moment in each run. The loop collects at fixed points instead.
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextlib.contextmanager
def _utc() -> Iterator[None]:
    zone = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        yield
    finally:
        if zone is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = zone
        time.tzset()


# Methods

_real_all_tasks = asyncio.all_tasks


def _all_tasks(run: RunContext, loop: asyncio.AbstractEventLoop | None = None) -> set[asyncio.Task[Any]]:
    if loop is None:
        loop = asyncio.get_running_loop()
    if loop is not run.loop:
        return _real_all_tasks(loop)
    # asyncio's own answer comes from a set of weak references, where tasks of earlier loops have left their mark.
    tasks = run.loop.tasks()
    process = current_process()
    # A program that ends by cancelling all there is means its own tasks, and not those of the cluster around it.
    return {task for task in tasks if process is None or (isinstance(task, SimTask) and task.process is process)}


_METHODS: Final[Mapping[tuple[type, str], Any]] = {
    **chance.methods(),
    **fences.methods(),
}


@contextlib.contextmanager
def _methods() -> Iterator[None]:
    real = [(owner, name, owner.__dict__[name]) for owner, name in _METHODS]
    try:
        for (owner, name), method in _METHODS.items():
            setattr(owner, name, method)
        yield
    finally:
        for owner, name, method in real:
            setattr(owner, name, method)


# The class datetime

_DATETIME_METHODS: Final = foreign_time.datetime_methods()
_DATETIME_REAL: Final = {name: datetime.__dict__[name] for name in _DATETIME_METHODS}
# Python does not let one set an attribute of a builtin class. But its `__dict__` is a proxy, which refers to the real
# one.
_DATETIME_NAMESPACE: Final[Namespace] = gc.get_referents(datetime.__dict__)[0]


@contextlib.contextmanager
def _datetime() -> Iterator[None]:
    try:
        _set_datetime_methods(_DATETIME_METHODS)
        yield
    finally:
        _set_datetime_methods(_DATETIME_REAL)


def _set_datetime_methods(methods: Mapping[str, Any]) -> None:
    _DATETIME_NAMESPACE.update(methods)
    # Python remembers where it has found an attribute: it must be told to look again.
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime))


# Functions and classes, by name

_STAND_INS: Final[Mapping[tuple[str, str], Any]] = {
    **foreign_time.replacements(),
    **chance.replacements(),
    **network.replacements(),
    **order.replacements(),
    **fences.replacements(),
    ("asyncio", "all_tasks"): Replacement(asyncio.all_tasks, _all_tasks),
}
_PAIRS: Final = [(getattr(sys.modules[module], name), stand_in) for (module, name), stand_in in _STAND_INS.items()]
# By address: they are looked for by identity. The pairs above keep them alive.
_BY_REAL: Final = {id(real): (real, stand_in) for real, stand_in in _PAIRS}
_BY_STAND_IN: Final = {id(stand_in): (real, stand_in) for real, stand_in in _PAIRS}

_searched: dict[str, ModuleType] = {}
_sites: list[Site] = []


@contextlib.contextmanager
def _names() -> Iterator[None]:
    _sites.extend(_search_new_modules(_BY_REAL))
    try:
        for namespace, name, real, stand_in in _sites:
            if namespace.get(name) is real:
                namespace[name] = stand_in
        yield
    finally:
        # What was imported during the run has taken the stand-ins for the real thing.
        _sites.extend(_search_new_modules(_BY_STAND_IN))
        for namespace, name, real, stand_in in _sites:
            if namespace.get(name) is stand_in:
                namespace[name] = real


def _search_new_modules(wanted: Mapping[int, tuple[object, object]]) -> list[Site]:
    """Where the modules that were not searched before hold one of the wanted objects."""
    sites = []
    for module_name, module in sys.modules.copy().items():
        if _searched.get(module_name) is module or module_name.startswith(("mainstay.sim.", "mainstay.scenarios.")):
            continue  # Our own modules keep the real ones: the stand-ins are built on them.
        _searched[module_name] = module
        try:
            # Not `module.__dict__`: a module that loads itself when it is first used must not do so because of this.
            namespace = object.__getattribute__(module, "__dict__")
        except AttributeError:
            continue  # Anything can be put among the modules.
        for name, value in namespace.copy().items():
            pair = wanted.get(id(value))
            if pair is not None:
                sites.append((namespace, name, *pair))
    return sites
