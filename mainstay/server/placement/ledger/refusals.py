"""How a binding is refused: with a cause that a scheduler can act on, and words that say what is missing."""

import msgspec

from mainstay.api.causes import BindingCause
from mainstay.api.errors import StatusError, StatusReason
from mainstay.api.pod_resources import CPU, EPHEMERAL_STORAGE, HUGE_PAGES, MEMORY

_KI = 1024
_IN_BYTES = (MEMORY, EPHEMERAL_STORAGE)


class LedgerRefusal(msgspec.Struct, frozen=True):
    """An expected no."""

    cause: BindingCause
    message: str


def refused(name: str, refusal: LedgerRefusal) -> StatusError:
    """The refusal of a binding of the pod `name`, as an answer."""
    text = f'Operation cannot be fulfilled on pods/binding "{name}": {refusal.message}'
    causes = [{"reason": str(refusal.cause), "message": refusal.message}]
    return StatusError(409, StatusReason.CONFLICT, text, {"name": name, "kind": "pods/binding", "causes": causes})


def shown(resource: str, amount: int) -> str:
    """An amount in base units, as people write it: 1500m, 2Gi, 3."""
    if resource == CPU:
        return f"{amount // 1000}" if amount % 1000 == 0 else f"{amount}m"
    if resource in _IN_BYTES or resource.startswith(HUGE_PAGES):
        for unit in ("", "Ki", "Mi", "Gi"):
            if not amount or amount % _KI or unit == "Gi":
                return f"{amount}{unit}"
            amount //= _KI
    return str(amount)
