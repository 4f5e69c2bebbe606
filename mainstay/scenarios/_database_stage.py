"""A user wants databases and changes their mind; the operator of _database.py sees to them; volumes are provided.

What the user does in one scenario is one of a few deeds. In the end each Database must have what it wants, and nothing
may be there that none of them wants.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import DEFINITIONS
from mainstay.api.object_key import ObjectKey
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, NotFound
from mainstay.env import tasks
from mainstay.loop.controller import Controller
from mainstay.loop.decision import Decision, Patch
from mainstay.loop.freshness import Freshness
from mainstay.loop.view import View
from mainstay.scenarios._database import (
    DATABASE,
    DATABASES,
    SHRUNK_TO,
    VOLUMES,
    Databases,
    is_bound,
    read_key,
    read_number,
    read_owner,
    read_size,
    started_with,
    wanted_certificates,
    wanted_settings,
)
from mainstay.scenarios._ownership import definition
from mainstay.scenarios._stages import NAMESPACE, UserStage
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.sim.cluster.world import World

OPERATOR: Final = "operator"
VOLUMES_PREFIX: Final = "core/persistentvolumeclaims/"
PODS_PREFIX: Final = "core/pods/"
SECRETS_PREFIX: Final = "core/secrets/"
SETTINGS_PREFIX: Final = "core/configmaps/"
DATABASES_PREFIX: Final = "example.dev/databases/"
NAMES: Final = tuple(f"db-{letter}" for letter in "abcdef")
"""Several, so that what goes wrong with one is not made good soon by the next thing that is wanted of it."""
SMALL: Final = 1
MEDIUM: Final = 2
LARGE: Final = 3
GONE_WITHIN: Final = timedelta(seconds=5)
_TICK: Final = timedelta(milliseconds=200)
_SOON: Final = timedelta(milliseconds=1)  # As long as the operator takes for a write or two.


class Provider(Controller):
    """Provides each volume that is claimed."""

    name = "provider"
    kind = VOLUMES

    def decide(self, view: View, key: ObjectKey, memory: None) -> Decision:
        volume = view.get(VOLUMES, key)
        if volume is None or is_bound(volume):
            return Decision()
        bound = Patch(
            VOLUMES,
            key,
            volume["metadata"]["uid"],
            {"status": {"phase": "Bound"}},
            "status",
            freshness=Freshness.MAY_BE_STALE,
        )
        return Decision(actions=(bound,))


class DatabaseStage(UserStage):
    """With a number of deeds that the user does, each as likely as the others."""

    turn_every = timedelta(seconds=2)
    deeds: tuple[str, ...] = ()
    needs_volumes = False
    also: Mapping[str, Any] = {}
    """What each database wants besides members."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._count = 0
        self.add_controller(Databases(), OPERATOR)
        if self.needs_volumes:
            self.add_controller(Provider(), "provider")
            world.spared["provider"] = None

    async def prepare(self, client: Client) -> None:
        crd = definition(DATABASES)
        crd["spec"]["versions"][0]["subresources"] = {"status": {}}
        await client.create(DEFINITIONS, crd)
        for name in NAMES:
            await client.create(DATABASES, self._a_database(name, MEDIUM))
        await tasks.sleep(_TICK * 5)

    async def turn(self, client: Client) -> None:
        self._count += 1
        name = NAMES[self._count % len(NAMES)]
        match self.deeds[self.choose("deed", len(self.deeds))]:
            case "grows":
                await self._change(client, name, storage=f"{self._count + 1}Gi")
            case "settings":
                await self._change(client, name, settings={"turn": str(self._count)})
            case "resized":
                await self._change(client, name, replicas=self._replicas())
            case "resized-twice":
                await self._change(client, name, replicas=LARGE)
                await tasks.sleep(_SOON * self.choose("soon", 4))
                await self._change(client, name, replicas=SMALL)
            case "shrunk-and-grown":
                await self._change(client, name, replicas=SMALL)
                await tasks.sleep(_TICK * (1 + self.choose("soon", 4)))
                await self._change(client, name, replicas=MEDIUM)
            case "replaced":
                await self._replace(client, name)
            case "made":
                await client.create(DATABASES, self._a_database(f"db-{self._count}", 1))
            case deed:
                raise AssertionError(deed)

    def _replicas(self) -> int:
        return (SMALL, LARGE, SMALL)[self.choose("replicas", 3)]

    async def _change(self, client: Client, name: str, **spec: Any) -> None:
        try:
            await client.patch(DATABASES, name, NAMESPACE, {"spec": spec})
        except NotFound:
            await client.create(DATABASES, self._a_database(name, self._replicas()))

    async def _replace(self, client: Client, name: str) -> None:
        with suppress(NotFound):
            await client.delete(DATABASES, name, NAMESPACE)
            for _ in range(GONE_WITHIN // _TICK):
                await client.get(DATABASES, name, NAMESPACE)
                await tasks.sleep(_TICK)
        with suppress(AlreadyExists):  # The operator takes its time.
            await client.create(DATABASES, self._a_database(name, SMALL))

    def _a_database(self, name: str, replicas: int) -> Object:
        spec = {"replicas": replicas, "storage": "1Gi", **self.also}
        return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}

    # In the end.

    async def check(self) -> None:
        databases = {database["metadata"]["uid"]: database for database in await self._all(DATABASES_PREFIX)}
        for prefix in (PODS_PREFIX, VOLUMES_PREFIX, SECRETS_PREFIX, SETTINGS_PREFIX):
            of_each: dict[str, list[Object]] = {uid: [] for uid in databases}
            for obj in await self._all(prefix):
                if read_owner(obj) not in databases:
                    raise Violated("databases", f"{prefix}{obj['metadata']['name']} exists, but its database does not")
                of_each[read_owner(obj)].append(obj)
            for uid, database in databases.items():
                if problem := _problem(prefix, database, of_each[uid]):
                    raise Violated("databases", f"{database['metadata']['name']} {problem}")

    async def _all(self, prefix: str) -> list[Object]:
        found = [decode_commit(entry.value) for entry in (await self.world.store.range(prefix)).entries]
        return [obj for obj in found if prefix == DATABASES_PREFIX or DATABASE in (obj["metadata"].get("labels") or {})]


