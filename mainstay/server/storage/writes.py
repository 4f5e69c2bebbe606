"""Making, changing and removing objects: the same way for every kind.

Each write is read, decide, commit: look at what is there, work out what should be there, and commit that on condition
that what was looked at has not changed. If it has, look again; a client that named a resource version gets the
conflict instead. A write that would change nothing is not made at all, so that loops which write what they see come
to rest.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from msgspec import Struct

from mainstay.api import managed_fields, times
from mainstay.api.errors import (
    OBJECT_MODIFIED,
    ApiError,
    Reason,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    invalid_value,
    not_found,
)
from mainstay.api.kind import Kind, Object, Propagation
from mainstay.env import Env
from mainstay.server.request.options import DeleteOptions, WriteOptions
from mainstay.server.storage import metadata
from mainstay.server.storage.commit_points import NOTHING, CommitPoints, TransactionParts, joined
from mainstay.server.storage.keyspace import key_of, namespace_key
from mainstay.server.storage.shared_writes import SharedWrite, SharedWrites
from mainstay.server.storage.stored import Written, read, read_pod_for_status, stored_of
from mainstay.server.storage.write_context import NO_CONTEXT, WriteContext
from mainstay.store.interface import ABSENT, Check, Committed, Delete, Entry, Put, Refused, Store, Write

ATTEMPTS_MAX: Final = 20  # Of one write against others on the same object, before the client is told.
NAMES_MAX: Final = 8  # Generated names that are tried.

Mutate = Callable[[Object], Object]
"""From the object that is there to the one that should be. Its argument may be changed."""
Admission = Callable[[Kind, Object, Object | None], None]
"""Looks at an object on its way in, and may change it. Raises `ApiError` to refuse it."""


class _Decided(Struct, frozen=True):
    """What is to be committed for an update, and what it will have led to. Without writes nothing is to change."""

    checks: list[Check]
    writes: list[Write]
    shared: Sequence[SharedWrite]
    outcome: Written


class Writes:
    """The writing half of the API. `admission` is run in order, for every create and update.

    `points` says what goes with each write into its transaction (commit_points.py).
    """

    def __init__(
        self, store: Store, env: Env, admission: Sequence[Admission], points: CommitPoints, shared: SharedWrites
    ) -> None:
        self._store = store
        self._clock = env.clock
        self._chance = env.chance
        self._admission = admission
        self._points = points
        self._shared = shared
        self._made = 0

    async def create(
        self,
        kind: Kind,
        namespace: str,
        new: Object,
        options: WriteOptions,
        context: WriteContext = NO_CONTEXT,
        *,
        is_applied: bool = False,
    ) -> Written:
        """Make an object. One that is applied says itself who owns it."""
        if (before := await self.repeated(context)) is not None:
            return before
        given = new.setdefault("metadata", {})
        _require_namespace_of(kind, namespace, given)
        if given.get("resourceVersion"):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        generate = given.get("generateName", "") if not given.get("name") else ""
        self._made += 1
        metadata.begin(kind, new, uid=self._chance.uid("object", self._made), now=times.format_time(self._clock.wall()))
        for attempt in range(NAMES_MAX):
            if generate:
                given["name"] = generate[:58] + self._chance.suffix(generate, self._made * NAMES_MAX + attempt)
            kind.defaults(new)
            if attempt == 0 and not is_applied:
                self._track(kind, new, None, options)
            written = await self._create(kind, namespace, new, options, context)
            if written is not None:
                return written
            if not generate:
                break
        raise already_exists(kind.plural, kind.group, given["name"])

    async def _create(
        self, kind: Kind, namespace: str, new: Object, options: WriteOptions, context: WriteContext
    ) -> Written | None:
        """None if the name is taken."""
        self._admit(kind, new, None)
        key = key_of(kind, namespace, new["metadata"]["name"])
        for _ in range(ATTEMPTS_MAX):
            parts = await self._points.parts_for(kind, key, new, None, "", context)
            checks = [Check(key, ABSENT), *parts.checks]
            if kind.namespaced:
                checks.append(await self._namespace_check(kind, namespace, new["metadata"]["name"]))
            value = stored_of(kind, parts.object or new)
            if options.dry_run:
                if await self._store.get(key):
                    return None
                await self._shared.rehearse(parts.shared)
                return Written(value, 0)
            writes = [Put(key, value), *parts.writes]
            answer = await self._commit(context, checks, writes, parts.shared, Written(value, 0))
            if isinstance(answer, Written):
                return answer
            if key in answer.found:
                return None
        raise _too_contended(kind, new["metadata"]["name"])

    async def _namespace_check(self, kind: Kind, namespace: str, name: str) -> Check:
        """That the namespace is there and stays: committed together with the object."""
        key = namespace_key(namespace)
        entry = await self._store.get(key)
        if entry is None:
            raise not_found("namespaces", "", namespace)
        if b'"deletionTimestamp"' in entry.value and "deletionTimestamp" in read(kind, entry)["metadata"]:
            text = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise forbidden(kind.plural, kind.group, name, text, [cause])
        return Check(key, entry.revision)

    async def update(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        mutate: Mutate,
        options: WriteOptions,
        *,
        subresource: str = "",
        is_put: bool = False,
        is_applied: bool = False,
        is_status_alone: bool = False,
        context: WriteContext = NO_CONTEXT,
    ) -> Written:
        """Change an object by a function of what is there. The function is called again when others were faster.

        Subresources other than `status` say themselves what may change: then nothing is filled in or looked at here.
        What is applied says itself who owns it. A function that needs no more than metadata and status says so.
        """
        if (before := await self.repeated(context)) is not None:
            return before
        key = key_of(kind, namespace, name)
        for _ in range(ATTEMPTS_MAX):
            entry = await self._store.get(key)
            if entry is None:
                raise not_found(kind.plural, kind.group, name)
            # Only the decision is kept while the commit is waited for: what it was made from is many small objects.
            if is_status_alone and _is_pod(kind):
                decided = await self._updated_status(kind, namespace, entry, mutate, options, context)
            else:
                decided = await self._updated(
                    kind, namespace, entry, mutate, options, subresource, context, is_put=is_put, is_applied=is_applied
                )
            written = await self._act(decided, options, context)
            if written is not None:
                return written
        raise _too_contended(kind, name)

    async def _updated(
        self,
        kind: Kind,
        namespace: str,
        entry: Entry,
        mutate: Mutate,
        options: WriteOptions,
        subresource: str,
        context: WriteContext,
        *,
        is_put: bool,
        is_applied: bool,
    ) -> _Decided:
        """Decide what an update makes of what is there."""
        old = read(kind, entry)
        # Who replaces, patches or applies leaves alone what is given; other subresources change it in place.
        new = mutate(old if subresource in ("", "status") else read(kind, entry))
        self._require_same(kind, namespace, new, old, is_put=is_put)
        owners = new["metadata"].get("managedFields")
        if subresource == "status":
            new = _only_status(kind, new, old)
        elif kind.has_status and not subresource:
            _keep_status(new, old)
        metadata.carry_over(kind, new, old)
        if is_applied:
            managed_fields.put(new, owners or [])
        is_claim = is_applied or managed_fields.are_sent(new, old)
        if not subresource or subresource == "status":
            kind.defaults(new)
        if not is_applied:
            self._track(kind, new, old, options, subresource)
        if not subresource or subresource == "status":
            self._admit(kind, new, old, is_status=bool(subresource))
        metadata.count_generation(kind, new, old)
        return await self._replaced(kind, entry, new, old, options, subresource, context, is_claim=is_claim)

    async def _updated_status(
        self, kind: Kind, namespace: str, entry: Entry, mutate: Mutate, options: WriteOptions, context: WriteContext
    ) -> _Decided:
        """The same for what pods are written most: their status alone. The spec is neither read nor looked at."""
        old = read_pod_for_status(kind, entry)
        changed = mutate(old)
        self._require_same(kind, namespace, changed, old, is_put=False)
        new = _only_status(kind, changed, old)
        metadata.carry_over(kind, new, old)
        self._track(kind, new, old, options, "status")
        self._admit(kind, new, old, is_status=True)
        return await self._replaced(kind, entry, new, old, options, "status", context)

    async def _replaced(
        self,
        kind: Kind,
        entry: Entry,
        new: Object,
        old: Object,
        options: WriteOptions,
        subresource: str,
        context: WriteContext,
        *,
        is_claim: bool = False,
    ) -> _Decided:
        """Decide how an object gets to its new state. `is_claim`: who owns it counts as state."""
        checks = [Check(entry.key, entry.revision)]
        if managed_fields.is_same_object(new, old, with_owners=is_claim):
            return _Decided(checks, [], (), Written(entry.value, entry.revision))
        is_over = "deletionTimestamp" in new["metadata"] and not new["metadata"].get("finalizers")
        is_over = is_over and not new["metadata"].get("deletionGracePeriodSeconds") and not _has_other_hold(kind, new)
        parts = await self._points.parts_for(kind, entry.key, None if is_over else new, old, subresource, context)
        value = stored_of(kind, parts.object or new)
        write: Write = Delete(entry.key) if is_over else Put(entry.key, value)
        outcome = Written(
            value, entry.revision if is_over or options.dry_run else 0, was_removed=is_over and not options.dry_run
        )
        return _Decided([*checks, *parts.checks], [write, *parts.writes], parts.shared, outcome)

    async def _act(self, decided: _Decided, options: WriteOptions, context: WriteContext) -> Written | None:
        """Commit what was decided. None if somebody was faster."""
        # To do nothing is an outcome too: an operation that was one does nothing later either.
        if options.dry_run:
            await self._shared.rehearse(decided.shared)
            return decided.outcome
        if not decided.writes and context.operation is None:
            return decided.outcome
        answer = await self._commit(context, decided.checks, decided.writes, decided.shared, decided.outcome)
        return None if isinstance(answer, Refused) else answer

    async def repeated(self, context: WriteContext) -> Written | None:
        """What an operation has led to already. Raises `ApiError` if its id was used for something else."""
        if context.operation is None:
            return None
        entry = await self._store.get(context.operation.key)
        if entry is None:
            return None
        return context.operation.outcome_in(entry)

    async def _commit(
        self,
        context: WriteContext,
        checks: list[Check],
        writes: list[Write],
        shared: Sequence[SharedWrite],
        outcome: Written,
    ) -> Written | Refused:
        """Commit a write with all that goes with it. An outcome of revision 0 gets that of the commit.

        The first check is that of the object. Raises `ApiError` (409) if the writer's term is over.
        """
        key = checks[0].key
        if context is not NO_CONTEXT:
            writes += context.writes(key, outcome)
            checks += context.checks
        answer = await self._shared.commit(checks, writes, shared)
        if isinstance(answer, Committed):
            context.committed(key, answer.revision, outcome.value)
            return outcome if outcome.revision else Written(outcome.value, answer.revision)
        context.require_term(answer.found)
        return await self.repeated(context) or answer

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        options: DeleteOptions,
        context: WriteContext = NO_CONTEXT,
        also: TransactionParts = NOTHING,
    ) -> Written:
        """Remove an object, or begin to, if something still has to happen first. `also` is committed with that."""
        if (before := await self.repeated(context)) is not None:
            return before
        key = key_of(kind, namespace, name)
        for _ in range(ATTEMPTS_MAX):
            entry = await self._store.get(key)
            if entry is None:
                raise not_found(kind.plural, kind.group, name)
            old = read(kind, entry)
            _require_preconditions(kind, name, old, options)
            new = self._deleting(kind, old, options)
            if new is None:
                outcome = Written(entry.value, entry.revision, was_removed=True)
                if options.dry_run:
                    return outcome
                parts = joined((await self._points.parts_for(kind, key, None, old, "", context), also))
                checks = [Check(key, entry.revision), *parts.checks]
                writes = [Delete(key), *parts.writes]
                answer = await self._commit(context, checks, writes, parts.shared, outcome)
                if isinstance(answer, Written):
                    return answer
            else:
                write_options = WriteOptions(options.dry_run, "Ignore", "")
                decided = await self._replaced(kind, entry, new, old, write_options, "", context)
                decided = _with(decided, also)
                written = await self._act(decided, write_options, context)
                if written is not None:
                    return written
        raise _too_contended(kind, name)

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

    def _track(self, kind: Kind, new: Object, old: Object | None, options: WriteOptions, subresource: str = "") -> None:
        """Record who owns the fields: before the server adds some of its own, which are nobody's."""
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

    def _admit(self, kind: Kind, new: Object, old: Object | None, *, is_status: bool = False) -> None:
        """Put right, and look whether it can be. A write to the status alone is taken as it comes."""
        if not is_status:
            for step in self._admission:
                step(kind, new, old)
            kind.prepare(new, old)
        causes = [*metadata.problems(kind, new, old), *kind.validate(new, old)]
        if causes:
            raise invalid(kind.kind, kind.group, new["metadata"].get("name", ""), causes)

    def _require_same(self, kind: Kind, namespace: str, new: Object, old: Object, *, is_put: bool) -> None:
        given, name = new.setdefault("metadata", {}), old["metadata"]["name"]
        if given.get("name", name) != name:
            raise bad_request(f"the name of the object ({given['name']}) does not match the name on the URL ({name})")
        _require_namespace_of(kind, namespace, given)
        version = given.get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise conflict(kind.plural, kind.group, name, OBJECT_MODIFIED)
        if is_put and not version and kind.put_needs_version:
            text = "must be specified for an update"
            raise invalid(kind.kind, kind.group, name, [invalid_value("metadata.resourceVersion", 0, text)])
        uid = given.get("uid")
        if uid and uid != old["metadata"]["uid"]:
            text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"
            raise conflict(kind.plural, kind.group, name, text)


