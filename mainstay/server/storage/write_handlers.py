"""Handlers of create, update, patch and delete: from a request to a write, and from its outcome to an answer."""

import msgspec

from mainstay.api.errors import StatusError, bad_request, forbidden_value, invalid
from mainstay.api.kind import Object
from mainstay.env import Clock
from mainstay.http.messages import Answer, Response
from mainstay.server.auth.authorization import AccessAttributes, Authorizers
from mainstay.server.request import representation
from mainstay.server.request.answers import answer_body, answer_json, answer_pieces, build_warning_headers
from mainstay.server.request.bodies import Bodies
from mainstay.server.request.handlers import ResourceCall
from mainstay.server.request.options import DeleteOptions, WriteParameters
from mainstay.server.request.patch import is_apply
from mainstay.server.request.target import Verb
from mainstay.server.storage.object_changes import ObjectChange
from mainstay.server.storage.reads import ObjectReader
from mainstay.server.storage.selection import parse_selection
from mainstay.server.storage.stored import StoredWrite
from mainstay.server.storage.strategies import APPLIED, WriteStrategy, part_for
from mainstay.server.storage.writes import ObjectWriter


class WriteHandlers:
    """Of objects, or of one of their subresources: `change` says which."""

    def __init__(self, writes: ObjectWriter, change: ObjectChange, authorizers: Authorizers) -> None:
        self._writes = writes
        self._change = change
        self._authorizers = authorizers

    async def create(self, asked: ResourceCall) -> Answer:
        target = asked.target
        wanted = await self._read_options(asked, "CreateOptions")
        decode = self._change.bodies.decode
        decoded = await wanted.compute(0, decode, asked.request, target.kind, wanted.validation)
        written = await self._writes.create(target.kind, target.namespace, decoded.object, wanted, asked.context)
        return self._answer(asked, 201, written, decoded.warnings, wanted)

    async def update(self, asked: ResourceCall) -> Answer:
        target = asked.target
        wanted = await self._read_options(asked, "UpdateOptions")
        mutate, warnings = await wanted.compute(0, self._change.replace, asked, wanted)
        strategy = WriteStrategy(part_for(target.subresource), requires_version=True)
        where = (target.kind, target.namespace)
        try:
            written = await self._writes.update(*where, target.name, mutate, strategy, wanted, asked.context)
        except StatusError as error:
            if error.code != 404 or not target.kind.put_creates or target.subresource:
                raise
            self._require_create(asked)
            written = await self._writes.create(*where, mutate({}), wanted, asked.context)
            return self._answer(asked, 201, written, warnings, wanted)
        return self._answer(asked, 200, written, warnings, wanted)

    async def patch(self, asked: ResourceCall) -> Answer:
        target = asked.target
        wanted = await self._read_options(asked, "PatchOptions")
        if is_apply(asked.request.headers.get("content-type")):
            return await self._apply(asked, wanted)
        if asked.options.flag("force"):
            text = "may not be specified for non-apply patch"
            raise invalid("PatchOptions", "meta.k8s.io", "", [forbidden_value("force", text)])
        warnings: list[str] = []
        mutate, strategy = await wanted.compute(0, self._change.patch, asked, wanted, warnings)
        where = (target.kind, target.namespace, target.name)
        written = await self._writes.update(*where, mutate, strategy, wanted, asked.context)
        return self._answer(asked, 200, written, warnings, wanted)

    async def _apply(self, asked: ResourceCall, wanted: WriteParameters) -> Answer:
        target = asked.target
        warnings: list[str] = []
        application = await wanted.compute(0, self._change.apply, asked, wanted, warnings)
        strategy = WriteStrategy(part_for(target.subresource), APPLIED)
        where = (target.kind, target.namespace)
        try:
            applied = application.applied
            written = await self._writes.update(*where, target.name, applied, strategy, wanted, asked.context)
        except StatusError as error:
            if error.code != 404 or target.subresource:
                raise
            self._require_create(asked)
            new = await wanted.compute(0, application.applied, None)
            written = await self._writes.create(*where, new, wanted, asked.context, APPLIED)
            return self._answer(asked, 201, written, warnings, wanted)
        return self._answer(asked, 200, written, warnings, wanted)

    async def _read_options(self, asked: ResourceCall, kind: str) -> WriteParameters:
        wanted = read_write_options(asked, kind)
        wanted.large = self._change.bodies.large.share_with(asked.call)
        if wanted.large.concerns(asked.request):
            wanted.is_large = await wanted.large.read_body(asked.request)
        return wanted

    def _require_create(self, asked: ResourceCall) -> None:
        """An update or apply that creates its object takes the right to create one."""
        action = AccessAttributes.of(asked.target)
        self._authorizers.require(asked.user, msgspec.structs.replace(action, verb=Verb.CREATE))

    def _answer(
        self, asked: ResourceCall, status: int, written: StoredWrite, warnings: list[str], wanted: WriteParameters
    ) -> Response:
        body = self._change.show(asked, written, dry_run=wanted.dry_run)
        told = [*warnings, *wanted.notes.warnings]
        return answer_body(status, body, asked.options, told, is_repeated=written.is_repeated)


class DeleteHandlers:
    def __init__(self, writes: ObjectWriter, reads: ObjectReader, bodies: Bodies, clock: Clock) -> None:
        self._writes = writes
        self._reads = reads
        self._bodies = bodies
        self._clock = clock

    async def delete(self, asked: ResourceCall) -> Answer:
        target = asked.target
        kind = target.kind
        how = DeleteOptions.of(asked.options, self._bodies.decode_delete_options(asked.request))
        written = await self._writes.delete(kind, target.namespace, target.name, how, asked.context)
        if not written.was_removed or kind.delete_returns_object:
            body = representation.one(asked.form, kind, written.value, written.revision, self._clock.wall())
            warnings = () if asked.call.notes is None else asked.call.notes.warnings
            return answer_body(200, body, asked.options, warnings, is_repeated=written.is_repeated)
        details: Object = {"name": target.name}
        if kind.group:
            details["group"] = kind.group
        details |= {"kind": kind.plural, "uid": msgspec.json.decode(written.value)["metadata"]["uid"]}
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        answer = answer_json(200, status, is_repeated=written.is_repeated)
        if asked.call.notes is not None and asked.call.notes.warnings:
            answer.headers = (*answer.headers, *build_warning_headers(asked.call.notes.warnings))
        return answer

    async def delete_collection(self, asked: ResourceCall) -> Answer:
        target, options = asked.target, asked.options
        if asked.context.operation is not None:
            raise bad_request("a collection is not deleted by one write, so this cannot be an operation with an id")
        how = DeleteOptions.of(options, self._bodies.decode_delete_options(asked.request))
        listed = await self._reads.list(parse_selection(target, options), options)
        for entry in listed.entries:
            place, _, name = entry.key.rpartition("/")
            namespace = place.rpartition("/")[2] if target.kind.namespaced else ""
            try:
                await self._writes.delete(target.kind, namespace, name, how, asked.context)
            except StatusError as error:
                if error.code != 404:
                    raise
        at = self._clock.wall()
        pieces = representation.many(asked.form, target.kind, listed.entries, listed.metadata, at, "Metadata")
        return answer_pieces(pieces, options)


def read_write_options(asked: ResourceCall, kind: str) -> WriteParameters:
    """`kind` is CreateOptions, UpdateOptions or PatchOptions: what a refusal is about."""
    wanted = WriteParameters.of(asked.options, kind, asked.request.headers.get("user-agent") or "")
    asked.call.notes = wanted.notes
    return wanted
