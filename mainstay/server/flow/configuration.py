"""Follows the FlowSchemas and PriorityLevelConfigurations in the store, and reconciles those of Kubernetes.

When a server starts, and when something has changed, it makes the default objects that are missing, puts back the specs
that were changed, and notes in each FlowSchema whether its level is there (condition `Dangling`). A suggested object
with the annotation `apf.kubernetes.io/autoupdate-spec: "false"` is left alone, and so is one that was changed before it
had that annotation. How they are written is in storage/default_objects.py.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

import msgspec

from mainstay.api import times
from mainstay.api.errors import StatusError
from mainstay.api.kind import Kind, Object
from mainstay.api.kinds.flowcontrol import CATCH_ALL, EXEMPT, FLOW_SCHEMA, PRIORITY_LEVEL
from mainstay.env import Env, tasks, vital
from mainstay.server.flow.defaults import AUTO_UPDATE, LEVELS, MANDATORY, SCHEMAS
from mainstay.server.flow.schemas import CompiledSchema, parse_level
from mainstay.server.flow.seats import LevelSettings
from mainstay.server.storage.default_objects import begin_default, build_default, reconcile
from mainstay.server.storage.keyspace import build_key, build_prefix
from mainstay.server.storage.stored import stored
from mainstay.server.watch.feed import Feed
from mainstay.server.watch.follower import PrefixFollower
from mainstay.store.errors import StoreError
from mainstay.store.interface import ABSENT, Check, Entry, KeyChange, Put, Store

RECONCILED_EVERY: Final = timedelta(minutes=1)
SETTLED_AFTER: Final = timedelta(seconds=1)
"""Changes that come together are answered together."""

_MANAGER: Final = "api-priority-and-fairness-config-producer-v1"
_PREFIXES: Final = {build_prefix(kind, ""): kind for kind in (PRIORITY_LEVEL, FLOW_SCHEMA)}
_WANTED: Final = {PRIORITY_LEVEL.kind: LEVELS, FLOW_SCHEMA.kind: SCHEMAS}

OnConfiguration = Callable[[Sequence[CompiledSchema], Sequence[LevelSettings], CompiledSchema], None]


class FlowConfiguration:
    """`on_change` is given all schemas and levels, and the schema for what none matches."""

    def __init__(self, on_change: OnConfiguration) -> None:
        self._on_change = on_change
        self._entries: dict[str, Entry] = {}
        self._followers: list[PrefixFollower] = []
        self._changed = asyncio.Event()
        self._reconciling: asyncio.Task[None] | None = None

    async def start(self, store: Store, feed: Feed, env: Env) -> None:
        """Make the defaults, and follow all there are. Raises `StatusError`, `StoreError`."""
        await reconcile_levels(store, env)
        for prefix in _PREFIXES:
            follower = PrefixFollower(store, feed, prefix, self._take, partial(self._reset, prefix))
            self._followers.append(follower)
            self._reset(prefix, await follower.start())
        self._changed.clear()
        self._reconciling = vital.spawn(self._reconcile(store, env), name="flow-control-defaults")

    async def stop(self) -> None:
        if self._reconciling is not None:
            await tasks.stop(self._reconciling)
        for follower in self._followers:
            await follower.stop()

    def _take(self, change: KeyChange) -> None:
        if change.entry is None:
            self._entries.pop(change.key, None)
        else:
            self._entries[change.key] = change.entry
        self._tell()

    def _reset(self, prefix: str, entries: Sequence[Entry]) -> None:
        kept = {key: entry for key, entry in self._entries.items() if not key.startswith(prefix)}
        self._entries = kept | {entry.key: entry for entry in entries}
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        levels = {name: parse_level(level) for name, level in _read(self._entries, PRIORITY_LEVEL).items()}
        schemas = {name: CompiledSchema(schema) for name, schema in _read(self._entries, FLOW_SCHEMA).items()}
        self._on_change(list(schemas.values()), list(levels.values()), schemas[CATCH_ALL])

    async def _reconcile(self, store: Store, env: Env) -> None:
        while True:
            try:
                async with tasks.timeout(RECONCILED_EVERY):
                    await self._changed.wait()
                await tasks.sleep(SETTLED_AFTER)
            except TimeoutError:
                pass
            self._changed.clear()
            if find_changes(self._entries, env):
                try:
                    await reconcile_levels(store, env)
                except (StatusError, StoreError):
                    continue  # The next time.


async def reconcile_levels(store: Store, env: Env) -> None:
    """Write what has to be. Raises `StatusError`, `StoreError`."""
    what = "flow control's default objects"
    await reconcile(store, _PREFIXES, lambda entries: find_changes(entries, env), what)


def find_changes(entries: Mapping[str, Entry], env: Env) -> list[tuple[Check, Put]]:
    """What is to be written, given what is there."""
    now = times.format_time(env.clock.wall())
    changes: list[tuple[Check, Put]] = []
    levels = set(_read(entries, PRIORITY_LEVEL))
    for kind in _PREFIXES.values():
        wanted = _WANTED[kind.kind]
        keys = {build_key(kind, "", name): name for name in wanted}
        keys |= {key: key.rpartition("/")[2] for key in entries if key.startswith(build_prefix(kind, ""))}
        for number, (key, name) in enumerate(keys.items()):
            entry, spec = entries.get(key), wanted.get(name)
            found: Object | None = None if entry is None else msgspec.json.decode(entry.value)
            if found is None:
                uid = env.chance.uid(f"default {kind.kind}", number)
                new = _make(kind, name, spec or {}, uid, now)
            else:
                new = found if spec is None else _put_back(found, name, spec)
            if kind is FLOW_SCHEMA:
                new = _with_dangling(new, levels, now)
            if new != found:
                changes.append((Check(key, ABSENT if entry is None else entry.revision), Put(key, stored(new))))
    return changes


def _read(entries: Mapping[str, Entry], kind: Kind) -> dict[str, Object]:
    """The objects of a kind by name. The mandatory ones are always among them."""
    prefix = build_prefix(kind, "")
    found = {name: _bare(name, spec) for name, spec in _WANTED[kind.kind].items() if name in MANDATORY}
    for key, entry in entries.items():
        if key.startswith(prefix):
            found[key.removeprefix(prefix)] = msgspec.json.decode(entry.value)
    return found


def _bare(name: str, spec: Object) -> Object:
    return {"metadata": {"name": name, "uid": ""}, "spec": spec}


def _make(kind: Kind, name: str, spec: Object, uid: str, now: str) -> Object:
    metadata = {"name": name, "generation": 1, "annotations": {AUTO_UPDATE: "true"}}
    built = build_default(kind, {"metadata": metadata, "spec": spec}, _MANAGER)
    return begin_default(built, uid, now) | {"status": {}}


def _put_back(found: Object, name: str, spec: Object) -> Object:
    """A default object with the spec that it should have. What users manage themselves stays."""
    metadata = found["metadata"]
    annotation = (metadata.get("annotations") or {}).get(AUTO_UPDATE)
    is_ours = name in MANDATORY or annotation == "true" or (annotation is None and metadata.get("generation") == 1)
    if not is_ours or "deletionTimestamp" in metadata:
        return found
    if name == EXEMPT and "exempt" in found.get("spec", {}):
        spec = {**spec, "exempt": found["spec"]["exempt"]}  # How much it lends may be changed.
    if found.get("spec") == spec:
        return found
    return {**found, "metadata": {**metadata, "generation": metadata.get("generation", 0) + 1}, "spec": spec}


def _with_dangling(schema: Object, levels: set[str], now: str) -> Object:
    """A FlowSchema with the condition that says whether its level is there."""
    level = ((schema.get("spec") or {}).get("priorityLevelConfiguration") or {}).get("name") or ""
    text = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}"'
    wanted = (
        {"status": "False", "reason": "Found", "message": f"{text} and it exists"}
        if level in levels or level in LEVELS
        else {"status": "True", "reason": "NotFound", "message": f"{text} but there is no such object"}
    )
    status = schema.get("status") or {}
    conditions: list[Object] = status.get("conditions") or []
    known = next((each for each in conditions if each.get("type") == "Dangling"), {})
    if all(known.get(field) == value for field, value in wanted.items()):
        return schema
    since = known.get("lastTransitionTime") if known.get("status") == wanted["status"] else None
    condition = {"type": "Dangling", "lastTransitionTime": since or now, **wanted}
    others = [each for each in conditions if each.get("type") != "Dangling"]
    return {**schema, "status": {**status, "conditions": [*others, condition]}}
