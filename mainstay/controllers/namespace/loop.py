"""A namespace that is being deleted goes with all that is in it, of whatever kind, and only then.

Nothing new can be made in it (the server sees to that, in the same commit), so what is there can only become less. Each
round asks the server which kinds there are, lists what is left of each in this namespace, and deletes it: pods first,
so that nothing runs any more when what they rely on goes. When nothing is left the namespace is let go, through its
subresource `finalize`. What holds it open is said in its conditions: what is left, which finalizers that waits for,
which kinds cannot be asked for.

Observing is live, and not from caches: there would have to be one for each kind. What cannot be listed counts as not
empty. A kind that is defined, and that the server asked does not know yet, counts as one that cannot be listed.

`decide` is a plain function of what was found. What is deleted is what was found, by uid: a request that comes late
can do nothing to a namespace that has got the same name since.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

import msgspec

from mainstay.api.kind import Object, Propagation
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import NAMESPACES
from mainstay.api.object_key import ObjectKey
from mainstay.client.entry import Change
from mainstay.client.errors import ApiError, Conflict, Fenced, NotFound, Throttled, Unavailable
from mainstay.client.metadata_source import MetadataSource
from mainstay.client.served_kinds import all_kinds
from mainstay.controllers.namespace.content import (
    Left,
    NamespaceContent,
    NamespaceInput,
    decide,
    find_again,
    in_order,
    said_after,
)
from mainstay.env import tasks
from mainstay.journal.record import ViewPart
from mainstay.loop.conditions import Condition, with_conditions
from mainstay.loop.decider import Decider, Schedule
from mainstay.loop.fresh_read import FreshRead, FreshReadLoop
from mainstay.loop.kernel import LoopContext, LoopSpec
from mainstay.loop.queue.items import GONE, Item, Outcome, WakeAfter
from mainstay.loop.record import Decided, describe_write
from mainstay.loop.view import View

NAME: Final = "namespace"
FINALIZER: Final = "kubernetes"
WORKERS: Final = 4
AT_ONCE: Final = 16
PAGE: Final = 500
FIRST_DELAY: Final = timedelta(milliseconds=250)
DELAY_MAX: Final = timedelta(seconds=10)
"""No watch tells when what is left has gone, so it is listed again: ever less often while nothing changes."""


class NamespaceDeletion(FreshReadLoop[ObjectKey]):
    """`run` until cancelled."""

    name = NAME

    def __init__(self, context: LoopContext) -> None:
        super().__init__(context)
        self._client = context.client
        self._informer = context.informers.get(NAMESPACES)
        self._source = MetadataSource(context.client)
        self._rounds: dict[ObjectKey, tuple[NamespaceContent, timedelta]] = {}
        """What was found in the last round, and how long was waited after it."""

    async def run(self) -> None:
        """Raises `Deposed` when the term is over, `CacheStopped` when the cache of namespaces is not fed any more."""
        await self.work(WORKERS, [(self._informer, self._changed)])

    def _changed(self, change: Change) -> None:
        if change.new is None or is_ours(change.new.object()):
            self.queue.add(change.key, tenant=change.key.name, woken_by=change.revision)

    async def look(self, item: Item[ObjectKey]) -> Outcome:
        key = item.key
        try:
            namespace = await self._client.get(NAMESPACES, key.name)
        except NotFound:
            namespace = {}
        if not is_ours(namespace):
            self._rounds.pop(key, None)
            return GONE
        found, view = await self._find(key.name)
        plan, known = decide(found), NamespaceInput(dict(found.unlisted), dict(found.undiscovered))
        if plan.is_over:
            await self._let_go(namespace, FreshRead(known, view))
            return WakeAfter(FIRST_DELAY)  # If it is gone by then, nothing is left to do.
        known = replace(known, failed=await self._delete(namespace, plan.deletes, FreshRead(known, view)))
        await self._say(namespace, said_after(found, known), FreshRead(known, view))
        before, delay = self._rounds.get(key, (None, FIRST_DELAY))
        delay = FIRST_DELAY if before != found else min(delay * 2, DELAY_MAX)
        self._rounds[key] = (found, delay)
        return WakeAfter(delay)

    # Observing.

    async def _find(self, name: str) -> tuple[NamespaceContent, tuple[ViewPart, ...]]:
        """What is left, and the name of what was read for it."""
        served = await all_kinds(self._client)
        kinds = [each.name for each in served.kinds if each.name.namespaced and {"list", "delete"} <= each.verbs]
        lists: dict[KindName, _Listed | str] = {}
        for first in range(0, len(kinds), AT_ONCE):
            some = kinds[first : first + AT_ONCE]
            await tasks.together([self._list(each, name, lists) for each in some], name=f"{NAME} lists")
        # By uid: some kinds are served twice, and their objects are there once.
        left: dict[str, Left] = {}
        unlisted: dict[str, str] = {}
        view: list[ViewPart] = []
        for kind in kinds:
            listed = lists[kind]
            if isinstance(listed, str):
                unlisted[kind.text] = listed
                continue
            view.append(ViewPart(kind.text, listed.revision, name))
            for item in listed.left:
                left.setdefault(item.uid, item)
        return NamespaceContent(in_order(left.values()), unlisted, served.problems), tuple(view)

    async def _list(self, kind: KindName, namespace: str, lists: "dict[KindName, _Listed | str]") -> None:
        """Note what is left of a kind, or why that is unknown."""
        left: list[Left] = []
        continue_ = ""
        try:
            while True:
                page = await self._source.list_raw(kind, namespace, limit=PAGE, continue_=continue_)
                left += [_left(kind, raw) for raw in page.items]
                continue_ = page.continue_
                if not continue_:
                    lists[kind] = _Listed(int(page.revision), left)
                    return
        except (Fenced, Throttled):
            raise
        except ApiError as error:
            lists[kind] = str(error)

    # Acting.

    async def _delete(self, namespace: Object, deletes: Sequence[Left], read: FreshRead) -> dict[str, str]:
        """Tell these to go. Returns the kinds of which one could not be told, and why."""
        failed: dict[str, str] = {}
        for first in range(0, len(deletes), AT_ONCE):
            some = deletes[first : first + AT_ONCE]
            await tasks.together(
                [self._delete_one(namespace, each, failed, read) for each in some], name=f"{NAME} deletes"
            )
        return failed

    async def _delete_one(self, namespace: Object, each: Left, failed: dict[str, str], read: FreshRead) -> None:
        place = ObjectKey(namespace["metadata"]["name"], each.name)
        try:
            await self.write(
                "delete",
                each.kind,
                place,
                lambda write: self._client.delete(
                    each.kind,
                    place.name,
                    place.namespace,
                    uid=each.uid,
                    propagation=Propagation.BACKGROUND,
                    write=write,
                ),
                "its namespace is being deleted",
                about=(NAMESPACES, namespace),
                read=read,
            )
        except (Fenced, Throttled, Unavailable):
            raise
        except Conflict:
            pass  # It is gone, and another has its name. The next round will see.
        except ApiError as error:
            failed[each.kind.text] = str(error)

    async def _say(self, namespace: Object, conditions: tuple[Condition, ...], read: FreshRead) -> None:
        before = namespace.get("status") or {}
        status = with_conditions(before, conditions, None, self.kernel.clock.wall())
        if status == before:
            return
        metadata = namespace["metadata"]
        body = {
            "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
            "status": {"conditions": status["conditions"]},
        }
        try:
            await self.write(
                "patch",
                NAMESPACES,
                ObjectKey("", metadata["name"]),
                lambda write: self._client.patch(
                    NAMESPACES, metadata["name"], "", body, subresource="status", write=write
                ),
                "its conditions list the remaining content",
                about=(NAMESPACES, namespace),
                read=replace(read, body=conditions),
                subresource="status",
            )
        except Fenced:
            raise
        except Conflict:
            pass  # Another client changed it. The next round writes it again.

    async def _let_go(self, namespace: Object, read: FreshRead) -> None:
        metadata = namespace["metadata"]
        kept = {name: metadata[name] for name in ("name", "uid", "resourceVersion")}
        rest = [each for each in namespace["spec"]["finalizers"] if each != FINALIZER]
        body = {"kind": "Namespace", "apiVersion": "v1", "metadata": kept, "spec": {"finalizers": rest}}
        await self.write(
            "update",
            NAMESPACES,
            ObjectKey("", metadata["name"]),
            lambda write: self._client.replace(NAMESPACES, body, subresource="finalize", write=write),
            "it is empty",
            about=(NAMESPACES, namespace),
            read=read,
            subresource="finalize",
        )


def is_ours(namespace: Object) -> bool:
    """Whether a namespace is being deleted, and waits for us."""
    metadata: dict[str, Any] = namespace.get("metadata") or {}
    return "deletionTimestamp" in metadata and FINALIZER in ((namespace.get("spec") or {}).get("finalizers") or ())


def _decide(view: View, known: NamespaceInput) -> list[Decided]:
    """The writes of one round, from what it listed."""
    name = view.subject.name
    found = find_again(known, [(kind, view.all(kind)) for kind in view.kinds])
    plan, here = decide(found), ObjectKey("", name)
    actions = [describe_write("delete", each.kind, ObjectKey(name, each.name)) for each in plan.deletes]
    if plan.is_over:
        actions.append(describe_write("update", NAMESPACES, here, "finalize"))
    else:
        actions.append(describe_write("patch", NAMESPACES, here, "status", said_after(found, known)))
    return [Decided((each,)) for each in actions]


DECIDER: Final = Decider(NAME, Schedule.FRESH_READ, (), NamespaceInput, _decide)
LOOP: Final = LoopSpec(NAME, NamespaceDeletion, DECIDER)


@dataclass(frozen=True, slots=True)
class _Listed:
    """What a list had, and as of when."""

    revision: int
    left: list[Left]


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    finalizers: list[str] | None = None
    deletion_timestamp: str | None = None


class _Object(msgspec.Struct):
    metadata: _Metadata


_decode = msgspec.json.Decoder(_Object).decode


def _left(kind: KindName, raw: bytes) -> Left:
    try:
        metadata = _decode(raw).metadata
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unavailable(f"{kind}: invalid object: {error}") from None
    is_leaving = metadata.deletion_timestamp is not None
    return Left(kind, metadata.name, metadata.uid, is_leaving, tuple(metadata.finalizers or ()))
