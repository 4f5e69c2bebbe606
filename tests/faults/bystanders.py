"""What else goes on in a cluster while a fault is planted: other workloads that roll, are scaled, and wait.

They have troubles of their own, which are not what is asked about. They ask for no room, so that a fault is the same
with them and without.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, Final

from mainstay.api.kind_names import DEPLOYMENTS, JOBS, NAMESPACES, PODS
from mainstay.client.client import Client
from mainstay.client.errors import ApiError
from mainstay.env import tasks
from tests.faults.objects import a_deployment, a_pod

OTHER: Final = "other"
EVERY: Final = timedelta(seconds=7)
SPEC: Final[dict[str, Any]] = {"tolerations": [{"operator": "Exists"}]}


@asynccontextmanager
async def bystanders(client: Client) -> AsyncIterator[None]:
    """Begin, and go on until the end."""
    await client.create(NAMESPACES, {"metadata": {"name": OTHER}})
    for name in ("shop", "web"):  # Also under a name that is asked about in another namespace.
        await client.create(DEPLOYMENTS, _moved(a_deployment(name, 3, "", pod=SPEC)))
    job = {"template": {"spec": a_pod("x", "", restartPolicy="Never", **SPEC)["spec"]}}
    await client.create(JOBS, {"metadata": {"name": "report", "namespace": OTHER}, "spec": job})
    await client.create(PODS, a_pod("bystander", "", nodeSelector={"color": "green"}))
    await client.create(PODS, _moved(a_pod("db", "1000")))
    churning = tasks.spawn(_churn(client), name="bystanders")
    try:
        yield
    finally:
        await tasks.stop(churning)


async def _churn(client: Client) -> None:
    turn = 0
    while True:
        await tasks.sleep(EVERY)
        turn += 1
        with suppress(ApiError):
            template = a_deployment("shop", 3, "", image=f"x:{turn}", pod=SPEC)["spec"]["template"]
            await client.patch(DEPLOYMENTS, "shop", OTHER, {"spec": {"template": template}})
            await client.patch(DEPLOYMENTS, "web", OTHER, {"spec": {"replicas": 1 + turn % 3}})


def _moved(obj: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "namespace": OTHER}}
