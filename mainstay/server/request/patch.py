"""Patches as clients send them: by content type, to a function from what is there to what should be."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstay.api import json_body
from mainstay.api.apply import Application
from mainstay.api.errors import StatusError, StatusReason, bad_request, invalid, required
from mainstay.api.json_patch import json_patch
from mainstay.api.kind import Kind, Object
from mainstay.api.merge_patch import merge_patch
from mainstay.api.strategic_merge import strategic_merge
from mainstay.api.yaml_body import parse_yaml
from mainstay.server.request.target import Options, RequestTarget

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"


def is_apply(content_type: str | None) -> bool:
    """Whether a patch says what its manager wants, and not what to do."""
    return _media(content_type) == APPLY


def _media(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower()


def parse_application(
    body: bytes, target: RequestTarget, options: Options, now: str, replicas_at: Sequence[str]
) -> Application:
    """What is applied by a request. Raises `StatusError` if it does not say by whom, or makes no sense.

    `replicas_at` is where an object of the kind has what a Scale says.
    """
    manager = options.get("fieldManager")
    if not manager:
        causes = [required("fieldManager", "is required for apply patch")]
        raise invalid("PatchOptions", "meta.k8s.io", "", causes)
    patch = _read_yaml(body)
    if not isinstance(patch, dict):
        raise bad_request("error decoding YAML: an object is needed")
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


def _read_yaml(body: bytes) -> Any:
    if body.lstrip()[:1] == b"{":
        try:
            return json_body.parse(body).value  # JSON is YAML, but can be read so much faster.
        except StatusError:
            pass  # Then it is one of the other things that begin so in YAML, or nothing at all.
    try:
        return parse_yaml(body).value
    except StatusError as error:
        raise bad_request(f"error decoding YAML: {error.message}") from None


def _of_scaled(scale: Object, kind: Kind, replicas_at: Sequence[str]) -> Object:
    """What an applied Scale says about the object itself."""
    version, name = scale.get("apiVersion") or "", scale.get("kind") or ""
    if (version, name) != ("autoscaling/v1", "Scale"):
        group, _, bare = str(version).rpartition("/")
        raise bad_request(f"invalid object type: {group}/{bare}, Kind={name}")
    spec = scale.get("spec")
    patch: Object = {"apiVersion": kind.group_version, "kind": kind.kind, "metadata": scale.get("metadata") or {}}
    if isinstance(spec, dict) and "replicas" in spec:
        said: Any = spec["replicas"]
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
    patch: Any = json_body.parse(body).value
    if media == JSON_PATCH:
        return ObjectPatch(lambda obj: json_patch(obj, patch))
    if not isinstance(patch, dict):
        raise bad_request("a patch of this type must be an object")
    if media == MERGE_PATCH:
        return ObjectPatch(lambda obj: merge_patch(obj, patch), patch)
    return ObjectPatch(lambda obj: strategic_merge(obj, patch, kind.message), patch, shares=True)
