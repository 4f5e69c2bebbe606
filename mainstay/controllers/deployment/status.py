"""What a Deployment says about its rollout: counts, `Available`, `Progressing`, `ReplicaFailure`. Upstream's words.

`Progressing` also is the memory of the progress deadline. Its `lastUpdateTime` is when something last moved; when
nothing has for `progressDeadlineSeconds`, it becomes False with `ProgressDeadlineExceeded`, and stays so until
something moves again. A rollout that is complete has no deadline any more, and neither has one that is paused or held.

The condition names the ReplicaSet that it is about. When that is not the new one, because the template was changed
or taken back meanwhile, the deadline starts again: a rollback is not late because what it undoes was.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from mainstay.api import pod_state, times
from mainstay.api.holds import HoldReason, ParsedHold
from mainstay.api.kind import Object
from mainstay.api.progress import read_progress
from mainstay.controllers.deployment.rolling import Bounds
from mainstay.loop.conditions import Truth

AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
REPLICA_FAILURE: Final = "ReplicaFailure"
SET: Final = "replicaSet"
"""A field of the condition `Progressing`: the set that it is about."""

PAUSED: Final = "DeploymentPaused"
RESUMED: Final = "DeploymentResumed"
CREATED: Final = "NewReplicaSetCreated"
FOUND: Final = "FoundNewReplicaSet"
UPDATED: Final = "ReplicaSetUpdated"
COMPLETE: Final = "NewReplicaSetAvailable"
TIMED_OUT: Final = "ProgressDeadlineExceeded"
CREATE_FAILED: Final = "ReplicaSetCreateError"
HELD: Final = HoldReason.ROLLOUT_HELD
HELD_NO_LONGER: Final = HoldReason.ROLLOUT_RESUMED

_WITHOUT_DEADLINE: Final = (COMPLETE, TIMED_OUT, PAUSED, HELD)
NO_DEADLINE: Final = 2**31 - 1
_A_LITTLE_LATER: Final = timedelta(seconds=1)  # Times in conditions are whole seconds.


@dataclass(frozen=True, slots=True)
class DeploymentStatus:
    status: dict[str, Any]
    """Fields of the status; None removes one."""
    is_complete: bool
    """Every pod is of the new template, and available."""
    wake_at: datetime | None
    """When the deadline has to be looked at."""


class Conditions:
    """A list of conditions in the making. What is put in as it is there already stays untouched."""

    def __init__(self, deployment: Object, now: datetime) -> None:
        self._found: list[dict[str, Any]] = [dict(each) for each in _status(deployment).get("conditions") or ()]
        self._now = times.format_time(now)

    def get(self, name: str) -> dict[str, Any] | None:
        return next((each for each in self._found if each.get("type") == name), None)

    def put(
        self,
        name: str,
        status: str,
        reason: str,
        message: str,
        *,
        cause: str = "",
        about: str = "",
        is_news: bool = False,
    ) -> None:
        """`about`: the ReplicaSet. `is_news`: write when it was last said even if the same was said before."""
        old = self.get(name)
        if old is not None and (old.get("status"), old.get("reason")) == (status, reason) and not is_news:
            return
        since = self._now if old is None or old.get("status") != status else old.get("lastTransitionTime", self._now)
        self.remove(name)
        self._found.append(
            {
                "type": name,
                "status": str(status),
                "lastUpdateTime": self._now,
                "lastTransitionTime": since,
                "reason": reason,
                "message": message,
                **({"cause": cause} if cause else {}),
                **({SET: about} if about else {}),
            }
        )

    def remove(self, name: str) -> None:
        self._found = [each for each in self._found if each.get("type") != name]

    def all(self) -> list[dict[str, Any]]:
        return self._found


def has_deadline(deployment: Object) -> bool:
    seconds = deployment["spec"].get("progressDeadlineSeconds")
    return seconds is not None and seconds != NO_DEADLINE


def is_timed_out(deployment: Object, new: Object) -> bool:
    """Whether it was said that the rollout to this set is late."""
    condition = pod_state.find_condition(deployment, PROGRESSING)
    return condition is not None and condition.get("reason") == TIMED_OUT and _is_about(condition, new)


def said(
    deployment: Object,
    new: Object | None,
    old: Sequence[Object],
    bounds: Bounds,
    now: datetime,
    *,
    collisions: int = 0,
    is_rolling: bool = True,
    created: str = "",
    held: ParsedHold | None = None,
) -> DeploymentStatus:
    """The status of a Deployment. `created`: a new set of this name is being made. Not `is_rolling`: it is paused or
    held, or only its size changes."""
    counts = _counts(deployment, new, old)
    is_complete = _is_complete(deployment, counts)
    conditions = Conditions(deployment, now)
    _say_available(conditions, counts, bounds)
    if held is not None:
        _say_held(conditions, held)
    else:
        _say_paused(conditions, deployment)
    if not has_deadline(deployment) and held is None:
        conditions.remove(PROGRESSING)
    elif is_rolling and held is None:
        _say_progress(conditions, deployment, new, counts, is_complete, created, now)
    _say_failures(conditions, new, old)
    written: dict[str, Any] = {name: count or None for name, count in counts.items()}
    written["terminatingReplicas"] = counts["terminatingReplicas"]
    written["observedGeneration"] = deployment["metadata"].get("generation", 0)
    written["collisionCount"] = collisions or None
    written["conditions"] = conditions.all()
    return DeploymentStatus(
        written, is_complete, _deadline(conditions, deployment) if is_rolling and not is_complete else None
    )


def _counts(deployment: Object, new: Object | None, old: Sequence[Object]) -> dict[str, int]:
    sets = [*old, *([] if new is None else [new])]
    available = sum(_count(each, "availableReplicas") for each in sets)
    return {
        "replicas": sum(_count(each, "replicas") for each in sets),
        "updatedReplicas": 0 if new is None else _count(new, "replicas"),
        "readyReplicas": sum(_count(each, "readyReplicas") for each in sets),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(int(each["spec"].get("replicas", 1)) for each in sets) - available),
        "terminatingReplicas": sum(_count(each, "terminatingReplicas") for each in sets),
    }


def _is_complete(deployment: Object, counts: dict[str, int]) -> bool:
    wanted = int(deployment["spec"].get("replicas", 1))
    return counts["updatedReplicas"] == counts["replicas"] == counts["availableReplicas"] == wanted


def _say_available(conditions: Conditions, counts: dict[str, int], bounds: Bounds) -> None:
    if counts["availableReplicas"] >= bounds.least:
        text = "Deployment has minimum availability."
        conditions.put(AVAILABLE, Truth.TRUE, "MinimumReplicasAvailable", text)
    else:
        text = "Deployment does not have minimum availability."
        conditions.put(AVAILABLE, Truth.FALSE, "MinimumReplicasUnavailable", text)


def _say_held(conditions: Conditions, held: ParsedHold) -> None:
    """Also without a deadline: no other condition would say why nothing moves."""
    before = conditions.get(PROGRESSING)
    if before is not None and before.get("reason") == TIMED_OUT:
        return  # That it was late is worth more.
    text = f"Rollout is held by Hold {held.name}: {held.words}"
    conditions.put(PROGRESSING, Truth.UNKNOWN, HELD, text, is_news=before is not None and before.get("message") != text)


def _say_paused(conditions: Conditions, deployment: Object) -> None:
    if not has_deadline(deployment):
        return
    condition = conditions.get(PROGRESSING)
    reason = condition.get("reason") if condition is not None else None
    if reason == TIMED_OUT:
        return  # That it was late is worth more.
    if deployment["spec"].get("paused"):
        conditions.put(PROGRESSING, Truth.UNKNOWN, PAUSED, "Deployment is paused")
    elif reason == PAUSED:
        conditions.put(PROGRESSING, Truth.UNKNOWN, RESUMED, "Deployment is resumed")
    elif reason == HELD:
        conditions.put(PROGRESSING, Truth.UNKNOWN, HELD_NO_LONGER, "Rollout is no longer held")


def _say_progress(
    conditions: Conditions,
    deployment: Object,
    new: Object | None,
    counts: dict[str, int],
    is_complete: bool,
    created: str,
    now: datetime,
) -> None:
    if created:
        text = f'Created new replica set "{created}"'
        conditions.put(PROGRESSING, Truth.TRUE, CREATED, text, about=created, is_news=True)
        return
    current = conditions.get(PROGRESSING)
    if new is not None and (current is None or not _is_about(current, new)):
        text = f'Found new replica set "{new["metadata"]["name"]}"'
        conditions.put(PROGRESSING, Truth.TRUE, FOUND, text, about=new["metadata"]["name"], is_news=True)
        current = conditions.get(PROGRESSING)
    if current is not None and current["reason"] == COMPLETE and counts["replicas"] == counts["updatedReplicas"]:
        return  # It is done. More replicas, or one that falls ill, do not make it a rollout again.
    about = "" if new is None else new["metadata"]["name"]
    what = f'ReplicaSet "{about}"' if about else f'Deployment "{deployment["metadata"]["name"]}"'
    if is_complete:
        conditions.put(PROGRESSING, Truth.TRUE, COMPLETE, f"{what} has successfully progressed.", about=about)
    elif _has_moved(deployment, counts):
        conditions.put(PROGRESSING, Truth.TRUE, UPDATED, f"{what} is progressing.", about=about, is_news=True)
    elif (at := _deadline(conditions, deployment)) is not None and at <= now:
        conditions.put(
            PROGRESSING, Truth.FALSE, TIMED_OUT, f"{what} has timed out progressing{_limit(new)}.", about=about
        )


def _limit(new: Object | None) -> str:
    """What the record of the new set says stands in its way, if it says so."""
    progress = None if new is None else read_progress(new)
    return "" if progress is None or progress.limited_by is None else f": {progress.limited_by.words}".rstrip(".")


def _has_moved(deployment: Object, counts: dict[str, int]) -> bool:
    """More of the new, fewer of the old, or more that work, than was said before."""
    before = _status(deployment)
    replicas, updated = int(before.get("replicas") or 0), int(before.get("updatedReplicas") or 0)
    return (
        counts["updatedReplicas"] > updated
        or counts["replicas"] - counts["updatedReplicas"] < replicas - updated
        or counts["readyReplicas"] > int(before.get("readyReplicas") or 0)
        or counts["availableReplicas"] > int(before.get("availableReplicas") or 0)
    )


def _deadline(conditions: Conditions, deployment: Object) -> datetime | None:
    """When the rollout is late if nothing moves until then; None if it cannot be late, or is."""
    condition = conditions.get(PROGRESSING)
    if condition is None or not has_deadline(deployment) or condition.get("reason") in _WITHOUT_DEADLINE:
        return None
    since = pod_state.parse_time_or_none(condition.get("lastUpdateTime")) or pod_state.parse_time_or_none(
        condition.get("lastTransitionTime")
    )
    if since is None:
        return None
    return since + timedelta(seconds=deployment["spec"]["progressDeadlineSeconds"]) + _A_LITTLE_LATER


def _is_about(condition: Any, new: Object) -> bool:
    """Whether it is not about another set. Version 0.1 did not say which one was late: that is found out again."""
    if SET not in condition:
        return bool(condition.get("reason") != TIMED_OUT)
    return bool(condition[SET] == new["metadata"]["name"])


def _say_failures(conditions: Conditions, new: Object | None, old: Sequence[Object]) -> None:
    for each in ([] if new is None else [new], old):
        for replica_set in each:
            failure = pod_state.find_condition(replica_set, REPLICA_FAILURE)
            if failure is not None:
                text = str(failure.get("message", ""))
                before = conditions.get(REPLICA_FAILURE)
                reason, cause = str(failure.get("reason", "")), str(failure.get("cause") or "")
                is_news = before is not None and (before.get("message"), before.get("cause") or "") != (text, cause)
                conditions.put(REPLICA_FAILURE, str(failure.get("status")), reason, text, cause=cause, is_news=is_news)
                return
    conditions.remove(REPLICA_FAILURE)


def _status(deployment: Object) -> Object:
    found: Object = deployment.get("status") or {}
    return found


def _count(replica_set: Object, name: str) -> int:
    return int((replica_set.get("status") or {}).get(name) or 0)