def _problem(prefix: str, database: Object, found: Sequence[Object]) -> str:
    """What is wrong with the objects of one kind that a database has; empty if nothing is."""
    name, spec = database["metadata"]["name"], database["spec"]
    names = [obj["metadata"]["name"] for obj in found]
    match prefix:
        case "core/secrets/":
            wanted = wanted_certificates(database)
        case "core/configmaps/":
            wanted = [f"{name}-settings"] if wanted_settings(database) else []
        case "core/pods/":
            wanted = [f"{name}-{number}" for number in range(spec["replicas"])]
        case _:
            wanted = [f"data-{name}-{number}" for number in range(spec["replicas"])]
    if sorted(names) != wanted:
        return f"should have {', '.join(wanted) or 'none'} but has {', '.join(sorted(names)) or 'none'} of {prefix}"
    for obj in found:
        if prefix == VOLUMES_PREFIX and read_size(obj) != spec["storage"]:
            return f"wants {spec['storage']} but {obj['metadata']['name']} has {read_size(obj)}"
        if prefix == SETTINGS_PREFIX and obj.get("data") != wanted_settings(database):
            return f"wants the settings {wanted_settings(database)} but they are {obj.get('data')}"
        if prefix == PODS_PREFIX and obj["metadata"]["annotations"]["settings"] != started_with(database)["settings"]:
            return f"wants {started_with(database)} but {obj['metadata']['name']} runs with other settings"
    return ""


class NothingWantedDeleted:
    """Nothing of one kind is deleted that a living database wants, by its number.

    An operator may say in the database, on condition that it has seen the latest version, that it is about to remove
    what is not wanted now; if a user wants it again right then, that was a moment too late.
    """

    name = "wanted"

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._databases: dict[str, Object] = {}
        """By uid."""

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted):
            return
        if event.key.startswith(DATABASES_PREFIX):
            if event.value is not None:
                database = decode_commit(event.value)
                self._databases[database["metadata"]["uid"]] = database
            elif event.previous is not None:
                self._databases.pop(decode_commit(event.previous)["metadata"]["uid"], None)
        elif event.key.startswith(self._prefix) and event.value is None and event.previous is not None:
            lost = decode_commit(event.previous)
            owner = self._databases.get(read_owner(lost))
            if owner is not None and "deletionTimestamp" not in owner["metadata"] and read_number(lost) < _wants(owner):
                raise Violated(
                    self.name, f"{read_key(lost)} was deleted, but its database exists and wants it", [event]
                )

    async def at_end(self, world: World) -> None:
        """What is there in the end, the stage looks at."""


def _wants(database: Mapping[str, Any]) -> int:
    claimed = (database.get("status") or {}).get(SHRUNK_TO)
    replicas = int(database["spec"]["replicas"])
    return replicas if claimed is None else min(replicas, int(claimed))
