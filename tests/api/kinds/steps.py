"""What the server does with an object and its kind, without a server."""

import json
from typing import Any

from mainstay.api.conform import conform
from mainstay.api.kind import Kind, Object
from mainstay.api.kinds import BUILTIN

_KINDS = {(kind.group_version, kind.kind): kind for kind in BUILTIN}


def kind_of(group_version: str, name: str) -> Kind:
    return _KINDS[group_version, name]


def copy(obj: Any) -> Any:
    return json.loads(json.dumps(obj))


def stored(kind: Kind, new: Object, old: Object | None = None) -> Object:
    """The object as it would be stored. The argument is left alone."""
    new = copy(new)
    if kind.message:
        conform(new, kind.message)
    kind.defaults(new)
    kind.prepare(new, old)
    return new


def problems(kind: Kind, new: Object, old: Object | None = None) -> list[str]:
    """What is wrong with an object, as the error shows it. `old` is what a client once sent, too."""
    before = stored(kind, old) if old is not None else None
    found = kind.validate(stored(kind, new, before), before)
    return [f"{cause.field}: {cause.message}" for cause in found]
