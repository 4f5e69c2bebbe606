"""The API: from a request to an answer.

    who is it ─► what is it about ─► may they ─► read, write or watch ─► the form they want it in

This module only leads the way; each step is a module of its own. Errors become answers in the HTTP layer.
"""

from collections.abc import Awaitable
from typing import Any, Final

import msgspec

from mainstay.api import schema, times
from mainstay.api.conform import conform
from mainstay.api.custom import ScalePaths
from mainstay.api.decode import Decoded, decode_body
from mainstay.api.errors import ApiError, Reason, bad_request, forbidden_value, invalid, invalid_value, not_found
from mainstay.api.headers import EPOCH, OBSERVED
from mainstay.api.json_values import copied
from mainstay.api.kind import Kind, Object
from mainstay.api.kinds import BUILTIN, REVIEWS
from mainstay.api.kinds import metrics as usage_kinds
from mainstay.api.kinds.decisions import DECISION
from mainstay.api.kinds.reviews import BINDINGS
from mainstay.env import Env
from mainstay.http.messages import Answer, Request, Response, StreamResponse, UpgradeResponse
from mainstay.server.auth import authorization, reviews
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.auth.node_restriction import require_own
from mainstay.server.crd.definitions import Definitions
from mainstay.server.decisions.journal import ServerJournal
from mainstay.server.decisions.reads import DecisionReads, SeenDecisions, decision_selection
from mainstay.server.decisions.sampling_rules import SamplingRules
from mainstay.server.decisions.write_notes import Asked
from mainstay.server.node_proxy.agents import Connector
from mainstay.server.node_proxy.pod_streams import PodStreams
from mainstay.server.node_proxy.usage import UsageReads
from mainstay.server.placement.batch_binding import bind_all
from mainstay.server.placement.binding import parse_binding
from mainstay.server.placement.eviction import Evictions
from mainstay.server.placement.ledger.recount import answer_recount as answer_node_recount
from mainstay.server.placement.placement import Placement
from mainstay.server.quota.recount import answer_recount as answer_quota_recount
from mainstay.server.request import representation
from mainstay.server.request.answers import NO_CACHE, answer_body, answer_json, answer_pieces, answer_text, no_page
from mainstay.server.request.context import Seen
from mainstay.server.request.discovery import VERSION, Discovery
from mainstay.server.request.health import HEALTH_PATHS, check_health
from mainstay.server.request.options import DeleteOptions, WriteOptions
from mainstay.server.request.patch import Patch, application_of, is_apply, patch_of
from mainstay.server.request.representation import Form, form_of
from mainstay.server.request.served_kinds import Registry
from mainstay.server.request.target import NoSuchPath, Options, Target, Verb, target_of
from mainstay.server.storage import subresources
from mainstay.server.storage.admission import Known, admission_of
from mainstay.server.storage.epochs import StoreEpochs
from mainstay.server.storage.keyspace import key_of
from mainstay.server.storage.operations import REPEATED, Sweeper
from mainstay.server.storage.priority_classes import Priorities
from mainstay.server.storage.reads import Reads
from mainstay.server.storage.selection import Selection, selection_of
from mainstay.server.storage.stored import Written, read
from mainstay.server.storage.strategies import APPLIED, POD_STATUS, WriteStrategy, is_pod, part_for
from mainstay.server.storage.write_context import WriteContext, read_write_context
from mainstay.server.storage.writes import Writes
from mainstay.server.watch.feed import Feed
from mainstay.server.watch.session import Watching
from mainstay.server.watch.websocket import over_websocket
from mainstay.store.errors import OutcomeUnknown, StorageFull, StoreError
from mainstay.store.interface import MemoryReads, Store

_OWNERS: Final = "managedFields"
_SHOWN_HERE: Final = ("", "status", "scale", "ghosts", "resize", "ephemeralcontainers")
_WITH_STATUS: Final = ("kind", "apiVersion", "metadata", "status")

_REVIEW_GROUPS: Final = frozenset(kind.group for kind in REVIEWS if kind.kind != "Binding")

_encode = msgspec.json.Encoder().encode


