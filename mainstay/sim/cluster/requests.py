"""What a request to a simulated server is about, from its method and path alone."""

from typing import Final

import msgspec

from mainstay.sim.cluster.history import RequestReceived

_NEVER_ENDING: Final = ("/leases", "/componentstates", "/events")
_VERSIONED: Final = {"api": 2, "apis": 3}


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    generate_name: str = ""


class _Named(msgspec.Struct, gc=False):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_decode = msgspec.json.Decoder(_Named).decode


def is_heartbeat(asked: RequestReceived) -> bool:
    """Whether it is of those that never end, and on which no rest depends: leases, what components say of themselves,
    and Events."""
    return any(part in asked.path for part in _NEVER_ENDING)


def find_prefix(path: str) -> str:
    """How the keys of the kind begin that a path is about: `apps/deployments/`. Empty if it is about none."""
    parts = path.partition("?")[0].strip("/").split("/")
    begins = _VERSIONED.get(parts[0])
    if begins is None or len(parts) <= begins:
        return ""
    rest = parts[begins:]
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    return f"{parts[1] if parts[0] == 'apis' else 'core'}/{rest[0]}/"


def describe_request(asked: RequestReceived) -> str:
    """The request in words that two runs share: method and path, and of what is made, the name."""
    path = asked.path.partition("?")[0]
    if asked.method != "POST":
        return f"{asked.method} {path}"
    try:
        metadata = _decode(asked.body).metadata
    except (msgspec.MsgspecError, ValueError):
        return f"POST {path}"
    name = metadata.name or (f"{metadata.generate_name}*" if metadata.generate_name else "")
    return f"POST {path}/{name}" if name else f"POST {path}"
