"""Bodies of requests as objects: decoded by what is known of their kind, unknown fields reported or left out."""

from typing import Final, Protocol

from mainstay.api import schema
from mainstay.api.custom import CustomVersion
from mainstay.api.decode import DecodedObject, decode_body
from mainstay.api.errors import bad_request
from mainstay.api.kind import Kind, Object
from mainstay.http.messages import Request
from mainstay.server.request.target import RequestTarget

_DELETE_OPTIONS: Final = Kind(
    group="", version="v1", kind="DeleteOptions", plural="", singular="", namespaced=False,
    message="k8s.io.apimachinery.pkg.apis.meta.v1.DeleteOptions",
)  # fmt: skip


class CustomKinds(Protocol):
    """What is behind kinds that users have defined (crd/definitions.py)."""

    def find_version(self, kind: Kind) -> CustomVersion | None:
        """The schema and the scale paths behind a custom kind. None if nothing defines it any more."""


class Bodies:
    def __init__(self, custom: CustomKinds) -> None:
        self._custom = custom

    def decode(self, request: Request, kind: Kind, validation: str) -> DecodedObject:
        """`validation` is Strict, Warn or Ignore. Raises `StatusError` (400)."""
        decoded = decode_body(request.headers.get("content-type"), request.body, kind, validation=validation)
        problems = [f'unknown field "{path}"' for path in self.prune(kind, decoded.object)]
        if problems and validation == "Strict":
            text = (
                f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: strict decoding error: '
            )
            raise bad_request(text + ", ".join(problems))
        return DecodedObject(decoded.object, [*decoded.warnings, *(problems if validation == "Warn" else ())])

    def prune(self, kind: Kind, obj: Object) -> list[str]:
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
        decoded: Object = self.decode(request, part, "Ignore").object
        return decoded

    def decode_delete_options(self, request: Request) -> Object:
        if not request.body.strip():
            return {}
        body: Object = self.decode(request, _DELETE_OPTIONS, "Ignore").object
        return body
