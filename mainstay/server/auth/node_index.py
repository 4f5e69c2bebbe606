"""Which objects the pods of each node refer to: what the agent of that node may read.

The index follows all pods. Of each one that is bound it has the node and the references of its spec: the Secrets,
ConfigMaps and claims of volumes and variables, image pull secrets, and the service account. These do not change while
the pod lives, but for ephemeral containers; so a change of a status costs a look, and no decoding.

A pod counts as soon as the server's feed has passed on its binding, which is before any watcher hears of it. An agent
may know earlier, from another server or an answer: then the index is asked in vain, `settle` waits until it is as far
as the store, and the second answer is right. After missed changes all pods are read again, a few at a time.
"""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import islice
from typing import Final

import msgspec

from mainstay.env import tasks
from mainstay.server.storage.keyspace import CORE
from mainstay.server.watch.feed import Feed
from mainstay.server.watch.follower import PrefixFollower
from mainstay.store.interface import Entry, KeyChange, Store

SETTLED_WITHIN: Final = timedelta(seconds=5)
TAKEN_AT_ONCE: Final = 100  # Pods that are decoded before others have a turn.
SHARED_MAX: Final = 10_000

_PODS: Final = f"{CORE}/pods/"
_NODE_NAME: Final = b'"nodeName":'
_EPHEMERAL: Final = b'"ephemeralContainers":'
_YIELD: Final = timedelta(0)


class NotSettled(Exception):
    """The index is behind the store, and does not catch up."""