class Api:
    """Make one with `await Api.start(store, env, authenticator)`. Agents are asked through the connector."""

    def __init__(
        self,
        store: Store,
        env: Env,
        authenticator: Authenticator,
        feed: Feed,
        known: Known,
        connector: Connector,
        journal: ServerJournal | None,
        epochs: StoreEpochs,
    ) -> None:
        self.registry = Registry((*BUILTIN, *REVIEWS, *usage_kinds.KINDS, DECISION))
        self.feed = feed
        self._store = store
        self._memory = store.memory
        self._clock = env.clock
        self._authenticator = authenticator
        self._discovery = Discovery(self.registry)
        self._reads = Reads(store, feed)
        self._usage = UsageReads(store, env.clock, connector)
        self._streams = PodStreams(store, self._kind("", "v1", "nodes"), connector)
        self._placing = placing = Placement(store, self._kind("", "v1", "pods"), env.clock)
        self._writes = Writes(store, env, admission_of(known), placing.points, placing.committer)
        budgets = self._kind("policy", "v1", "poddisruptionbudgets")
        self._evictions = Evictions(store, self._writes, self._kind("", "v1", "pods"), budgets)
        self._watching = Watching(store, feed, env.clock, env.chance.stream("watch timeout"), epochs)
        feed.on_internal_change(epochs.heard)
        self.registry.on_removal(self._watching.end_all)
        self._priorities = Priorities(store, feed, known)
        self._definitions = Definitions(store, feed, self.registry, env.clock)
        self._decisions = DecisionReads(journal, env.clock, env.chance.stream("decision watch timeout"))
        self._notes = None if journal is None else journal.notes
        self._sampling = None if journal is None else SamplingRules(store, feed, journal.collector.sampler)
        self._sweeper: Sweeper | None = None

    @classmethod
    async def start(
        cls,
        store: Store,
        env: Env,
        authenticator: Authenticator,
        connector: Connector | None = None,
        journal: ServerJournal | None = None,
    ) -> "Api":
        known = Known()
        feed = await Feed.start(store)
        # After the feed: what our own opening is written at must not be more than clients may resume from.
        epochs = await StoreEpochs.begin(store, env)
        api = cls(store, env, authenticator, feed, known, connector or Connector(), journal, epochs)
        await api._priorities.start()
        if api._sampling is not None:
            await api._sampling.start()
        await api._make_namespaces()
        await api._definitions.start()
        api._sweeper = Sweeper(store, env.clock)
        api._placing.start()
        return api

    async def stop(self) -> None:
        if self._sweeper is not None:
            await self._sweeper.stop()
        await self._placing.stop()
        await self._definitions.stop()
        if self._sampling is not None:
            await self._sampling.stop()
        await self._priorities.stop()
        await self._decisions.stop()
        await self._watching.stop()
        await self.feed.stop()

    async def _make_namespaces(self) -> None:
        """Those that clients expect to be there from the beginning."""
        kind = self._kind("", "v1", "namespaces")
        for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
            new = {"kind": kind.kind, "apiVersion": kind.group_version, "metadata": {"name": name}}
            try:
                await self._writes.create(kind, "", new, WriteOptions(False, "Ignore", "mainstay"))
            except ApiError as error:
                if error.reason is not Reason.ALREADY_EXISTS:
                    raise

    def _kind(self, group: str, version: str, plural: str) -> Kind:
        """A kind that is always there."""
        kind = self.registry.find(group, version, plural)
        if kind is None:
            raise AssertionError(f"there is no kind for {plural}")
        return kind

    def handle(self, request: Request, seen: Seen) -> Answer | Awaitable[Answer]:
        """Answer a request, and note what was found out about it. Raises `ApiError`."""
        path = request.path
        if path in HEALTH_PATHS:
            return answer_text(*check_health(request))
        if path.rstrip("/") == "/version":
            return answer_json(200, VERSION)
        user = seen.user = self._authenticator.user_of(request)
        if path.startswith(("/api/", "/apis/")) and path.count("/") > (2 if path.startswith("/api/") else 3):
            return self._resource(request, user, seen)
        if authorization.AUTHENTICATED not in user.groups and not user.is_master:
            text = f'forbidden: User "{user.name}" cannot {request.method.lower()} path "{path}"'
            raise ApiError(403, Reason.FORBIDDEN, text, {})
        return self._discovery.page(request) or no_page()

    def _resource(self, request: Request, user: authorization.User, seen: Seen) -> Answer | Awaitable[Answer]:
        options = Options(request.query)
        try:
            target = seen.target = target_of(request.method, request.path, options, self.registry)
        except NoSuchPath:
            return no_page()
        authorization.require(user, target)
        seen.is_allowed = True
        is_plain = target.verb is Verb.GET and not target.subresource and "resourceVersion" not in options
        if is_plain and self._memory is not None and target.kind.is_kept:
            return self._get_now(self._memory, request, target, options)
        return self._answered(request, seen, target, options)

    def _get_now(self, memory: MemoryReads, request: Request, target: Target, options: Options) -> Answer:
        """One object, without a task: that would cost as much as all the rest."""
        kind = target.kind
        form = form_of(request.headers.get("accept"))
        try:
            entry = memory.look(key_of(kind, target.namespace, target.name))
        except StoreError as error:
            raise ApiError(503, Reason.SERVICE_UNAVAILABLE, str(error), retry_after_s=1) from error
        if entry is None:
            raise not_found(kind.plural, kind.group, target.name)
        include = options.get("includeObject", "Metadata")
        body = representation.one(form, kind, entry.value, entry.revision, self._clock.wall(), include)
        return answer_body(200, body, form, options)

    async def _answered(self, request: Request, seen: Seen, target: Target, options: Options) -> Answer:
        try:
            return await self._carry_out(request, seen, target, options)
        except OutcomeUnknown as error:
            text = f"the outcome is unknown, it may or may not have happened: {error}"
            raise ApiError(504, Reason.TIMEOUT, text) from error
        except StorageFull as error:
            raise ApiError(507, Reason.INTERNAL_ERROR, str(error)) from error
        except StoreError as error:
            raise ApiError(503, Reason.SERVICE_UNAVAILABLE, str(error), retry_after_s=1) from error

    async def _carry_out(self, request: Request, seen: Seen, target: Target, options: Options) -> Answer:
        form = form_of(request.headers.get("accept"))
        # By identity: to compare two kinds is to compare all their fields.
        if target.kind.group in _REVIEW_GROUPS and any(target.kind is each for each in REVIEWS):
            review = self._decode(request, target.kind, "Ignore").object
            now = times.format_time(self._clock.wall())
            if target.kind.kind == "TokenReview":
                await self._authenticator.learn((review.get("spec") or {}).get("token") or "")
            return answer_json(201, reviews.answer(target.kind, review, seen.user, self._authenticator, now))
        match target.verb:
            case Verb.GET:
                return await self._get(request, seen, target, options, form)
            case Verb.LIST:
                listed = await self._reads_of(target.kind, seen).list(_selection(target, options), options)
                include = options.get("includeObject", "Metadata")
                at = self._clock.wall()
                pieces = representation.many(form, target.kind, listed.entries, listed.metadata, at, include)
                return answer_pieces(pieces, form, options, listed.warnings)
            case Verb.WATCH:
                selection = _selection(target, options)
                if target.kind is DECISION:
                    run = self._decisions.watch(seen.user, selection, form, options)
                else:
                    run = self._watching.open(selection, form, options, request.headers.get(EPOCH) or "")
                if (request.headers.get("upgrade") or "").lower() == "websocket":
                    offered = (request.headers.get("sec-websocket-protocol") or "").split(",")[0].strip()
                    return UpgradeResponse(over_websocket(run), offered or None)
                return StreamResponse(200, run, headers=(NO_CACHE,))
            case _:
                return await self._write(request, seen, target, options, form)

    async def _write(self, request: Request, seen: Seen, target: Target, options: Options, form: Form) -> Answer:
        user = seen.user
        if node := authorization.agent_in(user):
            await require_own(self._store, node, request, target)
        asked = Asked(self._notes, request, seen, target, options.get("fieldManager"))
        context = read_write_context(request, user, self._clock, asked)
        if target.kind is BINDINGS:
            is_dry = WriteOptions.of(options, "CreateOptions", "").dry_run
            results = await bind_all(self._placing.binder, request, user, context, self._clock, dry_run=is_dry)
            return Response(200, results)
        if target.subresource == "ghosts":
            return answer_json(200, await self._placing.ghosts.reported(target.name, request.body))
        if target.subresource == "recount":
            of_kind = answer_node_recount if target.kind.kind == "Node" else answer_quota_recount
            return answer_json(200, await of_kind(self._store, self._placing.shared, target.name))
        match target.verb:
            case Verb.CREATE:
                return await self._create(request, target, options, form, context)
            case Verb.UPDATE | Verb.PATCH:
                return await self._change(request, target, options, form, context)
            case Verb.DELETE:
                return await self._delete(request, target, options, form, context)
            case Verb.DELETE_COLLECTION:
                return await self._delete_collection(request, target, options, form, context)
            case other:
                raise AssertionError(f"{other} writes nothing")

    def _reads_of(self, kind: Kind, seen: Seen) -> Reads | UsageReads | SeenDecisions:
        if kind.is_kept:
            return self._reads
        return self._decisions.seen_by(seen.user) if kind is DECISION else self._usage

    async def _get(self, request: Request, seen: Seen, target: Target, options: Options, form: Form) -> Answer:
        if target.subresource not in _SHOWN_HERE:
            return await self._streams.answer(request, target, options)
        entry = await self._reads_of(target.kind, seen).get(target.kind, target.namespace, target.name, options)
        if target.subresource == "scale":
            return answer_body(
                200,
                _encode(subresources.scale_of(read(target.kind, entry), self._scale_paths(target.kind))),
                form,
                options,
            )
        if target.subresource == "ghosts":
            return answer_json(200, await self._placing.ghosts.of(target.name))
        include = options.get("includeObject", "Metadata")
        body = representation.one(form, target.kind, entry.value, entry.revision, self._clock.wall(), include)
        return answer_body(200, body, form, options)

    async def _create(
        self, request: Request, target: Target, options: Options, form: Form, context: WriteContext
    ) -> Answer:
        wanted = WriteOptions.of(options, "CreateOptions", request.headers.get("user-agent") or "")
        if target.subresource or target.kind.kind == "Binding":
            return await self._create_part(request, target, options, wanted, context)
        decoded = self._decode(request, target.kind, wanted.validation)
        written = await self._writes.create(target.kind, target.namespace, decoded.object, wanted, context)
        return self._written(201, target, written, form, options, decoded.warnings, wanted)

    async def _create_part(
        self, request: Request, target: Target, options: Options, wanted: WriteOptions, context: WriteContext
    ) -> Answer:
        if target.subresource not in ("", "binding", "eviction", "token"):
            return await self._streams.answer(request, target, options)
        body = self._decode_part(request, target)
        if target.subresource == "token":
            return answer_json(201, await self._authenticator.issue(target.namespace, target.name, body))
        name = target.name or (body.get("metadata") or {}).get("name", "")
        now = times.format_time(self._clock.wall())
        match target.subresource or target.kind.plural:
            case "binding" | "bindings":
                wish = parse_binding(target.namespace, name, body, request.headers.get(OBSERVED))
                await self._placing.binder.bind(wish, now, context, dry_run=wanted.dry_run)
            case "eviction":
                how = DeleteOptions.of(options, body.get("deleteOptions") or {})
                await self._evictions.evict(target.namespace, name, how, now, context)
            case other:
                raise AssertionError(f"{other} is served elsewhere")
        return answer_json(
            201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        )

    async def _change(
        self, request: Request, target: Target, options: Options, form: Form, context: WriteContext
    ) -> Answer:
        kind = target.kind
        is_put = target.verb is Verb.UPDATE
        agent = request.headers.get("user-agent") or ""
        wanted = WriteOptions.of(options, "UpdateOptions" if is_put else "PatchOptions", agent)
        if not is_put and is_apply(request.headers.get("content-type")):
            return await self._apply(request, target, options, form, wanted, context)
        if options.flag("force") and not is_put:
            text = "may not be specified for non-apply patch"
            raise invalid("PatchOptions", "meta.k8s.io", "", [forbidden_value("force", text)])
        warnings: list[str] = []
        strategy = WriteStrategy(part_for(target.subresource), requires_version=is_put)
        if is_put:
            mutate, warnings = self._replacement(request, target, wanted)
        else:
            mutate, is_status_alone = self._patched(request, target, wanted, warnings)
            if is_status_alone and is_pod(kind):
                strategy = WriteStrategy(POD_STATUS)
        try:
            written = await self._writes.update(
                kind,
                target.namespace,
                target.name,
                mutate,
                strategy,
                wanted,
                context,
            )
        except ApiError as error:
            if error.code != 404 or not is_put or not kind.put_creates or target.subresource:
                raise
            created = await self._writes.create(kind, target.namespace, mutate({}), wanted, context)
            return self._written(201, target, created, form, options, warnings, wanted)
        return self._written(200, target, written, form, options, warnings, wanted)

    async def _apply(
        self,
        request: Request,
        target: Target,
        options: Options,
        form: Form,
        wanted: WriteOptions,
        context: WriteContext,
    ) -> Answer:
        """What a PATCH does that says what its manager wants."""
        now = times.format_time(self._clock.wall())
        replicas_at = self._scale_paths(target.kind).spec_replicas if target.subresource == "scale" else ()
        application = application_of(request.body, target, options, now, replicas_at)
        where = (target.kind, target.namespace)
        try:
            written = await self._writes.update(
                *where,
                target.name,
                application.applied,
                WriteStrategy(part_for(target.subresource), APPLIED),
                wanted,
                context,
            )
        except ApiError as error:
            if error.code != 404 or target.subresource:
                raise
            new = application.applied(None)
            created = await self._writes.create(*where, new, wanted, context, APPLIED)
            return self._written(201, target, created, form, options, [], wanted)
        return self._written(200, target, written, form, options, [], wanted)

    def _replacement(self, request: Request, target: Target, wanted: WriteOptions) -> tuple[Any, list[str]]:
        """What a PUT does."""
        if target.subresource == "scale":
            return subresources.scaled(self._decode_part(request, target), self._scale_paths(target.kind)), []
        decoded = self._decode(request, target.kind, wanted.validation)
        if target.subresource == "finalize":
            return subresources.finalized(decoded.object), decoded.warnings
        unused = [decoded.object]

        def replaced(old: Object) -> Object:
            # Another one for each further attempt: admission changes what it is given.
            return unused.pop() if unused else self._decode(request, target.kind, wanted.validation).object

        return replaced, decoded.warnings

    def _patched(self, request: Request, target: Target, wanted: WriteOptions, warnings: list[str]) -> tuple[Any, bool]:
        """What a PATCH does, and whether that has to do with nothing but the status."""
        kind = target.kind
        unused = [patch_of(request.headers.get("content-type"), request.body, kind)]

        def take_patch() -> Patch:
            # Read anew for each further attempt, instead of being held until the commit is durable.
            return unused.pop() if unused else patch_of(request.headers.get("content-type"), request.body, kind)

        if target.subresource == "scale":
            paths = self._scale_paths(kind)
            return (
                lambda obj: subresources.scaled(take_patch().apply(subresources.scale_of(obj, paths)), paths)(obj)
            ), False
        # What cannot change is most of an object, and need not be copied, merged and looked at.
        is_part = target.subresource == "status" and unused[0].is_within(_WITH_STATUS)

        def mutate(obj: Object) -> Object:
            patch = take_patch()
            leaves_owners = patch.leaves_owners()
            owners = obj["metadata"].get(_OWNERS) if leaves_owners else None
            if is_part:
                obj = {name: obj[name] for name in _WITH_STATUS if name in obj}
            if owners is not None:
                obj = {**obj, "metadata": {name: each for name, each in obj["metadata"].items() if name != _OWNERS}}
            # What is filled in and put right later is not in a status: of that alone, parts may be shared.
            new = patch.apply(copied(obj) if patch.shares and not is_part else obj)
            if not isinstance(new.get("metadata"), dict):
                raise bad_request("the patch does not leave an object with metadata")
            unknown = conform(new, kind.message) if kind.message else self._pruned(kind, new)
            problems = [f'unknown field "{path}"' for path in unknown]
            if problems and wanted.validation == "Strict":
                text = f"strict decoding error: {', '.join(problems)}"
                raise invalid(kind.kind, kind.group, target.name, [invalid_value("patch", "", text)])
            warnings[:] = problems if wanted.validation == "Warn" else []
            if owners is not None:
                new["metadata"][_OWNERS] = owners
            return new

        return mutate, is_part

    async def _delete(
        self, request: Request, target: Target, options: Options, form: Form, context: WriteContext
    ) -> Answer:
        kind = target.kind
        how = DeleteOptions.of(options, self._delete_body(request))
        written = await self._writes.delete(kind, target.namespace, target.name, how, context)
        if written.was_removed and not kind.delete_returns_object:
            details: Object = {"name": target.name}
            if kind.group:
                details["group"] = kind.group
            uid = msgspec.json.decode(written.value)["metadata"]["uid"]
            details |= {"kind": kind.plural, "uid": uid}
            status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
            response = answer_json(200, status)
            if written.is_repeated:
                response.headers = (*response.headers, REPEATED)
            return response
        body = representation.one(form, kind, written.value, written.revision, self._clock.wall())
        return answer_body(200, body, form, options, is_repeated=written.is_repeated)

    async def _delete_collection(
        self, request: Request, target: Target, options: Options, form: Form, context: WriteContext
    ) -> Answer:
        if context.operation is not None:
            raise bad_request("a collection is not deleted by one write, so this cannot be an operation with an id")
        how = DeleteOptions.of(options, self._delete_body(request))
        listed = await self._reads.list(selection_of(target, options), options)
        for entry in listed.entries:
            place, _, name = entry.key.rpartition("/")
            namespace = place.rpartition("/")[2] if target.kind.namespaced else ""
            try:
                await self._writes.delete(target.kind, namespace, name, how, context)
            except ApiError as error:
                if error.code != 404:
                    raise
        pieces = representation.many(form, target.kind, listed.entries, listed.metadata, self._clock.wall(), "Metadata")
        return answer_pieces(pieces, form, options)

    def _decode(self, request: Request, kind: Kind, validation: str) -> Decoded:
        decoded = decode_body(request.headers.get("content-type"), request.body, kind, validation=validation)
        problems = [f'unknown field "{path}"' for path in self._pruned(kind, decoded.object)]
        if problems and validation == "Strict":
            text = (
                f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: strict decoding error: '
            )
            raise bad_request(text + ", ".join(problems))
        return Decoded(decoded.object, [*decoded.warnings, *(problems if validation == "Warn" else ())])

    def _pruned(self, kind: Kind, obj: Object) -> list[str]:
        """Take what its schema does not know out of an object of a custom kind. Returns what that was."""
        custom = self._definitions.version_of(kind) if kind.is_custom else None
        return [] if custom is None else custom.schema.prune(obj)

    def _decode_part(self, request: Request, target: Target) -> Object:
        """The body of a request to a subresource that is a kind of its own."""
        sub = target.kind.subresource(target.subresource)
        name = (sub.kind if sub is not None else "") or target.kind.kind
        group = sub.group if sub is not None and sub.kind else target.kind.group
        version = (sub.version if sub is not None and sub.version else "") or target.kind.version
        part = Kind(
            group=group,
            version=version,
            kind=name,
            plural=target.subresource or target.kind.plural,
            singular="",
            namespaced=True,
            message=schema.find_message(group, version, name),
        )
        decoded: Object = self._decode(request, part, "Ignore").object
        return decoded

    def _scale_paths(self, kind: Kind) -> ScalePaths:
        """Where an object keeps its replicas. Custom kinds say so themselves."""
        custom = self._definitions.version_of(kind) if kind.is_custom else None
        return subresources.BUILTIN_SCALE if custom is None or custom.scale is None else custom.scale

    def _delete_body(self, request: Request) -> Object:
        if not request.body.strip():
            return {}
        body: Object = self._decode(request, _DELETE_OPTIONS, "Ignore").object
        return body

    def _written(
        self,
        status: int,
        target: Target,
        written: Written,
        form: Form,
        options: Options,
        warnings: list[str],
        wanted: WriteOptions,
    ) -> Response:
        if target.subresource == "scale":
            obj = msgspec.json.decode(written.value)
            obj["metadata"]["resourceVersion"] = str(written.revision)
            body = _encode(subresources.scale_of(obj, self._scale_paths(target.kind)))
        elif wanted.dry_run and written.revision == 0:
            shown = msgspec.json.decode(written.value)
            body = _encode({"kind": target.kind.kind, "apiVersion": target.kind.group_version, **shown})
        else:
            body = representation.one(form, target.kind, written.value, written.revision, self._clock.wall())
        return answer_body(status, body, form, options, warnings, is_repeated=written.is_repeated)


_DELETE_OPTIONS: Final = Kind(
    group="", version="v1", kind="DeleteOptions", plural="", singular="", namespaced=False,
    message="k8s.io.apimachinery.pkg.apis.meta.v1.DeleteOptions",
)  # fmt: skip


def _selection(target: Target, options: Options) -> Selection:
    return decision_selection(target, options) if target.kind is DECISION else selection_of(target, options)
