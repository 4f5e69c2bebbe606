"""What users bring to a simulated cluster, made into programs of it: controllers, and any coroutine that talks HTTP.

A coroutine function is given what it asks for by the names of its parameters:

    async def main(client): ...             a client of Mainstay's, open, which asks as this program
    async def main(url, token): ...         for aiohttp, httpx, whatever: the server, and who asks
    async def main(kubeconfig): ...         a kubeconfig, as a dict, for clients of Kubernetes
    async def main(env): ...                clock, chance and disk of this program

Each runs on a host of its own and in a process of its own (program.py), so it can be cut off, paused and crashed. A
program that returns is over; one that raises fails the test.
"""

import inspect
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from mainstay.env import Env
from mainstay.loop.component import Component, ComponentSettings
from mainstay.loop.controller import Controller
from mainstay.loop.lease import LeaseSettings
from mainstay.sim.cluster.program_lifecycle import Main
from mainstay.sim.cluster.server_proxy import TOKEN
from mainstay.sim.cluster.world import PORT, World
from mainstay.sim.errors import SimulationError

OwnMain = Callable[..., Coroutine[Any, Any, object]]
Own = Controller | Sequence[Controller] | OwnMain

GIVEN: Final = ("client", "env", "kubeconfig", "token", "url")
"""What a coroutine function may ask for."""


class NotRunnable(SimulationError):
    """This cannot be made a program. Says what can."""


def name_program(own: Own) -> str:
    """The default name of a program."""
    match own:
        case Controller():
            return own.name
        case [Controller(), *_]:
            return own[0].name
        case _:
            name = getattr(own, "__name__", type(own).__name__)
            return name.strip("_<>").replace("_", "-") or "program"


def make_main(world: World, name: str, own: Own, lease: LeaseSettings) -> Main:
    """What the program of this name does. Raises `NotRunnable`."""
    match own:
        case Controller():
            return _component(world, name, [own], lease)
        case [Controller(), *_]:
            return _component(world, name, own, lease)
        case _ if callable(own):
            return _function(world, name, own)
        case _:
            raise NotRunnable(
                f"{own!r} is not a program; pass a Controller, several of them, or a coroutine function"
                " (not the result of calling it)"
            )


def find_url(world: World) -> str:
    """Of the first server."""
    return f"http://{next(iter(world.servers))}:{PORT}"


def make_kubeconfig(world: World, name: str) -> dict[str, Any]:
    """With which a client asks as this program."""
    named = {"cluster": "sim", "user": name}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "sim", "cluster": {"server": find_url(world)}}],
        "users": [{"name": name, "user": {"token": TOKEN + name}}],
        "contexts": [{"name": "sim", "context": named}],
        "current-context": "sim",
    }


def _component(world: World, name: str, controllers: Sequence[Controller], lease: LeaseSettings) -> Main:
    async def main(env: Env) -> None:
        async with world.client_for(name, env) as client:
            settings = ComponentSettings(lease=lease)
            component = Component(name, controllers, client, env, settings=settings, recorder=world.recorder)
            await component.run()

    return main


def _function(world: World, name: str, own: OwnMain) -> Main:
    wanted = [
        parameter.name
        for parameter in inspect.signature(own).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if unknown := [each for each in wanted if each not in GIVEN]:
        raise NotRunnable(
            f"{name} has unknown parameters {', '.join(unknown)}; a program may have {', '.join(GIVEN)}."
            " Bind the rest with functools.partial"
        )

    async def main(env: Env) -> None:
        given: dict[str, Any] = {
            "env": env,
            "url": find_url(world),
            "token": TOKEN + name,
            "kubeconfig": make_kubeconfig(world, name),
        }
        if "client" not in wanted:
            await own(**{each: given[each] for each in wanted})
            return
        async with world.client_for(name, env) as client:
            given["client"] = client
            await own(**{each: given[each] for each in wanted})

    return main
