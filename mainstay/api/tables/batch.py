"""The rows of work that ends."""

from datetime import datetime

from mainstay.api.kind import Object
from mainstay.api.tables.fields import at, flag, has, is_true, moment, whole
from mainstay.api.tables.table import (
    AGE,
    NAME,
    age_at,
    count_at,
    filled,
    of,
    pod_columns,
    progress_columns,
    selector_column,
    table,
    text_at,
)
from mainstay.api.tables.texts import NONE, UNSET
from mainstay.api.times import age

_ENDS = ("Complete", "Failed")
_STAGES = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def _status(job: Object) -> str:
    """How it ended; else that it is being deleted; else what it is about to do."""
    ended = next((end for end in _ENDS if is_true(job, end)), "")
    if ended or has(job, "metadata.deletionTimestamp"):
        return ended or "Terminating"
    return next((stage for stage in _STAGES if is_true(job, stage)), "Running")


def _completions(job: Object) -> str:
    succeeded = whole(job, "status.succeeded")
    if has(job, "spec.completions"):
        return f"{succeeded}/{whole(job, 'spec.completions')}"
    # Any one success is enough, however many pods try.
    tries = whole(job, "spec.parallelism")
    return f"{succeeded}/1 of {tries}" if tries > 1 else f"{succeeded}/1"


def _duration(job: Object, now: datetime) -> str:
    started = moment(at(job, "status.startTime"))
    return "" if started is None else age(moment(at(job, "status.completionTime")) or now, started)


def _suspend(cron_job: Object) -> str:
    return str(flag(cron_job, "spec.suspend")) if has(cron_job, "spec.suspend") else UNSET


TABLES = {
    ("batch", "Job"): table(
        NAME,
        filled("Status", of(_status), "How it is doing, in a word."),
        filled("Completions", of(_completions), "How many pods have succeeded, of how many must."),
        filled("Duration", _duration, "How long it took, or has taken so far."),
        AGE,
        *pod_columns("spec.template"),
        selector_column("spec.selector"),
        *progress_columns(),
    ),
    ("batch", "CronJob"): table(
        NAME,
        filled("Schedule", text_at("spec.schedule"), "When it runs, in the form of cron."),
        filled("Timezone", text_at("spec.timeZone", NONE), "The zone that these times are in."),
        filled("Suspend", of(_suspend), "Whether it is held back.", holds="boolean"),
        filled("Active", count_at("status.active"), "How many jobs run now.", holds="integer"),
        filled("Last Schedule", age_at("status.lastScheduleTime", NONE), "When it last ran."),
        AGE,
        *pod_columns("spec.jobTemplate.spec.template"),
        selector_column("spec.jobTemplate.spec.selector"),
    ),
}
