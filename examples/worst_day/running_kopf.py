"""An operator made with kopf as a program of a simulated world: as it is, over (simulated) TCP, in virtual time.

    world.add_program("operator", kopf_program("examples.worst_day.database_operator", "operator", "server-1"))

Each start of the program executes the operator's module again, as a process does, with a registry of its own; so what
it keeps in globals is lost in a crash. It finds the server by $KUBECONFIG. Its handlers must be coroutines, and talk to
the API with a library that does, too: there are no threads here.
"""

import atexit
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

import kopf
import yaml

from mainstay.env import Env
from mainstay.sim.cluster.server_proxy import TOKEN
from mainstay.sim.cluster.world import PORT

NAMESPACE: Final = "default"


def kopf_program(module: str, name: str, server: str) -> Callable[[Env], Coroutine[Any, Any, object]]:
    """What to give to `World.add_program`. `name` is how the server knows it: that of the program."""
    code = _code_of(module)  # Read now: in the run there are no files.
    kubeconfig = _kubeconfig(name, server)

    async def main(env: Env) -> None:
        os.environ["KUBECONFIG"] = kubeconfig
        registry = kopf.OperatorRegistry()
        kopf.set_default_registry(registry)
        kopf.on.login(registry=registry)(kopf.login_with_kubeconfig)
        exec(code, ModuleType(module).__dict__)
        await kopf.operator(registry=registry, standalone=True, namespaces=[NAMESPACE])

    return main


@cache
def _code_of(module: str) -> CodeType:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return compile(Path(spec.origin).read_text(), spec.origin, "exec")


@cache
def _kubeconfig(name: str, server: str) -> str:
    path = _directory() / f"{name}-{server}"
    config = {
        "current-context": "sim",
        "contexts": [{"name": "sim", "context": {"cluster": "sim", "user": "sim", "namespace": NAMESPACE}}],
        "clusters": [{"name": "sim", "cluster": {"server": f"http://{server}:{PORT}"}}],
        "users": [{"name": "sim", "user": {"token": f"{TOKEN}{name}"}}],
    }
    path.write_text(yaml.safe_dump(config))
    return str(path)


@cache
def _directory() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="mainstay-kubeconfig-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory
