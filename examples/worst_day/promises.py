"""What any database operator must hold to, whatever goes wrong: one small class for each promise.

They look at what is in the store and nothing else, so they know neither kopf nor the operator. The first three can
be broken at any moment, the others are looked at when all is healed and quiet.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from mainstay.api.kind_name import KindName
from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.sim.cluster.world import World

DATABASES: Final = KindName("example.com", "v1", "Database", "databases", True)
DATABASES_PREFIX: Final = "example.com/databases/"
CLAIMS_PREFIX: Final = "core/persistentvolumeclaims/"
PODS_PREFIX: Final = "core/pods/"
SECRETS_PREFIX: Final = "core/secrets/"
CHILDREN: Final = (PODS_PREFIX, CLAIMS_PREFIX, SECRETS_PREFIX, "core/configmaps/")


class Promise:
    """Knows what is in the store."""

    name = ""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        """By key: those that promises are about."""

    def saw(self, event: Event) -> None:
        if isinstance(event, RevisionCommitted) and event.key.startswith((DATABASES_PREFIX, *CHILDREN)):
            self.committed(event)
            if event.value is None:
                self.objects.pop(event.key, None)
            else:
                self.objects[event.key] = json.loads(event.value)

    def committed(self, event: RevisionCommitted) -> None:
        """Something is about to be in the store, or not to be there any more."""

    async def at_end(self, world: World) -> None:
        """All is healed and quiet."""

    def broken(self, message: str, *events: Event) -> Violated:
        return Violated(self.name, message, events)

    # What there is.

    def database_of(self, child: Any) -> Any:
        """The database that an object belongs to by its name, if it lives."""
        metadata = child["metadata"]
        found = self.objects.get(f"{DATABASES_PREFIX}{metadata['namespace']}/{metadata['labels']['database']}")
        return None if found is None or "deletionTimestamp" in found["metadata"] else found

    def of_databases(self, prefix: str) -> Iterator[tuple[str, Any]]:
        for key, obj in sorted(self.objects.items()):
            if key.startswith(prefix) and "database" in (obj["metadata"].get("labels") or {}):
                yield key, obj


class NoDataLost(Promise):
    """A volume that is wanted is not deleted: the user has changed their mind while the operator was busy."""

    name = "no data lost"

    def committed(self, event: RevisionCommitted) -> None:
        if event.value is None and event.key.startswith(CLAIMS_PREFIX):
            volume = json.loads(event.previous or b"{}")
            database = self.database_of(volume)
            if database is not None and _number(volume) < database["spec"]["replicas"]:
                self.lost(database, event)

    def lost(self, database: Any, event: RevisionCommitted) -> None:
        raise self.broken("a volume is deleted that its database wants", event)


class NotAnothersData(NoDataLost):
    """The same, of a database that has the name of one before it."""

    name = "not another's data"

    def __init__(self) -> None:
        super().__init__()
        self._first: dict[str, str] = {}
        """By name: the uid of the first database of that name."""

    def committed(self, event: RevisionCommitted) -> None:
        if event.key.startswith(DATABASES_PREFIX) and event.value is not None:
            metadata = json.loads(event.value)["metadata"]
            self._first.setdefault(metadata["name"], metadata["uid"])
        super().committed(event)

    def lost(self, database: Any, event: RevisionCommitted) -> None:
        if self._first[database["metadata"]["name"]] != database["metadata"]["uid"]:
            raise self.broken("a volume of a living database is deleted with those of an earlier one", event)


class NothingInTheClear(Promise):
    name = "nothing in the clear"

    def committed(self, event: RevisionCommitted) -> None:
        if event.key.startswith(PODS_PREFIX) and event.previous is None and event.value is not None:
            pod = json.loads(event.value)
            namespace, database = pod["metadata"]["namespace"], pod["metadata"]["labels"]["database"]
            if f"{SECRETS_PREFIX}{namespace}/{database}-peer-tls" not in self.objects:
                raise self.broken("a member runs, and has no certificate for its peers", event)


class VolumesLargeEnough(Promise):
    name = "volumes large enough"

    async def at_end(self, world: World) -> None:
        for key, volume in self.of_databases(CLAIMS_PREFIX):
            database = self.database_of(volume)
            has = volume["spec"]["resources"]["requests"]["storage"]
            if database is not None and has != database["spec"]["storage"]:
                raise self.broken(f"{key} has {has}, and {database['spec']['storage']} is wanted")


class SettingsInForce(Promise):
    name = "settings in force"

    async def at_end(self, world: World) -> None:
        for key, pod in self.of_databases(PODS_PREFIX):
            database = self.database_of(pod)
            has = json.loads(pod["metadata"]["annotations"]["settings"])
            if database is not None and has != (database["spec"].get("settings") or {}):
                raise self.broken(f"{key} runs with {has}, and {database['spec']['settings']} is wanted")


class AllMembersThere(Promise):
    name = "all members there"

    async def at_end(self, world: World) -> None:
        for key, database in sorted(self.objects.items()):
            if key.startswith(DATABASES_PREFIX):
                for number in range(database["spec"]["replicas"]):
                    pod = f"{PODS_PREFIX}{key.removeprefix(DATABASES_PREFIX)}-{number}"
                    if pod not in self.objects:
                        raise self.broken(f"there is no {pod}, and {key} wants {database['spec']['replicas']} members")


class NothingLeftOver(Promise):
    name = "nothing left over"

    async def at_end(self, world: World) -> None:
        for prefix in CHILDREN:
            for key, child in self.of_databases(prefix):
                database = self.database_of(child)
                if database is None:
                    raise self.broken(f"{key} is there, and its database is not")
                if prefix in (PODS_PREFIX, CLAIMS_PREFIX) and _number(child) >= database["spec"]["replicas"]:
                    raise self.broken(f"{key} is there, and {database['spec']['replicas']} members are wanted")


def _number(child: Any) -> int:
    return int(child["metadata"]["name"].rpartition("-")[2])


PROMISES: Final = (
    NotAnothersData,
    NoDataLost,
    NothingInTheClear,
    VolumesLargeEnough,
    SettingsInForce,
    AllMembersThere,
    NothingLeftOver,
)
