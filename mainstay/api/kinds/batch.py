"""Job and CronJob."""

import re
from collections.abc import Sequence

from mainstay.api import kind_names
from mainstay.api.errors import StatusCause, invalid_value, not_supported, required
from mainstay.api.kind import STATUS, Object, Propagation
from mainstay.api.kinds.checks import check_immutable, check_not_negative, check_one_of, invalid_json, selects
from mainstay.api.kinds.declare import builtin, child, count_at, fill, own_status, set_status
from mainstay.api.kinds.pod_defaults import default_template
from mainstay.api.kinds.pod_spec import check_template
from mainstay.api.names import label_value
from mainstay.api.well_known_labels import JOB_NAME

_RESTART_POLICIES = ("OnFailure", "Never")
_CONCURRENCY = ("Allow", "Forbid", "Replace")
_CRON_NAME_LENGTH_MAX = 52  # Jobs are named after it, with 11 characters more.
_PARALLELISM_MAX_INDEXED = 100_000
_UID_LABEL = "batch.kubernetes.io/controller-uid"
_OLD_UID_LABEL = "controller-uid"
_OLDJOB_NAME = "job-name"
_GENERATED = (_UID_LABEL, JOB_NAME, _OLD_UID_LABEL, _OLDJOB_NAME)
# Fields of a suspended job's template that may still be changed, so that a queue can direct it.
_DIRECTED = ("nodeSelector", "affinity", "tolerations", "schedulingGates")


def _default_job(new: Object) -> None:
    spec = child(new, "spec")
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = spec["parallelism"] = 1
    fill(
        spec,
        parallelism=1,
        backoffLimit=6 if spec.get("backoffLimitPerIndex") is None else 2**31 - 1,
        completionMode="NonIndexed",
        suspend=False,
        manualSelector=False,
        podReplacementPolicy="TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed",
    )
    default_template(spec)


def _prepare_job(new: Object, old: Object | None) -> None:
    set_status(new, old)
    spec = new["spec"]
    if spec.get("manualSelector"):
        return
    if old is not None:
        _keep_generated(spec, old["spec"])
        return
    # The selector is made from the uid, so that no other job's pods can be taken for this one's.
    metadata = new["metadata"]
    uid, name = metadata["uid"], metadata.get("name", "")
    made = {_UID_LABEL: uid, JOB_NAME: name, _OLD_UID_LABEL: uid, _OLDJOB_NAME: name}
    template = spec["template"]["metadata"]
    template["labels"] = {**(template.get("labels") or {}), **made}
    own = metadata.get("labels") or {}
    if not own or own.get(_UID_LABEL) == uid:
        metadata["labels"] = {**own, **template["labels"]}
    selector = child(spec, "selector")
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), _UID_LABEL: uid}


def _keep_generated(spec: Object, was: Object) -> None:
    """Who replaces a job with the file it was made from does not know what has been generated since."""
    fill(spec, selector=was.get("selector"))
    there = was["template"]["metadata"].get("labels") or {}
    made = {key: there[key] for key in _GENERATED if key in there}
    template = spec["template"]["metadata"]
    template["labels"] = {**made, **(template.get("labels") or {})}


