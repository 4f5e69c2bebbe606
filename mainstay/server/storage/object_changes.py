"""How the body of a PUT or PATCH becomes a change of an object, and how its outcome is shown.

`ObjectChange` is for objects themselves and for the subresources that look like them, as the status does. Those that
look otherwise, Scale and finalize, are in subresources.py.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from mainstay.api import times
from mainstay.api.apply import Application
from mainstay.api.decode import describe_unknown
from mainstay.api.errors import StatusError, invalid, invalid_value
from mainstay.api.json_values import copied
from mainstay.api.kind import Kind, Object
from mainstay.env import Clock
from mainstay.server.request import representation
from mainstay.server.request.bodies import Bodies
from mainstay.server.request.handlers import ResourceCall
from mainstay.server.request.options import WriteParameters
from mainstay.server.request.patch import ObjectPatch, parse_application, parse_patch
from mainstay.server.storage.stored import StoredWrite
from mainstay.server.storage.strategies import POD_STATUS, WriteStrategy, is_pod, part_for
from mainstay.server.storage.writes import Mutate

_OWNERS: Final = "managedFields"
_WITH_STATUS: Final = ("kind", "apiVersion", "metadata", "status")

_encode = msgspec.json.Encoder().encode


class ObjectChange:
    def __init__(self, bodies: Bodies, clock: Clock) -> None:
        self.bodies = bodies
        self.clock = clock

    def replace(self, asked: ResourceCall, wanted: WriteParameters) -> tuple[Mutate, list[str]]:
        """What a PUT does, and the warnings about its body."""
        kind = asked.target.kind
        decoded = self.bodies.decode(asked.request, kind, wanted.validation)
        unused = [decoded.object]

        def replaced(old: Object) -> Object:
            # Another one for each further attempt: admission changes what it is given.
            return unused.pop() if unused else self.bodies.decode(asked.request, kind, wanted.validation).object

        return replaced, decoded.warnings

    def patch(self, asked: ResourceCall, wanted: WriteParameters, warnings: list[str]) -> tuple[Mutate, WriteStrategy]:
        """What a PATCH does, and by which strategy. Warnings are only known once it has been done."""
        kind, subresource = asked.target.kind, asked.target.subresource
        take_patch, first = patches_in(asked)
        # What cannot change is most of an object, and need not be copied, merged and looked at.
        is_part = subresource == "status" and first.is_within(_WITH_STATUS)

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
            warnings[:] = self._check_fields(kind, asked.target.name, new, wanted, patch.problems)
            if owners is not None:
                new["metadata"][_OWNERS] = owners
            return new

        return mutate, WriteStrategy(POD_STATUS if is_part and is_pod(kind) else part_for(subresource))

    def _check_fields(
        self, kind: Kind, name: str, new: Object, wanted: WriteParameters, twice: Sequence[str]
    ) -> list[str]:
        """Take unknown fields out of what a patch leads to. Returns warnings. Raises `StatusError` if it is strict.

        `twice` is what the patch says more than once, in words.
        """
        try:
            problems = [*twice, *describe_unknown(self.bodies.conform(kind, new))]
        except StatusError as error:
            raise invalid(kind.kind, kind.group, name, [invalid_value("patch", "", error.message)]) from None
        new.setdefault("metadata", {})
        if problems and wanted.validation == "Strict":
            text = f"strict decoding error: {', '.join(problems)}"
            raise invalid(kind.kind, kind.group, name, [invalid_value("patch", "", text)])
        return problems if wanted.validation == "Warn" else []

    def apply(self, asked: ResourceCall, wanted: WriteParameters, warnings: list[str]) -> Application:
        """What a PATCH does that says what its manager wants."""
        now = times.format_time(self.clock.wall())
        return parse_application(asked.request.body, asked.target, asked.options, now, (), wanted.validation, warnings)

    def show(self, asked: ResourceCall, written: StoredWrite, *, dry_run: bool) -> bytes:
        """The body of the answer."""
        kind = asked.target.kind
        if dry_run and written.revision == 0:
            shown: dict[str, Any] = msgspec.json.decode(written.value)
            return _encode({"kind": kind.kind, "apiVersion": kind.group_version, **shown})
        return representation.one(asked.form, kind, written.value, written.revision, self.clock.wall())


def patches_in(asked: ResourceCall) -> tuple[Callable[[], ObjectPatch], ObjectPatch]:
    """What reads the patch of a request, and the first that it gives. For each further attempt the body is read again,
    instead of being held until the commit is durable."""
    content_type, body, kind = asked.request.headers.get("content-type"), asked.request.body, asked.target.kind
    first = parse_patch(content_type, body, kind)
    unused = [first]

    def take_patch() -> ObjectPatch:
        return unused.pop() if unused else parse_patch(content_type, body, kind)

    return take_patch, first