def _with(decided: _Decided, also: TransactionParts) -> _Decided:
    if also is NOTHING:
        return decided
    return _Decided(
        [*decided.checks, *also.checks],
        [*decided.writes, *also.writes],
        [*decided.shared, *also.shared],
        decided.outcome,
    )


def _require_namespace_of(kind: Kind, namespace: str, given: dict[str, Any]) -> None:
    if not kind.namespaced:
        given.pop("namespace", None)
    elif given.get("namespace") not in (None, "", namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    else:
        given["namespace"] = namespace


def _only_status(kind: Kind, new: Object, old: Object) -> Object:
    """What a write to the status subresource changes. A pod's labels and annotations may be written there too."""
    result = {**old, "metadata": dict(old["metadata"])}
    if "status" in new:
        result["status"] = new["status"]
    else:
        result.pop("status", None)
    if _is_pod(kind):
        for name in ("labels", "annotations"):
            if name in new["metadata"]:
                result["metadata"][name] = new["metadata"][name]
    return result


def _is_pod(kind: Kind) -> bool:
    return kind.kind == "Pod" and kind.group == ""


def _keep_status(new: Object, old: Object) -> None:
    if "status" in old:
        new["status"] = old["status"]
    else:
        new.pop("status", None)


def _said_before(finalizers: Sequence[str]) -> Propagation | None:
    """What an object is to do about its dependents already, if whoever deletes it says nothing about that."""
    if metadata.ORPHAN in finalizers:
        return Propagation.ORPHAN
    return Propagation.FOREGROUND if metadata.FOREGROUND in finalizers else None


def _has_other_hold(kind: Kind, obj: Object) -> bool:
    """A namespace also waits for the finalizers in its spec."""
    return kind.kind == "Namespace" and kind.group == "" and bool((obj.get("spec") or {}).get("finalizers"))


def _grace_period(kind: Kind, old: Object, options: DeleteOptions) -> int:
    """How long a pod is given to end. Everything else, and what does not run, ends at once."""
    if not _is_pod(kind):
        return 0
    spec, status = old.get("spec") or {}, old.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    wanted = options.grace_period_s
    if wanted is None:
        wanted = spec.get("terminationGracePeriodSeconds", 30)
    if "deletionTimestamp" in old["metadata"]:
        wanted = min(wanted, old["metadata"].get("deletionGracePeriodSeconds", wanted))
    return int(wanted)


def _require_preconditions(kind: Kind, name: str, old: Object, options: DeleteOptions) -> None:
    meta = old["metadata"]
    if options.uid and options.uid != meta["uid"]:
        text = f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']})."
        raise conflict(kind.kind, kind.group, name, f"{text} The object might have been deleted and then recreated")
    if options.resource_version and options.resource_version != meta["resourceVersion"]:
        text = f"the ResourceVersion in the precondition ({options.resource_version}) does not match"
        text += f" the ResourceVersion in record ({meta['resourceVersion']}). The object might have been modified"
        raise conflict(kind.kind, kind.group, name, text)


def _too_contended(kind: Kind, name: str) -> ApiError:
    """Not a conflict: the client has named no version that could be out of date."""
    return ApiError(
        503,
        Reason.SERVICE_UNAVAILABLE,
        f'{kind.plural} "{name}" is being changed by others all the time; try again',
        retry_after_s=1,
    )
