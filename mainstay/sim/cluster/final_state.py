"""What is left in the store when a run has come to rest, told so that two runs can be compared.

A run with a crash in it takes other ways than one without: other uids, other times, other numbers of writes. What must
be equal is what users see of it: which objects there are, who owns whom, what they want and what they say. So here all
that depends on the way is taken out:

- uids, revisions, times and managed fields; generations, of which only is kept whether what was observed is the latest;
- names that were made for an owner: such an object is told by its owner and what it says; and the name of the volume
  with a pod's token;
- what was done last, or went wrong last, in records of progress; and the order of conditions.

Leases, states of components, Events and the servers' own books are left out. So is the evidence in a node's record: it
is what was known when the verdict was first said, and a program that restarts may know more by then.

A run can be told how it should end: as that without a fault, but for what differs anyway (sim/run/sweep.py, sieve/). It
then violates if it does not, and its result says what was expected, so that it is judged the same way when it is made
again (sim/run/bundle.py).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.server.crd.definitions import NAMES
from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.differences import find_differences, without
from mainstay.sim.cluster.expected_state import ExpectedState
from mainstay.sim.run.scenario import Scenario, Stage
from mainstay.store.interface import Entry

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

FINAL_STATE: Final = "final state"
"""The promise that is broken by a run which does not end as it should."""
DIFFERENCES_SHOWN: Final = 12
LEFT_OUT: Final = (
    INTERNAL_PREFIX,
    NAMES,
    "coordination.k8s.io/",
    "mainstay.dev/componentstates/",
    "core/events/",
    "events.k8s.io/",
)
_OF_THE_WAY: Final = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink")
_EVIDENCE: Final = re.compile(r'\\"evidence\\":\[.*?\]')
_TOKEN_VOLUME: Final = re.compile(r"kube-api-access-[a-z0-9]{5}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_OF_THE_LAST_STEP: Final = ("lastAction", "lastError")
# How often a Deployment has moved on, and what it wanted when it last looked at one of its sets: of those that have no
# pods any more, that depends on when it was done with them.
_COUNTED: Final = tuple(f"deployment.kubernetes.io/{name}" for name in ("revision", "desired-replicas", "max-replicas"))
_decode = msgspec.json.Decoder(Object).decode


class ComparedStage(Stage):
    """Has to end as without a fault, whatever single fault is tried (sim/run/sweep.py, lineage/)."""


def expect_end(scenario: Scenario, expected: ExpectedState) -> Scenario:
    """The same, and each run has to end with this."""
    return replace(scenario, expected=expected)


async def read_end(world: "World") -> dict[str, list[Object]]:
    """What is there now."""
    return final_objects((await world.store.range("")).entries)


async def check_end(world: "World", expected: ExpectedState) -> None:
    """Raises `Violated` if what is there now is not what is expected."""
    found = without(find_differences(expected.objects, await read_end(world)), expected.noise)
    if found:
        lines = [f"  {each}" for each in found[:DIFFERENCES_SHOWN]]
        if len(found) > len(lines):
            lines.append(f"  and {len(found) - len(lines)} more differences")
        raise Violated(
            FINAL_STATE, "\n".join(["the final state differs from that of the run without the fault:", *lines])
        )


def final_objects(entries: Iterable[Entry]) -> dict[str, list[Object]]:
    """By kind, and name or oldest owner. `entries` is all that the store has."""
    found: dict[str, list[str]] = {}
    for kind, text in _texts(entries):
        name = msgspec.json.decode(text)["metadata"].get("name", "")
        found.setdefault(f"{kind}/{name}", []).append(text)
    return {name: [msgspec.json.decode(text) for text in sorted(found[name])] for name in sorted(found)}


def _texts(entries: Iterable[Entry]) -> Iterator[tuple[str, str]]:
    objects = [(entry.key, _decode(entry.value)) for entry in entries if not entry.key.startswith(LEFT_OUT)]
    names = _choose_names(objects)
    for key, obj in objects:
        text = msgspec.json.encode(_told(obj), order="sorted").decode()
        for made, instead in names:
            text = text.replace(made, instead)
        text = _TOKEN_VOLUME.sub("kube-api-access-NAME", text)
        yield key.rpartition("/")[0], _EVIDENCE.sub("EVIDENCE", _TIME.sub("TIME", text))


def _choose_names(objects: list[tuple[str, Object]]) -> list[tuple[str, str]]:
    """What to write instead of uids and of names that were made for an owner; the longest first."""
    by_uid = {obj["metadata"]["uid"]: (key, obj) for key, obj in objects if "metadata" in obj}
    found: dict[str, str] = {}
    for _, obj in objects:
        metadata = obj.get("metadata") or {}
        owner = _owner(metadata)
        if owner:
            found[metadata["name"]] = f"<of {_root(by_uid, owner)}>"
        if metadata.get("uid"):
            found[metadata["uid"]] = f"<uid of {_root(by_uid, metadata['uid'])}>"
    return sorted(found.items(), key=lambda pair: (-len(pair[0]), pair[0]))


def _root(by_uid: Mapping[str, tuple[str, Object]], uid: str) -> str:
    """The oldest owner that is still there, by its name."""
    while True:
        if uid not in by_uid:
            return "no owner"
        metadata = by_uid[uid][1]["metadata"]
        owner = _owner(metadata)
        if not owner:
            return str(metadata["name"])
        uid = owner


def _owner(metadata: Mapping[str, Any]) -> str:
    for reference in metadata.get("ownerReferences") or ():
        if reference.get("controller"):
            return str(reference["uid"])
    return ""


def _told(obj: Object) -> Object:
    metadata = dict(obj.get("metadata") or {})
    generation = metadata.get("generation")
    for name in _OF_THE_WAY:
        metadata.pop(name, None)
    if metadata.get("annotations"):
        metadata["annotations"] = {
            name: value for name, value in metadata["annotations"].items() if name not in _COUNTED
        }
    told: Object = {**obj, "metadata": metadata}
    if "status" in told:
        told["status"] = _without_generations(told["status"], generation)
    return told


def _without_generations(value: Any, generation: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            name: (each == generation) if name == "observedGeneration" else _without_generations(each, generation)
            for name, each in value.items()
            if name not in _OF_THE_LAST_STEP
        }
    if isinstance(value, list):
        found = [_without_generations(each, generation) for each in value]
        is_by_type = all(isinstance(each, Mapping) and "type" in each for each in found)
        return sorted(found, key=lambda each: str(each["type"])) if is_by_type else found
    return value
