"""What the server answers when a ResourceQuota does not allow a write: Kubernetes' words, and the same as codes.

`details.causes` of the Status says it for programs. The first cause has the code, `QuotaExceeded` or
`QuotaAmountMissing`, and in `field` the quota: `resourcequotas/small`. One more for each resource of which too little
is left has the code `QuotaRequested`, in `field` the resource, and as its message the bare amount that was requested.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from mainstay.api.causes import QUOTA_AMOUNT_MISSING, QUOTA_EXCEEDED, QUOTA_REQUESTED

_QUOTAS: Final = "resourcequotas/"


class QuotaRefusal(NamedTuple):
    quota: str
    """Its name, in the namespace of what was to be written."""
    message: str
    """In Kubernetes' words."""
    requested: Mapping[str, str]
    """How much of each resource of which too little is left. Empty: a container does not say how much it takes."""

    @property
    def causes(self) -> list[dict[str, str]]:
        """As the Status has them."""
        code = QUOTA_EXCEEDED if self.requested else QUOTA_AMOUNT_MISSING
        amounts = [
            {"reason": QUOTA_REQUESTED, "message": self.requested[name], "field": name} for name in self.requested
        ]
        return [{"reason": code, "message": self.message, "field": f"{_QUOTAS}{self.quota}"}, *amounts]


def build_exceeded(
    quota: str, requested: Mapping[str, object], used: Mapping[str, object], hard: Mapping[str, object]
) -> QuotaRefusal:
    """Too little is left of what is requested."""
    names = sorted(requested)
    text = f"requested: {_show(requested, names)}, used: {_show(used, names)}, limited: {_show(hard, names)}"
    amounts = {name: str(requested[name]) for name in names}
    return QuotaRefusal(quota, f"exceeded quota: {quota}, {text}", amounts)


def build_amount_missing(quota: str, missing: Mapping[str, Sequence[str]]) -> QuotaRefusal:
    """A quota counts resources of which these containers do not say how much they take."""
    return QuotaRefusal(quota, f"failed quota: {quota}: must specify {show_missing(missing)}", {})


def show_missing(missing: Mapping[str, Sequence[str]]) -> str:
    """Which containers have to say what: `limits.memory for: b,c; requests.cpu for: b`."""
    return "; ".join(f"{name} for: {','.join(missing[name])}" for name in missing)


def find_quota(causes: Iterable[tuple[str, str, str]]) -> tuple[str, str]:
    """What a refusal says, from the reason, field and message of its causes: the name of the quota, and what was
    requested of it as `requests.cpu=1,pods=1`. Both are empty if it is not by a quota."""
    quota, amounts = "", []
    for reason, field, message in causes:
        if reason in (QUOTA_EXCEEDED, QUOTA_AMOUNT_MISSING) and field.startswith(_QUOTAS):
            quota = field.removeprefix(_QUOTAS)
        elif reason == QUOTA_REQUESTED:
            amounts.append(f"{field}={message}")
    return quota, ",".join(amounts)


def _show(amounts: Mapping[str, object], names: Sequence[str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in names)