class NodeIndex:
    """What is bound to each node, and what that refers to."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[str, int, tuple[str, ...]]] = {}
        """By key: the node, the revision that made the pod, and what it refers to."""
        self._references: dict[str, dict[str, int]] = {}
        """By node: how many of its pods refer to something."""
        # Pods of one template refer to the same: they share it.
        self._shared: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._unread: dict[str, Entry] = {}
        """Pods that were read and are not in the index yet."""

    def refers(self, node: str, resource: str, namespace: str, name: str) -> bool:
        """Whether a pod of the node refers to this object."""
        references = self._references.get(node)
        return references is not None and f"{resource}/{namespace}/{name}" in references

    def is_bound(self, node: str, namespace: str, name: str) -> bool:
        pod = self._pods.get(f"{_PODS}{namespace}/{name}")
        return pod is not None and pod[0] == node

    @property
    def is_complete(self) -> bool:
        return not self._unread

    def put(self, entry: Entry) -> None:
        """A pod as it is now."""
        key, value = entry.key, entry.value
        self._unread.pop(key, None)
        known = self._pods.get(key)
        if known is not None:
            if known[1] == entry.created and _EPHEMERAL not in value:
                return
            self.remove(key)
        if _NODE_NAME not in value:
            return
        try:
            spec = _decode(value).spec
        except msgspec.MsgspecError:  # It refers to nothing that could be known.
            return
        if not spec.node:
            return
        references = tuple(sorted(set(_find_references(spec, key))))
        if len(self._shared) >= SHARED_MAX:
            self._shared.clear()
        references = self._shared.setdefault(references, references)
        node = sys.intern(spec.node)
        self._pods[key] = (node, entry.created, references)
        counts = self._references.setdefault(node, {})
        for each in references:
            counts[each] = counts.get(each, 0) + 1

    def remove(self, key: str) -> None:
        """A pod that is gone."""
        self._unread.pop(key, None)
        known = self._pods.pop(key, None)
        if known is None:
            return
        node, _, references = known
        counts = self._references[node]
        for each in references:
            counts[each] -= 1
            if not counts[each]:
                del counts[each]
        if not counts:
            del self._references[node]

    def reset(self, entries: Sequence[Entry]) -> None:
        """All pods there are. They count when `take` has come to them."""
        self._pods.clear()
        self._references.clear()
        self._unread = {entry.key: entry for entry in entries}

    def take(self) -> None:
        """Take in some of those that were read."""
        for entry in list(islice(self._unread.values(), TAKEN_AT_ONCE)):
            self.put(entry)


class NodeIndexFollower:
    """Keeps the index of one server. `index` can be used at once, and has nothing until `start`."""

    def __init__(self) -> None:
        self.index = NodeIndex()
        self._store: Store | None = None
        self._feed: Feed | None = None
        self._follower: PrefixFollower | None = None
        self._taking: asyncio.Task[None] | None = None

    async def start(self, store: Store, feed: Feed) -> None:
        self._store, self._feed = store, feed
        self._follower = PrefixFollower(store, feed, _PODS, self._take, self._reset)
        self.index.reset(await self._follower.start())
        await self._take_all()

    async def stop(self) -> None:
        if self._follower is not None:
            await self._follower.stop()
        if self._taking is not None:
            await tasks.stop(self._taking)

    async def settle(self) -> None:
        """Wait until the index knows all that is in the store now. Raises `NotSettled`, and what the store raises."""
        if self._store is None or self._feed is None:
            return
        try:
            async with tasks.timeout(SETTLED_WITHIN):
                await self._feed.reach(await self._store.revision())
                await self._take_all()
        except TimeoutError:
            raise NotSettled("the server has not caught up with its store") from None

    async def _take_all(self) -> None:
        while not self.index.is_complete:
            self.index.take()
            await tasks.sleep(_YIELD)

    def _take(self, change: KeyChange) -> None:
        if change.entry is None:
            self.index.remove(change.key)
        else:
            self.index.put(change.entry)

    def _reset(self, entries: Sequence[Entry]) -> None:
        self.index.reset(entries)
        if self._taking is None or self._taking.done():
            self._taking = tasks.spawn(self._take_all(), name="index the pods of nodes")


# What of a pod is looked at.


class _Named(msgspec.Struct, gc=False):
    name: str = ""
    secret: str = msgspec.field(name="secretName", default="")


class _Source(msgspec.Struct):
    config_map: _Named | None = msgspec.field(name="configMap", default=None)
    secret: _Named | None = None


class _Projected(msgspec.Struct):
    sources: list[_Source] | None = None


class _Claim(msgspec.Struct, gc=False):
    name: str = msgspec.field(name="claimName", default="")


class _WithSecret(msgspec.Struct):
    """A kind of volume that has a Secret for its driver, under one of several names."""

    secret: str | None = msgspec.field(name="secretName", default=None)
    reference: _Named | None = msgspec.field(name="secretRef", default=None)
    publish: _Named | None = msgspec.field(name="nodePublishSecretRef", default=None)

    @property
    def name(self) -> str:
        named = self.reference or self.publish
        return self.secret or ("" if named is None else named.name)


class _Volume(_Source):
    name: str = ""
    projected: _Projected | None = None
    claim: _Claim | None = msgspec.field(name="persistentVolumeClaim", default=None)
    ephemeral: msgspec.Raw | None = None
    azure: _WithSecret | None = msgspec.field(name="azureFile", default=None)
    ceph: _WithSecret | None = msgspec.field(name="cephfs", default=None)
    cinder: _WithSecret | None = None
    csi: _WithSecret | None = None
    flex: _WithSecret | None = msgspec.field(name="flexVolume", default=None)
    iscsi: _WithSecret | None = None
    rbd: _WithSecret | None = None
    scale_io: _WithSecret | None = msgspec.field(name="scaleIO", default=None)
    storage_os: _WithSecret | None = msgspec.field(name="storageos", default=None)

    def find_with_secrets(self) -> Sequence[_WithSecret | None]:
        network = (self.azure, self.ceph, self.cinder, self.csi, self.flex, self.iscsi, self.rbd)
        return (*network, self.scale_io, self.storage_os)


class _KeySource(msgspec.Struct):
    config_map: _Named | None = msgspec.field(name="configMapKeyRef", default=None)
    secret: _Named | None = msgspec.field(name="secretKeyRef", default=None)


class _Variable(msgspec.Struct):
    source: _KeySource | None = msgspec.field(name="valueFrom", default=None)


class _AllOf(msgspec.Struct):
    config_map: _Named | None = msgspec.field(name="configMapRef", default=None)
    secret: _Named | None = msgspec.field(name="secretRef", default=None)


class _Container(msgspec.Struct):
    env: list[_Variable] | None = None
    env_from: list[_AllOf] | None = msgspec.field(name="envFrom", default=None)


class _Spec(msgspec.Struct):
    node: str = msgspec.field(name="nodeName", default="")
    account: str = msgspec.field(name="serviceAccountName", default="")
    volumes: list[_Volume] | None = None
    containers: list[_Container] | None = None
    init: list[_Container] | None = msgspec.field(name="initContainers", default=None)
    ephemeral: list[_Container] | None = msgspec.field(name="ephemeralContainers", default=None)
    pull_secrets: list[_Named] | None = msgspec.field(name="imagePullSecrets", default=None)


class _Pod(msgspec.Struct):
    spec: _Spec


_decode: Final = msgspec.json.Decoder(_Pod).decode


def _find_references(spec: _Spec, key: str) -> Iterator[str]:
    """What a pod refers to, each as `RESOURCE/NAMESPACE/NAME`."""
    namespace, _, pod = key.removeprefix(_PODS).partition("/")
    for each in _find_sources(spec):
        if each.config_map is not None:
            yield f"configmaps/{namespace}/{each.config_map.name}"
        if each.secret is not None:
            yield f"secrets/{namespace}/{each.secret.name or each.secret.secret}"
    for volume in spec.volumes or ():
        if volume.claim is not None:
            yield f"persistentvolumeclaims/{namespace}/{volume.claim.name}"
        if volume.ephemeral is not None:
            yield f"persistentvolumeclaims/{namespace}/{pod}-{volume.name}"
        for kind in volume.find_with_secrets():
            if kind is not None:
                yield f"secrets/{namespace}/{kind.name}"
    for pull in spec.pull_secrets or ():
        yield f"secrets/{namespace}/{pull.name}"
    if spec.account:
        yield f"serviceaccounts/{namespace}/{spec.account}"


def _find_sources(spec: _Spec) -> Iterator[_Source | _KeySource | _AllOf]:
    for volume in spec.volumes or ():
        yield volume
        if volume.projected is not None:
            yield from volume.projected.sources or ()
    for containers in (spec.containers, spec.init, spec.ephemeral):
        for container in containers or ():
            yield from container.env_from or ()
            for variable in container.env or ():
                if variable.source is not None:
                    yield variable.source
