"""How a container has ended so far, by all versions of its pod that the journal has: whether that is a crash loop.

A restart is not a crash. A container that has done its work, that was asked to end (by its agent, when the node was
stopped), or whose end was not seen, has not failed; and one that ran for long before it failed does not loop.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS
from mainstay.api.pod_state import parse_time_or_none
from mainstay.explain.why.case import Case
from mainstay.explain.why.found import NOTHING

START_ERROR: Final = "StartError"
"""The reason of an attempt whose command was never executed."""
RESTARTED_LATELY: Final = timedelta(minutes=10)
"""A run that lasted so long stands for itself: what was before it is another story."""
LONGER: Final = 3
"""A container that has run so many times as long as it did before its last end is taken to be cured."""
LASTING_MIN: Final = timedelta(seconds=30)
OFTEN: Final = 2

_TERM: Final = 15
_BY_SIGNAL: Final = 128
_NOT_ITS_OWN: Final = frozenset({"Fenced", "ContainerStatusUnknown"})


@dataclass(frozen=True, slots=True)
class Ends:
    """The ends of one container, the latest last."""

    ends: tuple[Mapping[str, Any], ...]
    is_complete: bool
    """Each restart that is counted is among them."""

    @property
    def last(self) -> Mapping[str, Any]:
        return self.ends[-1] if self.ends else NOTHING

    def in_a_row(self, *, only_failures: bool = True) -> tuple[Mapping[str, Any], ...]:
        """The last of them, back to one that was no failure: each a failure after a short time."""
        found: list[Mapping[str, Any]] = []
        for each in reversed(self.ends):
            if only_failures and not has_failed(each):
                break
            found.append(each)
            if _lasted(each) >= RESTARTED_LATELY:
                break
        return tuple(reversed(found))

    @property
    def fails_often(self) -> bool:
        """Whether it has failed several times, one soon after the other."""
        row = self.in_a_row()
        if not row or _lasted(row[-1]) >= RESTARTED_LATELY:
            return False
        # Of ends that the journal does not have, it is taken that they were like those after them.
        return len(row) >= OFTEN or (len(row) == len(self.ends) and not self.is_complete)

    def since(self, *, only_failures: bool = True) -> datetime | None:
        """The first of those in a row."""
        row = self.in_a_row(only_failures=only_failures)
        return parse_time_or_none(row[0].get("finishedAt")) if row else None


async def find_ends(case: Case, pod: Object, name: str) -> Ends:
    """All ends of a container that the versions of its pod tell of."""
    metadata = pod["metadata"]
    versions = await case.versions(PODS.text, metadata.get("namespace") or "", metadata["name"])
    uid = metadata.get("uid")
    all_of_it = [*(each.before for each in versions[:1]), *(each.after for each in versions), pod]
    found: dict[str, Mapping[str, Any]] = {}
    for each in all_of_it:
        if each is None or each["metadata"].get("uid") != uid:
            continue
        for ended in _ends_in(each, name):
            found[str(ended.get("finishedAt") or "")] = ended
    ordered = tuple(found[at] for at in sorted(found))
    status = next((each for each in list_container_statuses(pod) if each.get("name") == name), NOTHING)
    has_ended = bool((status.get("state") or NOTHING).get("terminated"))
    return Ends(ordered, is_complete=len(ordered) >= int(status.get("restartCount") or 0) + has_ended)


def list_container_statuses(pod: Object) -> list[Mapping[str, Any]]:
    status = pod.get("status") or NOTHING
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def has_failed(ended: Mapping[str, Any]) -> bool:
    """Whether a container ended by its own fault, as far as that is to be seen from how it ended."""
    code, signal = int(ended.get("exitCode") or 0), int(ended.get("signal") or 0)
    was_asked = signal == _TERM or code == _BY_SIGNAL + _TERM
    return code != 0 and not was_asked and ended.get("reason") not in _NOT_ITS_OWN


def is_shaky(status: Mapping[str, Any], now: datetime) -> bool:
    """Whether a container was restarted not long ago, and has not shown since that it lasts longer than before."""
    last: Mapping[str, Any] = (status.get("lastState") or NOTHING).get("terminated") or NOTHING
    began, ended = parse_time_or_none(last.get("startedAt")), parse_time_or_none(last.get("finishedAt"))
    if ended is None or not int(status.get("restartCount") or 0) or now - ended > RESTARTED_LATELY:
        return False
    started = parse_time_or_none(((status.get("state") or NOTHING).get("running") or NOTHING).get("startedAt"))
    if began is None or started is None:
        return True
    return now - started < max(LONGER * (ended - began), LASTING_MIN)


def _ends_in(pod: Object, name: str) -> Iterable[Mapping[str, Any]]:
    for status in list_container_statuses(pod):
        if status.get("name") == name:
            for when in ("lastState", "state"):
                if ended := (status.get(when) or NOTHING).get("terminated"):
                    yield ended


def _lasted(ended: Mapping[str, Any]) -> timedelta:
    began, over = parse_time_or_none(ended.get("startedAt")), parse_time_or_none(ended.get("finishedAt"))
    return timedelta() if began is None or over is None else over - began
