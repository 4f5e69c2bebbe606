"""Controllers that clean up, in two processes that elect one of them; and objects that own each other."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import CONFIG_MAPS, DEFINITIONS, SERVICE_ACCOUNTS
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, ApiError
from mainstay.controllers.component import Controllers
from mainstay.env import Env, tasks
from mainstay.loop.component import ComponentSettings
from mainstay.loop.kernel import LoopSpec
from mainstay.scenarios._stages import LEASE, UserStage
from mainstay.server.auth import identities
from mainstay.sim.cluster.world import World

CLEANERS: Final = ("controllers-1", "controllers-2")
WEBSITES: Final = KindName("example.dev", "v1", "Website", "websites", True)
KINDS: Final = {
    "core/configmaps/": CONFIG_MAPS,
    "core/serviceaccounts/": SERVICE_ACCOUNTS,
    "example.dev/websites/": WEBSITES,
}
"""By how their keys begin in the store."""


class OwnershipStage(UserStage):
    cleaners: Sequence[str] = CLEANERS
    lease = LEASE

    def __init__(self, world: World, loops: Sequence[LoopSpec]) -> None:
        super().__init__(world)
        for program in self.cleaners:
            world.add_program(program, partial(self._clean, program, loops=loops), user=identities.CONTROLLERS)
            self._expected += 1

    async def _clean(self, program: str, env: Env, loops: Sequence[LoopSpec]) -> None:
        async with self.world.client_for(program, env) as client:
            component = self.components[program] = Controllers(
                client,
                env,
                instance=program,
                controllers=(),
                loops=loops,
                settings=ComponentSettings(lease=self.lease),
                recorder=self.world.recorder,
            )
            await component.run()


def named(owner: Object, kind: KindName, *, blocks: bool = True) -> Object:
    metadata = owner["metadata"]
    return {
        "apiVersion": kind.group_version,
        "kind": kind.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "blockOwnerDeletion": blocks,
    }


def definition(kind: KindName = WEBSITES) -> Object:
    schema: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {"plural": kind.plural, "singular": kind.kind.lower(), "kind": kind.kind},
            "versions": [version],
        },
    }


async def define(client: Client, kind: KindName = WEBSITES) -> None:
    """Define a kind, and wait until it is served."""
    with suppress(AlreadyExists):
        await client.create(DEFINITIONS, definition(kind))
    while True:
        try:
            await client.list(kind, limit=1)
        except ApiError:
            await tasks.sleep(LEASE.retry_every / 10)
        else:
            return
