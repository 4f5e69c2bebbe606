"""What garbage collection and the deletion of namespaces see and change, beyond what their roles say.

Their roles reach every kind, as in Kubernetes. There, all who have the credential of the garbage collector read all
Secrets, label namespaces and change the templates of pods. Here the two see metadata alone, whatever they ask for; and
of an object that stays, the collector changes owners and finalizers alone.

What the collector sends is looked at before any object is read: also a refusal can tell what is stored, as the test of
a JSON patch does, or the validation of a spec.
"""

from typing import Final

import msgspec

from mainstay.api.errors import StatusError, forbidden
from mainstay.http.messages import Request
from mainstay.server.auth.identities import build_controller_user
from mainstay.server.request.patch import is_merge
from mainstay.server.request.target import RequestTarget, Verb

_COLLECTOR: Final = build_controller_user("owner-cleanup").name
_NAMESPACES: Final = build_controller_user("namespace").name

METADATA_READERS: Final = frozenset({_COLLECTOR, _NAMESPACES})
"""Users who see metadata alone."""
_SEEN_WHOLE: Final = frozenset({("", "namespaces"), ("apiextensions.k8s.io", "customresourcedefinitions")})
"""But of these: they say what there is to clean up."""

_CHANGES: Final = (Verb.PATCH, Verb.UPDATE)
_IN_PATCH: Final = frozenset({"ownerReferences", "finalizers", "uid", "resourceVersion"})
"""Fields of metadata: those that the collector changes, and by which it says of what."""

_decode_patch: Final = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]]).decode


def sees_metadata_alone(user: str, target: RequestTarget, request: Request) -> bool:
    """Whether one of `METADATA_READERS` sees only that of what it asks for. Raises `StatusError` (403) for what has no
    metadata, such as the log of a pod, and for what the collector may not send."""
    if user == _COLLECTOR and target.verb in _CHANGES and not _is_release_patch(target, request):
        fields = "metadata.ownerReferences and metadata.finalizers"
        text = f"may change only {fields}, by a merge patch that has nothing else in it but metadata.uid"
        raise _refusal(user, target, f"{text} and metadata.resourceVersion")
    kind = target.kind
    if (kind.group, kind.plural) in _SEEN_WHOLE:
        return False
    if target.subresource:
        raise _refusal(user, target, "may read only the metadata of objects, and no subresource")
    return True


def _refusal(user: str, target: RequestTarget, text: str) -> StatusError:
    return forbidden(target.kind.plural, target.kind.group, target.name, f'User "{user}" {text}')


def _is_release_patch(target: RequestTarget, request: Request) -> bool:
    if target.subresource or not is_merge(request.headers.get("content-type")):
        return False
    try:
        patch = _decode_patch(request.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return patch.keys() <= {"metadata"} and patch.get("metadata", {}).keys() <= _IN_PATCH