def _validate_job(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    spec = new["spec"]
    _check_job_spec(spec, "spec", causes)
    selector = spec.get("selector")
    if selector is None:
        causes.append(required("spec.selector"))
    else:
        labels = spec["template"]["metadata"].get("labels") or {}
        if not selects(selector, labels):
            detail = "`selector` does not match template `labels`"
            causes.append(invalid_json("spec.template.metadata.labels", labels, detail))
    if old is not None:
        _check_job_update(spec, old["spec"], old, causes)
    elif not spec.get("manualSelector"):
        name = new["metadata"].get("name") or ""
        causes += [invalid_value("spec.template.labels", name, problem) for problem in label_value(name)]
    return causes


def _check_job_update(spec: Object, was: Object, old: Object, causes: list[StatusCause]) -> None:
    if spec.get("completionMode") != "Indexed" or spec.get("completions") != spec.get("parallelism"):
        check_immutable(spec, was, "completions", "spec", causes)
    check_immutable(spec, was, "selector", "spec", causes)
    before = was["template"]
    if was.get("suspend") and not (old.get("status") or {}).get("startTime"):
        before = _directed(before, spec["template"])
    if spec["template"] != before:
        causes.append(invalid_json("spec.template", spec["template"], "field is immutable"))
    for field in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        check_immutable(spec, was, field, "spec", causes)


def _directed(template: Object, by: Object) -> Object:
    """A template with the fields of another one that a queue may set."""
    spec = {key: value for key, value in template["spec"].items() if key not in _DIRECTED}
    spec |= {key: by["spec"][key] for key in _DIRECTED if key in by["spec"]}
    return {"metadata": by["metadata"], "spec": spec}


def _check_job_spec(spec: Object, path: str, causes: list[StatusCause]) -> None:
    for field in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"):
        check_not_negative(spec, field, path, causes)
    check_not_negative(spec, "backoffLimitPerIndex", path, causes)
    mode = spec.get("completionMode")
    if mode is not None:
        check_one_of(spec, "completionMode", ("Indexed", "NonIndexed"), path, causes)
    if mode == "Indexed":
        if spec.get("completions") is None:
            causes.append(required(f"{path}.completions", "when completion mode is Indexed"))
        if (spec.get("parallelism") or 0) > _PARALLELISM_MAX_INDEXED:
            detail = f"must be less than or equal to {_PARALLELISM_MAX_INDEXED} when completion mode is Indexed"
            causes.append(invalid_value(f"{path}.parallelism", spec["parallelism"], detail))
    elif spec.get("backoffLimitPerIndex") is not None:
        detail = "requires indexed completion mode"
        causes.append(invalid_value(f"{path}.backoffLimitPerIndex", spec["backoffLimitPerIndex"], detail))
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy")
    check_template(spec, path, causes, (*_RESTART_POLICIES, "Always") if policy == "Always" else _RESTART_POLICIES)
    if policy == "Always":
        # A pod by itself may say so; one that is to come to an end may not.
        where = f"{path}.template.spec.restartPolicy"
        causes.append(required(where, 'valid values: "OnFailure", "Never"'))


def _default_cron_job(new: Object) -> None:
    spec = child(new, "spec")
    if not spec.get("concurrencyPolicy"):
        spec["concurrencyPolicy"] = "Allow"
    fill(spec, suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    job = child(spec, "jobTemplate")
    child(job, "metadata")
    default_template(child(job, "spec"))


def _validate_cron_job(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    name = new["metadata"].get("name") or ""
    if old is None and len(name) > _CRON_NAME_LENGTH_MAX:
        detail = f"must be no more than {_CRON_NAME_LENGTH_MAX} characters"
        causes.append(invalid_value("metadata.name", name, detail))
    spec = new["spec"]
    schedule = spec.get("schedule")
    if not schedule:
        causes.append(required("spec.schedule"))
    else:
        problem = schedule_problem(schedule)
        if problem:
            causes.append(invalid_value("spec.schedule", schedule, problem))
        if "TZ" in schedule and (old is None or old["spec"].get("schedule") != schedule):
            detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            causes.append(invalid_value("spec.schedule", schedule, detail))
    zone = spec.get("timeZone")
    if zone is not None and not re.fullmatch(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*", zone):
        causes.append(invalid_value("spec.timeZone", zone, f"unknown time zone {zone}"))
    for field in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        check_not_negative(spec, field, "spec", causes)
    policy = spec.get("concurrencyPolicy")
    if policy not in _CONCURRENCY:
        causes.append(not_supported("spec.concurrencyPolicy", policy, _CONCURRENCY))
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    if job.get("manualSelector"):
        causes.append(not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false")))
    _check_job_spec(job, "spec.jobTemplate.spec", causes)
    return causes


_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")),
    ("day of week", 0, 6, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)
_NICKNAMES = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")


def schedule_problem(schedule: str) -> str:
    """What is wrong with a cron schedule; empty if nothing is."""
    text = re.sub(r"^(CRON_)?TZ=\S+\s+", "", schedule.strip())
    if text.startswith("@"):
        is_known = text in _NICKNAMES or re.fullmatch(r"@every ([0-9.]+(ns|us|µs|ms|s|m|h))+", text)
        return "" if is_known else f"unrecognized descriptor: {text}"
    parts = text.split()
    if len(parts) != len(_FIELDS):
        return f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]"
    for part, (_, low, high, words) in zip(parts, _FIELDS, strict=True):
        for item in part.split(","):
            problem = _item_problem(item, low, high, words)
            if problem:
                return problem
    return ""


def _item_problem(item: str, low: int, high: int, words: tuple[str, ...]) -> str:
    span, slash, step = item.partition("/")
    if "/" in step:
        return f"too many slashes: {item}"
    if slash and not step.isdecimal():
        return f'failed to parse int from {step}: strconv.Atoi: parsing "{step}": invalid syntax'
    if slash and int(step) == 0:
        return f"step of range should be a positive number: {item}"
    if span in ("*", "?"):
        return ""
    ends = span.split("-")
    if len(ends) > 2:
        return f"too many hyphens: {item}"
    numbers = []
    for end in ends:
        if end.lower() in words:
            numbers.append(words.index(end.lower()) + low)
        elif end.isdecimal():
            numbers.append(int(end))
        else:
            return f'failed to parse int from {end}: strconv.Atoi: parsing "{end}": invalid syntax'
    if numbers[0] < low:
        return f"beginning of range ({numbers[0]}) below minimum ({low}): {item}"
    if numbers[-1] > high:
        return f"end of range ({numbers[-1]}) above maximum ({high}): {item}"
    if numbers[0] > numbers[-1]:
        return f"beginning of range ({numbers[0]}) beyond end of range ({numbers[-1]}): {item}"
    return ""


JOB = builtin(
    kind_names.JOBS,
    categories=("all",),
    subresources=(STATUS,),
    selectable={"status.successful": count_at("status", "succeeded")},
    defaults=_default_job,
    prepare=_prepare_job,
    validate=_validate_job,
    default_propagation=Propagation.ORPHAN,
)

CRON_JOB = builtin(
    kind_names.CRON_JOBS,
    short_names=("cj",),
    categories=("all",),
    subresources=(STATUS,),
    defaults=_default_cron_job,
    prepare=own_status(),
    validate=_validate_cron_job,
)

KINDS = (JOB, CRON_JOB)
