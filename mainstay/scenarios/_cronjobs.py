"""A controller of CronJobs: a small one, of the scenario's own, on the production runtime.

For each tick of a schedule there is one Job, named after the CronJob and the tick: a retry, after a crash
or as the next leader, meets it. Of ticks that were missed only the last is made up for, however many there were: it is
worked out from the present, and not by counting from the last one that ran. A tick that is not after the last one that
ran has had its turn, whatever the clock says now.

Schedules are `*/N * * * *` with an N that divides an hour; nothing else is understood.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from mainstay.api import pod_state
from mainstay.api.kind import Object, Propagation
from mainstay.api.kind_names import CRON_JOBS, JOBS
from mainstay.api.object_key import ObjectKey
from mainstay.api.times import format_time
from mainstay.client.errors import ApiError
from mainstay.client.indexes import OWNER
from mainstay.loop.controller import Controller, Reads, owner, reference_to
from mainstay.loop.decision import Action, Create, Decision, Delete, WakeAt
from mainstay.loop.freshness import Freshness
from mainstay.loop.view import View

TICK: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_START: Final = datetime(1970, 1, 1, tzinfo=UTC)


class CronJobController(Controller):
    name = "ticking"
    kind = CRON_JOBS
    reads = (Reads(JOBS, wakes=owner(CRON_JOBS), indexes=(OWNER,)),)
    writes = (JOBS,)

    def decide(self, view: View, key: ObjectKey, memory: Any) -> Decision:
        cron = view.get(CRON_JOBS, key)
        if cron is None or pod_state.is_leaving(cron):
            return Decision()
        old = _history(cron, view.owned_by(JOBS, cron["metadata"]["uid"]))
        if cron["spec"].get("suspend"):
            return Decision(old)
        every = read_period(cron)
        tick = due(read_last_tick(cron), view.now, every)
        again = WakeAt(latest(view.now, every) + every, "the next tick")
        if tick is None:
            return Decision(old, again)
        made = Create(JOBS, a_job(cron, tick))
        return Decision((made, *old), again, {"lastScheduleTime": format_time(tick)})

    def after_failure(self, decision: Decision, action: Action, error: ApiError) -> Decision:
        """Nothing was run that one could speak of; unless it was, and then the next look meets it."""
        return replace(decision, status={}) if isinstance(action, Create) else decision


def read_period(cron: Object) -> timedelta:
    minutes = str(cron["spec"]["schedule"]).split()[0].removeprefix("*").removeprefix("/")
    return timedelta(minutes=int(minutes or 1))


def read_last_tick(cron: Object) -> datetime:
    """The last tick that ran, or when there were none yet."""
    return pod_state.parse_time_or_none((cron.get("status") or {}).get("lastScheduleTime")) or pod_state.created_at(
        cron
    )


def latest(now: datetime, every: timedelta) -> datetime:
    """The last tick of a schedule that is not after a moment."""
    return _START + (now - _START) // every * every


def due(last: datetime, now: datetime, every: timedelta) -> datetime | None:
    """The tick that a Job has to be made for; None if there is none."""
    tick = latest(now, every)
    return tick if tick > last else None


def job_name(cron: Object, tick: datetime) -> str:
    return f"{cron['metadata']['name']}-{(tick - _START) // timedelta(minutes=1)}"


def a_job(cron: Object, tick: datetime) -> Object:
    metadata, template = cron["metadata"], cron["spec"]["jobTemplate"]
    return {
        "metadata": {
            "name": job_name(cron, tick),
            "namespace": metadata["namespace"],
            "annotations": {TICK: format_time(tick)},
            "ownerReferences": [reference_to(cron, CRON_JOBS)],
        },
        "spec": template["spec"],
    }


def _history(cron: Object, jobs: list[Object]) -> tuple[Delete, ...]:
    """Those that are done, but for the last few."""
    done = [job for job in jobs if _is_done(job) and not pod_state.is_leaving(job)]
    done.sort(key=lambda job: str(job["metadata"]["annotations"][TICK]))
    too_many = done[: max(0, len(done) - int(cron["spec"]["successfulJobsHistoryLimit"]))]
    found = []
    for job in too_many:
        metadata = job["metadata"]
        key = ObjectKey(metadata["namespace"], metadata["name"])
        found.append(Delete(JOBS, key, metadata["uid"], Propagation.BACKGROUND, freshness=Freshness.MAY_BE_STALE))
    return tuple(found)


def _is_done(job: Object) -> bool:
    condition = pod_state.find_condition(job, "Complete")
    return condition is not None and condition["status"] == "True"
