"""An operator made with kopf: over TLS against a real server process, and once more in virtual time.

It paints walls. A wall is a custom resource; its status says which colour it has, and an hour later it needs another
coat. Before a wall may go, the paint has to come off, which is not done at the first attempt.
"""

# The models of `kubernetes` say that every part may be missing, and its helpers do not say anything.
# mypy: disable-error-code="arg-type,index,no-untyped-call,union-attr"

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import kopf
import pytest
from kubernetes import client

from mainstay.env import tasks
from mainstay.sim.loop.trace import Recording, first_difference
from mainstay.sim.simulation import Simulation
from tests.clients.python_client import python_client
from tests.clients.server_process import ServerProcess
from tests.processes import eventually
from tests.server.world import a_server

pytestmark = pytest.mark.slow

FINALIZER: Final = "kopf.zalando.org/KopfFinalizerMarker"
GROUP: Final = "kopf.example.com"
WALLS: Final = f"/apis/{GROUP}/v1/namespaces/default/walls"
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

_FREE: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["colour"],
            "properties": {"colour": {"type": "string"}, "coats": {"type": "integer", "default": 1}},
        },
        "status": _FREE,
    },
}
_COLUMN: Final = {"name": "Colour", "type": "string", "jsonPath": ".status.colour"}
CRD: Final[dict[str, Any]] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"walls.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "walls", "singular": "wall", "kind": "Wall", "listKind": "WallList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": _SCHEMA},
                "subresources": {"status": {}},
                "additionalPrinterColumns": [_COLUMN],
            }
        ],
    },
}


def a_wall(name: str, colour: str) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Wall", "metadata": {"name": name}, "spec": {"colour": colour}}


# The operator.


def register(registry: kopf.OperatorRegistry, retry_s: float) -> None:
    """Its handlers. They do not block, so that they also run in the simulator, where there are no threads."""
    walls = (GROUP, "v1", "walls")

    @kopf.on.create(*walls, registry=registry)
    @kopf.on.update(*walls, field="spec.colour", registry=registry)
    async def paint(spec, body, patch, **_):
        patch.status["colour"] = spec["colour"]
        patch.status["coats"] = spec["coats"]
        kopf.info(body, reason="Painted", message=f"The wall is {spec['colour']} now.")

    @kopf.timer(*walls, interval=3600, initial_delay=3600, registry=registry)
    async def paint_again(status, patch, **_):
        patch.status["coats"] = status["coats"] + 1

    @kopf.on.delete(*walls, registry=registry)
    async def scrape(retry, **_):
        if retry == 0:
            raise kopf.TemporaryError("the paint sticks", delay=retry_s)


# On a real server.


@contextlib.contextmanager
def an_operator(server: ServerProcess, directory: Path) -> Iterator[None]:
    """It runs in a process of its own, as its users run it, and finds the server by the kubeconfig."""
    script = directory / "operator.py"
    script.write_text(
        f"import kopf\nfrom {__name__} import register\nregister(kopf.get_default_registry(), retry_s=0.1)\n"
    )
    log = directory / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "kopf", "run", str(script), "--standalone", "--namespace=default", "--verbose"],
            env={**server.environment, "PYTHONPATH": str(Path(__file__).parents[2])},
            stdout=output,
            stderr=output,
        )
    try:
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, log.read_text()[-4000:]
    finally:
        process.kill()
        process.wait()


def test_an_operator_with_a_crd_a_finalizer_and_a_status(tmp_path: Path):
    with ServerProcess() as server, python_client(server.kubeconfig) as api:
        client.ApiextensionsV1Api(api).create_custom_resource_definition(CRD)
        eventually(lambda: _is_served(api))
        with an_operator(server, tmp_path):
            _have_a_wall_painted_and_scraped(client.CustomObjectsApi(api))
            assert eventually(lambda: _painted(api)) == ["The wall is blue now.", "The wall is red now."]


def _have_a_wall_painted_and_scraped(walls: client.CustomObjectsApi) -> None:
    where = (GROUP, "v1", "default", "walls")

    def north() -> Any:
        return walls.get_namespaced_custom_object(*where, "north")

    walls.create_namespaced_custom_object(*where, a_wall("north", "red"))
    eventually(lambda: north().get("status", {}).get("colour") == "red")
    assert north()["metadata"]["finalizers"] == [FINALIZER]
    walls.patch_namespaced_custom_object(*where, "north", {"spec": {"colour": "blue"}})
    eventually(lambda: north()["status"]["colour"] == "blue")
    assert north()["status"]["coats"] == 1
    walls.delete_namespaced_custom_object(*where, "north")
    eventually(lambda: walls.list_namespaced_custom_object(*where)["items"] == [])


def _painted(api: client.ApiClient) -> list[str]:
    """What the events say, once both are there: the operator sends them beside its work."""
    events = client.CoreV1Api(api).list_namespaced_event("default").items
    found = sorted(event.message or "" for event in events if event.reason == "Painted")
    return found if len(found) == 2 else []


def _is_served(api: client.ApiClient) -> bool:
    crd = client.ApiextensionsV1Api(api).read_custom_resource_definition(f"walls.{GROUP}")
    conditions = crd.status.conditions or []
    return any(each.type == "Established" and each.status == "True" for each in conditions)


# In virtual time.


@contextlib.asynccontextmanager
async def an_operator_in(sim: Simulation, retry_s: float) -> AsyncIterator[None]:
    """The same on a host of the simulated network, without TLS."""
    registry = kopf.OperatorRegistry()
    register(registry, retry_s)

    @kopf.on.login(registry=registry)
    async def login(**_):
        return kopf.ConnectionInfo(server="http://server:6443", token="admintoken")

    # `kopf.operator` would in the end cancel every task that is younger than itself, and so the server's. Without the
    # flag, an operator that is cancelled has its process killed ten minutes later.
    stopping = asyncio.Event()
    with sim.network.host("operator").active():
        running = await kopf.spawn_tasks(registry=registry, standalone=True, namespaces=["default"], stop_flag=stopping)
    try:
        yield
    finally:
        stopping.set()
        for task in running:
            task.cancel()
        await asyncio.wait(running)


async def a_long_day(sim: Simulation) -> None:
    async with a_server(sim) as api, an_operator_in(sim, retry_s=600):
        # It runs before there is anything for it to do, and finds the new kind by watching definitions.
        await tasks.sleep(timedelta(seconds=5))
        await api.create(CRDS, CRD)
        await tasks.sleep(timedelta(seconds=5))
        await api.create(WALLS, a_wall("north", "red"))
        await tasks.sleep(timedelta(seconds=5))
        wall = await api.get(f"{WALLS}/north")
        assert wall["metadata"]["finalizers"] == [FINALIZER]
        assert (wall["status"]["colour"], wall["status"]["coats"]) == ("red", 1)

        await tasks.sleep(timedelta(hours=3))
        wall = await api.get(f"{WALLS}/north")
        assert wall["status"]["coats"] == 4

        await api.delete(f"{WALLS}/north")
        await tasks.sleep(timedelta(minutes=5))
        assert (await api.get(f"{WALLS}/north"))["metadata"]["deletionTimestamp"]
        await tasks.sleep(timedelta(minutes=6))
        assert (await api.get(WALLS))["items"] == []


async def test_the_same_operator_in_virtual_time(sim):
    await a_long_day(sim)


def test_an_operator_does_the_same_again_with_the_same_seed():
    def record() -> Recording:
        with Simulation(1, keep_trace=True) as sim:
            sim.run(a_long_day(sim))
            return sim.trace.recording()

    assert first_difference(record(), record()) is None
