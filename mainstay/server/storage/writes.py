"""Making, changing and removing objects: the same way for every kind.

Each write is read, decide, commit (transact.py): look at what is there, work out what should be there, and commit that
on condition that what was looked at has not changed. If it has, look again; a client that named a resource version gets
the conflict instead. A write that would change nothing is not made at all, so that loops which write what they see come
to rest. What a write may change, and how it is prepared and validated, its strategy says (strategies.py).
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final

from mainstay.api import managed_fields, times
from mainstay.api.errors import (
    OBJECT_MODIFIED,
    StatusError,
    already_exists,
    bad_request,
    conflict,
    not_found,
)
from mainstay.api.json_values import copied
from mainstay.api.kind import Kind, Object, Propagation
from mainstay.env import Env
from mainstay.server.policies.match_rules import CREATE, DELETE, UPDATE, PolicyWrite
from mainstay.server.request.options import DeleteOptions, WriteParameters
from mainstay.server.storage import metadata
from mainstay.server.storage.account_admission import PodAccounts
from mainstay.server.storage.commit_points import CommitPoints, TransactionParts
from mainstay.server.storage.committer import Committer, WriteDecision
from mainstay.server.storage.keyspace import build_key, namespace_key
from mainstay.server.storage.mutation import WriteMutation, explain_refusal
from mainstay.server.storage.namespace_contents import require_deletable, require_open_namespace
from mainstay.server.storage.review import WriteReview
from mainstay.server.storage.stored import StoredWrite, encode_for_storage, read
from mainstay.server.storage.strategies import (
    OBJECT,
    TRACKED,
    Admission,
    Owners,
    WriteStrategy,
    is_pod,
    require_version,
)
from mainstay.server.storage.write_context import NO_CONTEXT, WriteContext
from mainstay.store.interface import ABSENT, Check, DeleteEntry, Entry, Put, Store, Write

NAMES_MAX: Final = 8  # Generated names that are tried.

Mutate = Callable[[Object], Object]
"""From the object that is there to the one that should be. Its argument may be changed."""
PartsFor = Callable[[Object], Awaitable[TransactionParts]]
"""What is to be committed together with the deletion of an object, besides what its kind says. Raises `StatusError`."""


class ObjectWriter:
    """The writing half of the API. `admission` is run in order, for every create and update, then `review`.

    `points` says what goes with each write into its transaction (commit_points.py).
    """

    def __init__(
        self,
        store: Store,
        env: Env,
        admission: Sequence[Admission],
        review: WriteReview,
        mutation: WriteMutation,
        points: CommitPoints,
        committer: Committer,
        accounts: PodAccounts,
    ) -> None:
        self._store = store
        self._clock = env.clock
        self._chance = env.chance
        self._admission = admission
        self._review = review
        self._policies = review.policies
        self._mutation = mutation
        self._points = points
        self._committer = committer
        self._accounts = accounts
        self._made = 0

    async def create(
        self,
        kind: Kind,
        namespace: str,
        new: Object,
        options: WriteParameters,
        context: WriteContext = NO_CONTEXT,
        owners: Owners = TRACKED,
    ) -> StoredWrite:
        """Make an object."""
        if context.operation is not None and (before := await self._committer.find_outcome(context)) is not None:
            return before
        given = metadata.require_strict(kind, new)
        _require_namespace(kind, namespace, given)
        if given.get("resourceVersion"):
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        generate = given.get("generateName", "") if not given.get("name") else ""
        self._made += 1
        metadata.begin(kind, new, uid=self._chance.uid("object", self._made), now=times.format_time(self._clock.wall()))
        for attempt in range(NAMES_MAX):
            if generate:
                given["name"] = generate[:58] + self._chance.suffix(generate, self._made * NAMES_MAX + attempt)
            made, untracked = new, owners if attempt == 0 else None
            if self._mutation.applies_to(kind, context):
                made = await self._mutate_new(kind, namespace, new, options, owners, context)
                untracked = None
            learning = self._accounts.learn(kind, namespace, made)
            if learning is not None:
                await learning
            try:
                await options.compute(0, self._prepare_new, kind, made, options, untracked)
            except StatusError as error:
                raise explain_refusal(error, options.notes) from None
            try:
                return await self._create(kind, namespace, made, options, context)
            except _NameTaken:
                if (before := await self._committer.find_outcome(context)) is not None:
                    return before  # By the same operation, which was delivered twice.
                if not generate:
                    break
        raise already_exists(kind.plural, kind.group, given["name"])

    async def _mutate_new(
        self,
        kind: Kind,
        namespace: str,
        new: Object,
        options: WriteParameters,
        owners: Owners,
        context: WriteContext,
    ) -> Object:
        """What policies make of a new object. It is left alone itself: for another name they begin with what was sent,
        so that no policy changes what it has changed already."""
        made = copied(new)
        kind.defaults(made)
        owners.record(partial(self._track, kind, options), made, None, "")
        write = PolicyWrite(kind, CREATE, namespace, made["metadata"].get("name", ""), made, None)
        return await self._mutation.mutate(write, context, is_dry_run=options.dry_run)

    def _prepare_new(self, kind: Kind, new: Object, options: WriteParameters, owners: Owners | None) -> None:
        """Fill in and admit. `owners` is None if it is on record already who owns what."""
        kind.defaults(new)
        if owners is not None:
            owners.record(partial(self._track, kind, options), new, None, "")
        OBJECT.admit(self._admission, kind, new, None)
        self._accounts.mount_token(kind, new)

    async def _create(
        self, kind: Kind, namespace: str, new: Object, options: WriteParameters, context: WriteContext
    ) -> StoredWrite:
        """Commit an object that was admitted. Raises `_NameTaken`."""
        name = new["metadata"]["name"]
        key = build_key(kind, namespace, name)
        is_first = not options.dry_run

        async def decide() -> WriteDecision:
            nonlocal is_first
            # The commit checks that the name is free. Only if it was refused is it worth a read, to know what for.
            if not is_first and await self._store.get(key) is not None:
                raise _NameTaken
            is_first = False
            place = await self._read_namespace(kind, namespace, name) if kind.namespaced else None
            await self._review.review(kind, new, None, place, options.notes)
            if not self._policies.is_empty:
                write = PolicyWrite(kind, CREATE, namespace, name, new, None)
                await self._review.review_by_policies(write, context, place, is_dry_run=options.dry_run)
            parts = await self._points.parts_for(kind, key, new, None, "", context)
            checks = [Check(key, ABSENT), *parts.checks]
            if place is not None:
                checks.append(Check(place.key, place.revision))
            value = encode_for_storage(kind, parts.object or new)
            return WriteDecision(key, checks, [Put(key, value), *parts.writes], parts.shared, StoredWrite(value, 0))

        return await self._committer.write(_shown(kind, name), decide, context, dry_run=options.dry_run)

    async def _read_namespace(self, kind: Kind, namespace: str, name: str) -> Entry:
        """The namespace. An object is committed on condition that it is there and stays as it is."""
        return require_open_namespace(kind, namespace, name, await self._store.get(namespace_key(namespace)))

    async def update(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        mutate: Mutate,
        strategy: WriteStrategy,
        options: WriteParameters,
        context: WriteContext = NO_CONTEXT,
    ) -> StoredWrite:
        """Change an object by a function of what is there. The function is called again when others were faster."""
        key = build_key(kind, namespace, name)

        async def decide() -> WriteDecision:
            entry = await self._store.get(key)
            if entry is None:
                raise not_found(kind.plural, kind.group, name)
            return await self._decide_update(kind, namespace, entry, mutate, strategy, options, context)

        return await self._committer.write_once(_shown(kind, name), decide, context, dry_run=options.dry_run)

    async def _decide_update(
        self,
        kind: Kind,
        namespace: str,
        entry: Entry,
        mutate: Mutate,
        strategy: WriteStrategy,
        options: WriteParameters,
        context: WriteContext,
    ) -> WriteDecision:
        part = strategy.part
        is_mutated = self._mutation.applies_to(kind, context, part.subresource)
        old, new, is_claim = await options.compute(
            len(entry.value), self._change, kind, namespace, entry, mutate, strategy, options, admits=not is_mutated
        )
        if is_mutated:
            whole = part.widen(kind, entry, new), part.widen(kind, entry, old)
            write = PolicyWrite(kind, UPDATE, namespace, old["metadata"]["name"], *whole, part.subresource)
            new = await self._mutation.mutate_part(write, new, old, part, context, is_dry_run=options.dry_run)
            try:
                await options.compute(len(entry.value), part.admit, self._admission, kind, new, old)
            except StatusError as error:
                raise explain_refusal(error, options.notes) from None
        if part.is_reviewed:
            await self._review.review(kind, new, old, None, options.notes, part.subresource)
        if not self._policies.is_empty:
            whole = part.widen(kind, entry, new), part.widen(kind, entry, old)
            write = PolicyWrite(kind, UPDATE, namespace, old["metadata"]["name"], *whole, part.subresource)
            await self._review.review_by_policies(write, context, is_dry_run=options.dry_run)
        part.finish(kind, new, old)
        if managed_fields.is_same_object(new, old, with_owners=is_claim):
            return _decide_nothing(entry)
        return await self._decide_replacement(kind, entry, new, old, part.subresource, context, options.dry_run)

    def _change(
        self,
        kind: Kind,
        namespace: str,
        entry: Entry,
        mutate: Mutate,
        strategy: WriteStrategy,
        options: WriteParameters,
        *,
        admits: bool,
    ) -> tuple[Object, Object, bool]:
        """The object as it is, as it should be, and whether that is more than what it says."""
        part, owners = strategy.part, strategy.owners
        old = part.read(kind, entry)
        new = mutate(part.copy_to_change(kind, entry, old))
        metadata.require_strict(kind, new)
        _require_same(kind, namespace, new, old, strategy)
        sent = new["metadata"].get("managedFields")
        new = part.restrict(kind, new, old)
        metadata.carry_over(kind, new, old)
        is_claim = owners.claim(new, old, sent)
        part.fill_in(kind, new)
        owners.record(partial(self._track, kind, options), new, old, part.subresource)
        if admits:
            part.admit(self._admission, kind, new, old)
        return old, new, is_claim

    async def _decide_replacement(
        self, kind: Kind, entry: Entry, new: Object, old: Object, subresource: str, context: WriteContext, dry_run: bool
    ) -> WriteDecision:
        """How an object gets to its new state. One on its way out that nothing keeps any longer is removed."""
        is_over = "deletionTimestamp" in new["metadata"] and not new["metadata"].get("finalizers")
        is_over = is_over and not new["metadata"].get("deletionGracePeriodSeconds") and not _has_other_hold(kind, new)
        parts = await self._points.parts_for(kind, entry.key, None if is_over else new, old, subresource, context)
        value = encode_for_storage(kind, parts.object or new)
        write: Write = DeleteEntry(entry.key) if is_over else Put(entry.key, value)
        outcome = StoredWrite(value, entry.revision if is_over or dry_run else 0, was_removed=is_over and not dry_run)
        checks = [Check(entry.key, entry.revision), *parts.checks]
        return WriteDecision(entry.key, checks, [write, *parts.writes], parts.shared, outcome)

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        options: DeleteOptions,
        context: WriteContext = NO_CONTEXT,
        also: PartsFor | None = None,
    ) -> StoredWrite:
        """Remove an object, or begin to, if something still has to happen first. `also` is committed with that."""
        require_deletable(kind, name)
        key = build_key(kind, namespace, name)

        async def decide() -> WriteDecision:
            entry = await self._store.get(key)
            if entry is None:
                raise not_found(kind.plural, kind.group, name)
            old = read(kind, entry)
            more = None if also is None else await also(old)
            _require_preconditions(kind, name, old, options)
            if (
                also is None and not self._policies.is_empty
            ):  # An eviction is no deletion to policies, as in Kubernetes.
                write = PolicyWrite(kind, DELETE, namespace, name, None, old)
                await self._review.review_by_policies(write, context, is_dry_run=options.dry_run)
            decision = await self._decide_deletion(kind, entry, old, options, context)
            return decision if more is None else _with(decision, more)

        return await self._committer.write_once(_shown(kind, name), decide, context, dry_run=options.dry_run)

    async def _decide_deletion(
        self, kind: Kind, entry: Entry, old: Object, options: DeleteOptions, context: WriteContext
    ) -> WriteDecision:
        new = self._deleting(kind, old, options)
        if new is not None:
            if managed_fields.is_same_object(new, old, with_owners=False):
                return _decide_nothing(entry)
            return await self._decide_replacement(kind, entry, new, old, "", context, options.dry_run)
        outcome = StoredWrite(entry.value, entry.revision, was_removed=True)
        checks, writes = [Check(entry.key, entry.revision)], [DeleteEntry(entry.key)]
        if options.dry_run:
            return WriteDecision(entry.key, checks, [*writes], (), outcome)
        parts = await self._points.parts_for(kind, entry.key, None, old, "", context)
        return WriteDecision(entry.key, [*checks, *parts.checks], [*writes, *parts.writes], parts.shared, outcome)

    def _deleting(self, kind: Kind, old: Object, options: DeleteOptions) -> Object | None:
        """The object on its way out; None if it can go at once."""
        new = {**old, "metadata": {name: value for name, value in old["metadata"].items() if name != "resourceVersion"}}
        meta = new["metadata"]
        before = meta.get("finalizers") or []
        finalizers = [each for each in before if each not in (metadata.FOREGROUND, metadata.ORPHAN)]
        match options.propagation or _said_before(before) or kind.default_propagation:
            case Propagation.FOREGROUND:
                finalizers.append(metadata.FOREGROUND)
            case Propagation.ORPHAN:
                finalizers.append(metadata.ORPHAN)
            case Propagation.BACKGROUND:
                pass
        grace = _grace_period(kind, old, options)
        if not finalizers and not grace and not _has_other_hold(kind, old):
            return None
        if finalizers != (meta.get("finalizers") or []):
            meta["finalizers"] = finalizers
        now = self._clock.wall()
        if "deletionTimestamp" not in meta or grace < meta.get("deletionGracePeriodSeconds", 0):
            if "deletionTimestamp" not in meta and "generation" in meta:
                meta["generation"] += 1
            meta["deletionTimestamp"] = times.format_time(now + timedelta(seconds=grace))
            meta["deletionGracePeriodSeconds"] = grace
        if kind.kind == "Namespace":
            new["status"] = {**(old.get("status") or {}), "phase": "Terminating"}
            meta.pop("deletionGracePeriodSeconds", None)
        return new

    def _track(self, kind: Kind, options: WriteParameters, new: Object, old: Object | None, subresource: str) -> None:
        """Record who owns the fields: before the server adds some of its own, which have no owner."""
        entries = managed_fields.updated(
            old,
            new,
            manager=options.field_manager,
            api_version=kind.group_version,
            now=times.format_time(self._clock.wall()),
            message=kind.message,
            subresource=subresource,
            without_status=kind.has_status and subresource != "status",
        )
        managed_fields.put(new, entries)


class _NameTaken(Exception):
    """There is an object of this name."""


def _shown(kind: Kind, name: str) -> str:
    return f'{kind.plural} "{name}"'


def _decide_nothing(entry: Entry) -> WriteDecision:
    return WriteDecision(
        entry.key, [Check(entry.key, entry.revision)], [], (), StoredWrite(entry.value, entry.revision)
    )


def _with(decision: WriteDecision, more: TransactionParts) -> WriteDecision:
    return WriteDecision(
        decision.key,
        [*decision.checks, *more.checks],
        [*decision.writes, *more.writes],
        [*decision.shared, *more.shared],
        decision.outcome,
    )


def _require_same(kind: Kind, namespace: str, new: Object, old: Object, strategy: WriteStrategy) -> None:
    """Raise `StatusError` unless the new object is the old one changed: the same name, and the version it meant."""
    given, name = new["metadata"], old["metadata"]["name"]
    if given.get("name", name) != name:
        raise bad_request(f"the name of the object ({given['name']}) does not match the name on the URL ({name})")
    _require_namespace(kind, namespace, given)
    version = given.get("resourceVersion")
    if version and version != old["metadata"]["resourceVersion"]:
        raise conflict(kind.plural, kind.group, name, OBJECT_MODIFIED)
    if strategy.requires_version and not version:
        require_version(kind, name)
    uid = given.get("uid")
    if uid and uid != old["metadata"]["uid"]:
        text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"
        raise conflict(kind.plural, kind.group, name, text)


def _require_namespace(kind: Kind, namespace: str, given: dict[str, Any]) -> None:
    if not kind.namespaced:
        given.pop("namespace", None)
    elif given.get("namespace") not in (None, "", namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    else:
        given["namespace"] = namespace


def _said_before(finalizers: Sequence[str]) -> Propagation | None:
    """What an object is to do about its dependents already, if the deletion says nothing about that."""
    if metadata.ORPHAN in finalizers:
        return Propagation.ORPHAN
    return Propagation.FOREGROUND if metadata.FOREGROUND in finalizers else None


def _has_other_hold(kind: Kind, obj: Object) -> bool:
    """A namespace also waits for the finalizers in its spec."""
    return kind.kind == "Namespace" and kind.group == "" and bool((obj.get("spec") or {}).get("finalizers"))


def _grace_period(kind: Kind, old: Object, options: DeleteOptions) -> int:
    """How long a pod is given to end. Everything else, and what does not run, ends at once."""
    if not is_pod(kind):
        return 0
    spec, status = old.get("spec") or {}, old.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    wanted = options.grace_period_s
    if wanted is None:
        wanted = spec.get("terminationGracePeriodSeconds", 30)
    if "deletionTimestamp" in old["metadata"]:
        wanted = min(wanted, old["metadata"].get("deletionGracePeriodSeconds", wanted))
    return 1 if wanted < 0 else min(wanted, times.SECONDS_MAX)


def _require_preconditions(kind: Kind, name: str, old: Object, options: DeleteOptions) -> None:
    meta = old["metadata"]
    if options.uid and options.uid != meta["uid"]:
        text = f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']})."
        raise conflict(kind.kind, kind.group, name, f"{text} The object might have been deleted and then recreated")
    if options.resource_version and options.resource_version != meta["resourceVersion"]:
        text = f"the ResourceVersion in the precondition ({options.resource_version}) does not match"
        text += f" the ResourceVersion in record ({meta['resourceVersion']}). The object might have been modified"
        raise conflict(kind.kind, kind.group, name, text)
