"""Subresources that do not look like their object: scale and finalize. Each is one conditional commit of the object."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from mainstay.api import labels, times
from mainstay.api.apply import Application
from mainstay.api.conform import conform
from mainstay.api.custom import ScalePaths
from mainstay.api.errors import StatusError, bad_request, invalid, invalid_value
from mainstay.api.kind import Kind, Object
from mainstay.env import Clock
from mainstay.http.messages import Answer
from mainstay.server.request.answers import answer_body
from mainstay.server.request.bodies import Bodies, CustomKinds
from mainstay.server.request.handlers import ResourceCall
from mainstay.server.request.options import WriteParameters
from mainstay.server.request.patch import SCALE, parse_application, require_replicas
from mainstay.server.storage.object_changes import ObjectChange, patches_in
from mainstay.server.storage.reads import ObjectReader
from mainstay.server.storage.stored import StoredWrite, read
from mainstay.server.storage.strategies import WriteStrategy, part_for
from mainstay.server.storage.writes import Mutate

BUILTIN_SCALE: Final = ScalePaths(("spec", "replicas"), ("status", "replicas"), ("spec", "selector"))


_encode = msgspec.json.Encoder().encode


class ScaleChange(ObjectChange):
    """An object as its `autoscaling/v1 Scale` shows it."""

    def __init__(self, bodies: Bodies, clock: Clock, reads: ObjectReader, custom: CustomKinds) -> None:
        super().__init__(bodies, clock)
        self._reads = reads
        self._custom = custom

    async def get(self, asked: ResourceCall) -> Answer:
        target = asked.target
        entry = await self._reads.get(target.kind, target.namespace, target.name, asked.options)
        shown = render_scale(read(target.kind, entry), self._paths(target.kind))
        return answer_body(200, _encode(shown), asked.options)

    def replace(self, asked: ResourceCall, wanted: WriteParameters) -> tuple[Mutate, list[str]]:
        scale = self.bodies.decode_subresource(asked.request, asked.target)
        return scaled(scale, self._paths(asked.target.kind)), []

    def patch(self, asked: ResourceCall, wanted: WriteParameters, warnings: list[str]) -> tuple[Mutate, WriteStrategy]:
        paths, name = self._paths(asked.target.kind), asked.target.name
        take_patch, _ = patches_in(asked)

        def mutate(obj: Object) -> Object:
            patched = take_patch().apply(render_scale(obj, paths))
            try:
                conform(patched, SCALE)
            except StatusError as error:
                raise invalid("Scale", "autoscaling", name, [invalid_value("patch", "", error.message)]) from None
            return scaled(patched, paths)(obj)

        return mutate, WriteStrategy(part_for(asked.target.subresource))

    def apply(self, asked: ResourceCall, wanted: WriteParameters, warnings: list[str]) -> Application:
        now = times.format_time(self.clock.wall())
        replicas_at = self._paths(asked.target.kind).spec_replicas
        how = wanted.validation
        return parse_application(asked.request.body, asked.target, asked.options, now, replicas_at, how, warnings)

    def show(self, asked: ResourceCall, written: StoredWrite, *, dry_run: bool) -> bytes:
        obj = msgspec.json.decode(written.value)
        obj["metadata"]["resourceVersion"] = str(written.revision)
        return _encode(render_scale(obj, self._paths(asked.target.kind)))

    def _paths(self, kind: Kind) -> ScalePaths:
        """Where an object keeps its replicas. Custom kinds say so themselves."""
        custom = self._custom.find_version(kind) if kind.is_custom else None
        return BUILTIN_SCALE if custom is None or custom.scale is None else custom.scale


class FinalizeChange(ObjectChange):
    """What a namespace still waits for before it goes."""

    def replace(self, asked: ResourceCall, wanted: WriteParameters) -> tuple[Mutate, list[str]]:
        decoded = self.bodies.decode(asked.request, asked.target.kind, wanted.validation)
        return finalized(decoded.object), decoded.warnings


def render_scale(obj: Object, paths: ScalePaths) -> Object:
    """An object as `autoscaling/v1 Scale` shows it."""
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas = _at(obj, paths.spec_replicas) or 0
    shown: Object = {"replicas": _at(obj, paths.status_replicas) or 0}
    selector = _selector_text(_at(obj, paths.label_selector))
    if selector:
        shown["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in kept if name in meta},
        "spec": {"replicas": replicas} if replicas else {},
        "status": shown,
    }


def _at(obj: Object, path: Sequence[str]) -> Any:
    value: Any = obj if path else None
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _selector_text(selector: Any) -> str:
    """A selector as text: custom kinds have it so, others as an object, and old ones as a map of labels."""
    if not isinstance(selector, dict):
        return selector if isinstance(selector, str) else ""
    has_terms = "matchLabels" in selector or "matchExpressions" in selector
    return str(labels.from_object(selector) if has_terms else labels.from_labels(selector))


def scaled(scale: Object, paths: ScalePaths) -> Mutate:
    """Give an object the number of replicas that a Scale asks for."""
    replicas = require_replicas((scale.get("spec") or {}).get("replicas", 0))
    version = (scale.get("metadata") or {}).get("resourceVersion")

    def mutate(obj: Object) -> Object:
        if version:
            obj["metadata"]["resourceVersion"] = version
        parent = obj
        for step in paths.spec_replicas[:-1]:
            parent = parent.setdefault(step, {})
            if not isinstance(parent, dict):
                raise bad_request(f"{'.'.join(paths.spec_replicas)}: {step} is not an object")
        parent[paths.spec_replicas[-1]] = replicas
        return obj

    return mutate


def finalized(namespace: Object) -> Mutate:
    """Write what a namespace still waits for before it goes."""
    wanted = (namespace.get("spec") or {}).get("finalizers") or []
    given = namespace.get("metadata") or {}
    # A client that finalizes a namespace has looked at that one, not at another that has got its name since.
    meant = {name: given[name] for name in ("uid", "resourceVersion") if given.get(name)}

    def mutate(obj: Object) -> Object:
        obj["metadata"] = {**obj["metadata"], **meant}
        spec = obj.setdefault("spec", {})
        if wanted:
            spec["finalizers"] = wanted
        else:
            spec.pop("finalizers", None)
        return obj

    return mutate
