"""No namespace gets more pods than its quotas allow, and at the end the quotas match usage.

Judged at the revision that makes a pod, by the pods and ResourceQuotas that are there by then. What was there before a
quota was made, or made smaller, may stay. Looked at are `pods` and `requests.cpu`, of quotas without scopes.
"""

from typing import TYPE_CHECKING, Final

from mainstay.api.pod_resources import count_requests, is_over
from mainstay.api.quantity import parse
from mainstay.server.quota.recount import find_quota_drift
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit
from mainstay.sim.cluster.history import Event, RevisionCommitted

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

NAME: Final = "quotas"
_PODS: Final = "core/pods/"
_QUOTAS: Final = "core/resourcequotas/"
_NANO: Final = 1_000_000_000


class QuotaChecker:
    name = NAME

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, int]] = {}  # By namespace and key: what each asks for, in thousandths of a CPU.
        self._quotas: dict[str, dict[str, dict[str, int]]] = {}  # By namespace and key: what each allows.

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted):
            return
        if event.key.startswith(_PODS):
            self._pod(event)
        elif event.key.startswith(_QUOTAS):
            there = self._quotas.setdefault(_parse_namespace(event.key), {})
            there.pop(event.key, None)
            if event.value is not None:
                spec = decode_commit(event.value)["spec"]
                hard = {} if spec.get("scopes") or spec.get("scopeSelector") else spec.get("hard") or {}
                there[event.key] = {name: _amount(name, text) for name, text in hard.items() if name in _LOOKED_AT}

    async def at_end(self, world: "World") -> None:
        if problem := await find_miscounts(world):
            raise Violated(self.name, problem)

    def _pod(self, event: RevisionCommitted) -> None:
        namespace = _parse_namespace(event.key)
        there = self._pods.setdefault(namespace, {})
        there.pop(event.key, None)
        pod = None if event.value is None else decode_commit(event.value)
        if pod is None or is_over(pod):
            return
        there[event.key] = count_requests(pod).get("cpu", 0)
        if event.previous is not None:
            return
        used = {"pods": len(there), "requests.cpu": sum(there.values())}
        for key, hard in self._quotas.get(namespace, {}).items():
            for name, most in hard.items():
                if used[name] > most:
                    text = f"{event.key} was created, so that {used[name]} of {name} are used, but {key} allows {most}"
                    raise Violated(self.name, text, [event])


_LOOKED_AT: Final = ("pods", "requests.cpu")


def _amount(name: str, text: str) -> int:
    value = parse(text).nano
    return value // _NANO if name == "pods" else value * 1000 // _NANO


def _parse_namespace(key: str) -> str:
    return key.split("/")[2]


async def find_miscounts(world: "World") -> str:
    """The first namespace of which a quota is not the sum of what is there; empty if there is none."""
    for entry in (await world.store.range("core/namespaces/")).entries:
        namespace = entry.key.rpartition("/")[2]
        drift = await find_quota_drift(world.store, namespace)
        if not drift.is_none:
            return f"the quotas of {namespace} do not match usage at the end: {drift}"
    return ""
