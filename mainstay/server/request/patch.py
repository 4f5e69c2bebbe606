"""Patches as clients send them: by content type, to a function from what is there to what should be."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstay.api import json_body
from mainstay.api.apply import Application
from mainstay.api.conform import UNKNOWN_MAX, conform
from mainstay.api.decode import STRICT, WARN
from mainstay.api.errors import StatusError, StatusReason, bad_request, invalid, quoted, required
from mainstay.api.json_patch import json_patch
from mainstay.api.json_values import copied
from mainstay.api.kind import Kind, Object
from mainstay.api.merge_patch import merge_patch
from mainstay.api.strategic_merge import strategic_merge
from mainstay.api.yaml_body import ConvertedYaml, parse_yaml
from mainstay.server.request.target import Options, RequestTarget

SCALE: Final = "k8s.io.api.autoscaling.v1.Scale"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"


def is_apply(content_type: str | None) -> bool:
    """Whether a patch says what its manager wants, and not what to do."""
    return _media(content_type) == APPLY


def is_merge(content_type: str | None) -> bool:
    """Whether a patch holds nothing but values to put in, and nulls for what to take out."""
    return _media(content_type) == MERGE_PATCH


def _media(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower()


def parse_application(
    body: bytes,
    target: RequestTarget,
    options: Options,
    now: str,
    replicas_at: Sequence[str],
    validation: str,
    warnings: list[str],
) -> Application:
    """What is applied by a request. Raises `StatusError` if it does not say by whom, or makes no sense.

    `replicas_at` is where an object of the kind has what a Scale says. `validation` is Strict, Warn or Ignore: what to
    do about keys that occur twice.
    """
    manager = options.get("fieldManager")
    if not manager:
        causes = [required("fieldManager", "is required for apply patch")]
        raise invalid("PatchOptions", "meta.k8s.io", "", causes)
    patch, problems = _read_yaml(body)
    if not isinstance(patch, dict):
        raise bad_request("error decoding YAML: an object is needed")
    if problems and validation == STRICT:
        raise bad_request(f"error strict decoding YAML: {', '.join(problems)}")
    if validation == WARN:
        warnings += problems
    if target.subresource == "scale":
        patch = _of_scaled(patch, target.kind, replicas_at)
    return Application(
        kind=target.kind,
        namespace=target.namespace,
        name=target.name,
        patch=patch,
        manager=manager,
        now=now,
        force=options.flag("force"),
        subresource=target.subresource,
    )


def _read_yaml(body: bytes) -> tuple[Any, list[str]]:
    """What a body says, and which keys are twice in it, in words."""
    if body.lstrip()[:1] == b"{" and not isinstance(body, ConvertedYaml):
        try:
            parsed = json_body.parse(body)  # JSON is YAML, but can be read so much faster.
        except StatusError:
            pass  # Then it is one of the other things that begin so in YAML, or nothing at all.
        else:
            twice = json_body.duplicates(body) if parsed.may_have_duplicates else []
            return parsed.value, [f"key {quoted(path)} already set in map" for path in twice[:UNKNOWN_MAX]]
    try:
        found = parse_yaml(body)
        return found.value, found.problems[:UNKNOWN_MAX]
    except StatusError as error:
        raise bad_request(f"error decoding YAML: {error.message}") from None


def require_replicas(replicas: Any) -> int:
    """Raises `StatusError` (400) unless this can be the replicas of a Scale."""
    if type(replicas) is not int or replicas < 0:
        raise bad_request(f"spec.replicas: {replicas!r} is not a whole number from 0 up")
    return replicas


def _of_scaled(scale: Object, kind: Kind, replicas_at: Sequence[str]) -> Object:
    """What an applied Scale says about the object itself."""
    version, name = scale.get("apiVersion") or "", scale.get("kind") or ""
    if (version, name) != ("autoscaling/v1", "Scale"):
        group, _, bare = str(version).rpartition("/")
        raise bad_request(f"invalid object type: {group}/{bare}, Kind={name}")
    conform(copied(scale), SCALE)
    spec = scale.get("spec") or {}
    patch: Object = {"apiVersion": kind.group_version, "kind": kind.kind, "metadata": scale.get("metadata") or {}}
    if "replicas" in spec:
        said: Any = require_replicas(spec["replicas"])
        for name in reversed(replicas_at):
            said = {name: said}
        patch |= said
    return patch


@dataclass(frozen=True, slots=True)
class ObjectPatch:
    """What a patch does to an object."""

    apply: Callable[[Object], Object]
    """The argument stays as it is."""
    body: Object | None = None
    """The patch, if it looks like the object: then what it does not speak of stays as it is."""
    shares: bool = False
    """Whether the result shares with the argument what the patch does not speak of. Otherwise it shares nothing."""
    problems: Sequence[str] = ()
    """Keys that are twice in the body, in words."""

    def is_within(self, fields: Collection[str]) -> bool:
        """Whether it speaks of nothing but these fields."""
        return self.body is not None and all(name in fields for name in self.body)

    def leaves_owners(self) -> bool:
        """Whether it certainly does not speak of `metadata.managedFields`."""
        if self.body is None or any(name[:1] == "$" for name in self.body):
            return False
        metadata = self.body.get("metadata", {})
        return isinstance(metadata, dict) and not any(name[:1] == "$" or name == "managedFields" for name in metadata)


def parse_patch(content_type: str | None, body: bytes, kind: Kind) -> ObjectPatch:
    """What a patch does to an object. Raises `StatusError` for a type that the kind does not take, or nonsense."""
    media = _media(content_type)
    accepted = (JSON_PATCH, MERGE_PATCH) if kind.is_custom or not kind.message else (JSON_PATCH, MERGE_PATCH, STRATEGIC)
    if media not in accepted:
        listed = ", ".join((*accepted, APPLY))
        text = f"the body of the request was in an unknown format - accepted media types include: {listed}"
        raise StatusError(415, StatusReason.UNSUPPORTED_MEDIA_TYPE, text, {})
    parsed = json_body.parse(body)
    patch: Any = parsed.value
    twice = json_body.duplicates(body) if parsed.may_have_duplicates else ()
    problems = [f"duplicate field {quoted(path)}" for path in twice[:UNKNOWN_MAX]]
    if media == JSON_PATCH:
        return ObjectPatch(lambda obj: json_patch(obj, patch), problems=problems)
    if not isinstance(patch, dict):
        raise bad_request("a patch of this type must be an object")
    if media == MERGE_PATCH:
        return ObjectPatch(lambda obj: merge_patch(obj, patch), patch, problems=problems)
    return ObjectPatch(lambda obj: strategic_merge(obj, patch, kind.message), patch, shares=True, problems=problems)
