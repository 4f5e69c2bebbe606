"""Bodies of requests as objects: decoded by what is known of their kind, unknown fields reported or left out."""

from typing import Final, Protocol

from mainstay.api import schema
from mainstay.api.conform import conform
from mainstay.api.custom import CustomVersion
from mainstay.api.decode import DecodedObject, decode_body, describe_unknown
from mainstay.api.errors import StatusError, StatusReason, bad_request
from mainstay.api.kind import Kind, Object
from mainstay.api.kind_names import LEASES
from mainstay.api.object_meta import conform_metadata
from mainstay.http.messages import Request
from mainstay.server.request.large_work import LargeWork
from mainstay.server.request.target import RequestTarget

_DELETE_OPTIONS: Final = Kind(
    group="", version="v1", kind="DeleteOptions", plural="", singular="", namespaced=False,
    message="k8s.io.apimachinery.pkg.apis.meta.v1.DeleteOptions",
)  # fmt: skip


SMALL_BYTES_MAX: Final = 16 * 1024  # Of YAML, that is 10 ms.
BYTES_MAX_BY_KIND: Final = {LEASES: 512 * 1024}
"""Of kinds that are stored. Leases are written at a level of their own, for nodes and leaders: not by the megabyte."""


class CustomKinds(Protocol):
    """What is behind kinds that users have defined (crd/definitions.py)."""

    def find_version(self, kind: Kind) -> CustomVersion | None:
        """The schema and the scale paths behind a custom kind. None if nothing defines it any more."""


class Bodies:
    def __init__(self, custom: CustomKinds, large: LargeWork) -> None:
        self._custom = custom
        self.large = large

    def decode(self, request: Request, kind: Kind, validation: str) -> DecodedObject:
        """`validation` is Strict, Warn or Ignore. Raises `StatusError` (400)."""
        decoded = decode_body(request.headers.get("content-type"), request.body, kind, validation=validation)
        problems = describe_unknown(self._prune(kind, decoded.object))
        if problems and validation == "Strict":
            text = (
                f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: strict decoding error: '
            )
            raise bad_request(text + ", ".join(problems))
        return DecodedObject(decoded.object, [*decoded.warnings, *(problems if validation == "Warn" else ())])

    def conform(self, kind: Kind, obj: Object) -> list[str]:
        """Put right in place what a patch has led to. Returns the paths of fields that the kind does not have, which
        are now gone. Raises `StatusError` for a value of a wrong type."""
        if kind.message:
            return conform(obj, kind.message)
        for name, expected in (("apiVersion", kind.group_version), ("kind", kind.kind)):
            if obj.setdefault(name, expected) != expected:
                raise bad_request(f"{name}: Invalid value: must be {expected}")
        return [*conform_metadata(obj), *self._prune(kind, obj)]

    def _prune(self, kind: Kind, obj: Object) -> list[str]:
        """Take what its schema does not know out of an object of a custom kind. Returns what that was."""
        custom = self._custom.find_version(kind) if kind.is_custom else None
        return [] if custom is None else custom.schema.prune(obj)

    def decode_subresource(self, request: Request, target: RequestTarget) -> Object:
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
        return self.decode_small(request, part)

    def decode_delete_options(self, request: Request) -> Object:
        if not request.body.strip():
            return {}
        return self.decode_small(request, _DELETE_OPTIONS)

    def decode_small(self, request: Request, kind: Kind) -> Object:
        """The body of a kind that is not stored, and never large. Raises `StatusError` (413) if it is."""
        require_small(len(request.body))
        decoded: Object = self.decode(request, kind, "Ignore").object
        return decoded


def require_small(size: int, bytes_max: int = SMALL_BYTES_MAX) -> None:
    """Raise `StatusError` (413) if this is too long for the body of a kind that is not stored."""
    if size > bytes_max:
        text = f"the body has {size} bytes: at most {bytes_max} are read of a request of this kind"
        raise StatusError(413, StatusReason.REQUEST_ENTITY_TOO_LARGE, text, {})
