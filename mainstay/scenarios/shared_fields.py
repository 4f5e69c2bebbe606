"""Some apply what they want of an object, others update it: the manager that changes a field is its only owner.

Who applies a value that is there already shares the field. When one of them changes it, by whichever way, the others
lose it in `metadata.managedFields`: what they apply next without it must not take away what another one has set.
"""

from datetime import timedelta
from typing import Final

from mainstay.api.field_sets import compare_fields, intersection, paths
from mainstay.api.field_shapes import find_shape
from mainstay.api.kind_names import CONFIG_MAPS
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import Conflict, NotFound
from mainstay.scenarios._stages import NAMESPACE, UserStage
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.decoded import decode_commit
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

APPLIERS: Final = ("applier-1", "applier-2")
UPDATERS: Final = ("updater-1", "updater-2")
NAMES: Final = ("map-1", "map-2")
FIELDS: Final = ("a", "b", "c")
VALUES: Final = ("1", "2")  # Few, so that two often want the same.
_PREFIX: Final = "core/configmaps/"


class SharedFields(UserStage):
    turn_every = timedelta(milliseconds=400)

    async def turn(self, client: Client) -> None:
        name = NAMES[self.choose("which", len(NAMES))]
        data = {field: VALUES[self.choose("value", 2)] for field in FIELDS if self.choose("has", 2)}
        metadata = {"name": name, "namespace": NAMESPACE}
        if self.choose("applies", 2):
            manager, force = APPLIERS[self.choose("applier", len(APPLIERS))], bool(self.choose("force", 2))
            try:
                await client.apply(CONFIG_MAPS, {"metadata": metadata, "data": data}, manager=manager, force=force)
            except Conflict:
                return  # Another one owns some of it, and this one gives in.
        else:
            write = WriteOptions(field_manager=UPDATERS[self.choose("updater", len(UPDATERS))])
            try:
                await client.patch(CONFIG_MAPS, name, NAMESPACE, {"data": data}, write=write)
            except NotFound:
                await client.create(CONFIG_MAPS, {"metadata": metadata, "data": data}, write=write)


class OneOwnerOfAChange:
    """What a write changes is owned by one manager after it."""

    name = "field owners"

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted) or not event.key.startswith(_PREFIX):
            return
        if event.value is None or event.previous is None:
            return
        new, old = decode_commit(event.value), decode_commit(event.previous)
        changed, _ = compare_fields({"data": old.get("data")}, {"data": new.get("data")}, _SHAPE)
        owners: dict[str, list[str]] = {}
        for entry in new["metadata"].get("managedFields") or ():
            for path in paths(intersection(entry["fieldsV1"], changed)):
                owners.setdefault(path, []).append(f"{entry['manager']} ({entry['operation']})")
        for path, found in owners.items():
            if len(found) > 1:
                raise Violated(
                    self.name, f"{path} of {event.key} was changed, but {' and '.join(found)} own it", [event]
                )

    async def at_end(self, world: World) -> None:
        """Everything was told while it happened."""


_SHAPE: Final = find_shape("k8s.io.api.core.v1.ConfigMap")

SCENARIO: Final = Scenario(
    name="shared-fields",
    about="Some apply fields and others update them: a changed field has one owner.",
    make=SharedFields,
    checkers=lambda: [AcknowledgedWrites(), OneOwnerOfAChange()],
    faults=("answer-lost", "request-lost", "conflict-storm", "latency", "server-crash"),
)
