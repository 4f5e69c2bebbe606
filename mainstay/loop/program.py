"""Running controllers as a program of their own: `run("websites", [Websites()])`."""

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from mainstay.client.client import Client
from mainstay.client.config import BadConfig, Config, from_kubeconfig_file, in_cluster
from mainstay.env import Chance, Env, SystemClock, SystemDisk, machine, signals, tasks
from mainstay.env.build import build
from mainstay.env.health import Health
from mainstay.journal.decisions import DecisionRecorder
from mainstay.loop.component import Component, ComponentSettings
from mainstay.loop.controller import Controller
from mainstay.loop.record_shipper import Shipper


def run(
    name: str,
    controllers: Sequence[Controller],
    *,
    kubeconfig: str = "",
    elected: bool = True,
    settings: ComponentSettings | None = None,
    data_dir: str = "",
) -> None:
    """Run controllers until SIGTERM or SIGINT. Raises `BadConfig` if it is not known whom to ask.

    Without `kubeconfig` it is `$KUBECONFIG`, else the service account that a pod is given, else `~/.kube/config`.
    Started several times, on one machine or on many, one of them acts and the others stand by; `elected=False` makes
    all act. Decisions go into the server's journal, if it keeps one and lets us; otherwise they are recorded in
    `data_dir`, by default in `~/.local/state/mainstay`.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    config = load_config(kubeconfig)
    directory = Path(data_dir) if data_dir else machine.state_dir(os.environ) / name
    env = Env(SystemClock(), Chance.fresh(), SystemDisk(directory))
    with Health(env.clock).active() as health:
        tasks.run(_run(name, controllers, config, env, elected, settings, health))


async def _run(
    name: str,
    controllers: Sequence[Controller],
    config: Config,
    env: Env,
    elected: bool,
    settings: ComponentSettings | None,
    health: Health,
) -> None:
    stopping = signals.StopSignals()
    instance = f"{name}.{machine.hostname().lower()}" if elected else name
    local = DecisionRecorder(env.disk, env.clock)
    async with (
        Client(config, env, user_agent=name) as client,
        Shipper(client, env, source=instance, local=local) as shipper,
    ):
        settings = settings or ComponentSettings(has_events=True, is_operated=True, build=build())
        component = Component(
            name,
            controllers,
            client,
            env,
            instance=instance,
            elected=elected,
            settings=settings,
            recorder=shipper.record,
        )
        running = tasks.spawn(component.run(), name=name)
        asked = tasks.spawn(stopping.first(), name="wait for a signal")
        failing = tasks.spawn(health.failed(), name="wait for a failure")
        try:
            await asyncio.wait([running, asked, failing], return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
            elif failing.done():
                raise RuntimeError(failing.result())
        finally:
            await tasks.stop(running)
            await tasks.stop(asked)
            await tasks.stop(failing)
            stopping.close()


def load_config(kubeconfig: str, environ: Mapping[str, str] = os.environ) -> Config:
    """Whom to ask, and as whom. Raises `BadConfig`, `OSError`."""
    named = kubeconfig or environ.get("KUBECONFIG", "")
    if named:
        return from_kubeconfig_file(Path(named))
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(environ)
    home = environ.get("HOME", "")
    if not home:
        raise BadConfig("no API server found: name a kubeconfig, or set KUBECONFIG")
    return from_kubeconfig_file(Path(home) / ".kube" / "config")
