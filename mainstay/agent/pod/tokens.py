"""Tokens of the service accounts of pods, for their projected volumes: requested, kept, and rotated.

A token is bound to its pod, so that it ends with it, and is for one audience and one lifetime: what a volume's source
asks for (`TokenNeed`). Like the kubelet, the agent requests a new one when 80 % of the lifetime are over, or after 24
hours. Volumes are brought up to date every minute (worker.py), and the shortest lifetime is ten minutes, so the new
token is there in time. If the server cannot be reached, the old one stays in use for as long as it is valid.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.client.client import Client
from mainstay.client.errors import ApiError
from mainstay.env import Clock

LIFETIME_S_DEFAULT: Final = 3600
ROTATED_AFTER_PART: Final = 0.8
ROTATED_AFTER_MAX: Final = timedelta(hours=24)

_NOTHING: Final[Mapping[str, Any]] = {}
_DAY_S: Final = ROTATED_AFTER_MAX.total_seconds()


@dataclass(frozen=True, slots=True, order=True)
class TokenNeed:
    """What a source of a projected volume asks for."""

    audience: str
    """Empty: the API server."""
    lifetime_s: int


Tokens = Mapping[TokenNeed, str]


def read_token_need(source: Mapping[str, Any]) -> TokenNeed:
    """The need of a `serviceAccountToken` source."""
    return TokenNeed(source.get("audience") or "", int(source.get("expirationSeconds") or LIFETIME_S_DEFAULT))


def find_token_needs(pod: Object) -> list[TokenNeed]:
    """The tokens that the volumes of a pod ask for, each once, sorted."""
    return sorted(set(_token_needs(pod)))


def _token_needs(pod: Object) -> Iterator[TokenNeed]:
    for volume in (pod.get("spec") or _NOTHING).get("volumes") or ():
        for source in (volume.get("projected") or _NOTHING).get("sources") or ():
            if (wanted := source.get("serviceAccountToken")) is not None:
                yield read_token_need(wanted)


@dataclass(frozen=True, slots=True)
class _HeldToken:
    text: str
    rotate_at_ns: int
    ends_at_ns: int


class PodTokens:
    """The tokens of the pods of one node."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._held: dict[str, dict[TokenNeed, _HeldToken]] = {}

    async def collect(self, pod: Object) -> Tokens:
        """What the volumes of a pod ask for. Raises `ApiError` if one cannot be had, and there is no older one."""
        needs = find_token_needs(pod)
        if not needs:
            return {}
        held = self._held.setdefault(pod["metadata"]["uid"], {})
        for need in needs:
            now_ns = self._clock.monotonic_ns()
            before = held.get(need)
            if before is not None and now_ns < before.rotate_at_ns:
                continue
            try:
                held[need] = await self._request(pod, need, now_ns)
            except ApiError:
                if before is None or now_ns >= before.ends_at_ns:
                    raise
        return {need: held[need].text for need in needs}

    def forget(self, uid: str) -> None:
        self._held.pop(uid, None)

    async def _request(self, pod: Object, need: TokenNeed, now_ns: int) -> _HeldToken:
        metadata, spec = pod["metadata"], pod["spec"]
        bound = {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
        wanted: Object = {"expirationSeconds": need.lifetime_s, "boundObjectRef": bound}
        if need.audience:
            wanted["audiences"] = [need.audience]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": wanted}
        account = spec.get("serviceAccountName") or "default"
        path = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account}/token"
        answer = msgspec.json.decode((await self._client.request("POST", path, body=body)).body)
        lifetime_s = int((answer.get("spec") or _NOTHING).get("expirationSeconds") or need.lifetime_s)
        # Counted from before the request: by our clock the token ends no later than by the server's.
        rotate_after_s = min(lifetime_s * ROTATED_AFTER_PART, _DAY_S)
        text = str(answer["status"]["token"])
        return _HeldToken(text, now_ns + int(rotate_after_s * 1e9), now_ns + int(lifetime_s * 1e9))
