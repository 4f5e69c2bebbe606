"""What all workloads have in common: a selector and a template, which must fit together."""

from mainstay.api.errors import StatusCause, forbidden_value, required
from mainstay.api.kind import Object
from mainstay.api.kinds.checks import (
    check_immutable,
    check_not_negative,
    check_selector,
    invalid_json,
    is_empty_selector,
    selects,
)
from mainstay.api.kinds.pod_spec import check_template

_ONLY_ALWAYS = ("Always",)


def check_workload(new: Object, old: Object | None, causes: list[StatusCause], kind_in_words: str) -> None:
    """A workload that keeps its pods running: selector, template, and replicas if it has them."""
    spec = new.get("spec") or {}
    selector = spec.get("selector")
    if old is not None:
        check_immutable(spec, old.get("spec") or {}, "selector", "spec", causes)
    check_not_negative(spec, "replicas", "spec", causes)
    check_not_negative(spec, "minReadySeconds", "spec", causes)
    check_not_negative(spec, "revisionHistoryLimit", "spec", causes)
    if selector is None:
        causes.append(required("spec.selector"))
    else:
        found = len(causes)
        check_selector(selector, "spec.selector", causes)
        if is_empty_selector(selector):
            detail = f"empty selector is invalid for {kind_in_words}"
            causes.append(invalid_json("spec.selector", selector, detail))
        if len(causes) == found:
            labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
            if not selects(selector, labels):
                detail = "`selector` does not match template `labels`"
                causes.append(invalid_json("spec.template.metadata.labels", labels, detail))
    if spec.get("template") is None:
        causes.append(required("spec.template"))
        return
    check_template(spec, "spec", causes, _ONLY_ALWAYS)
    if (spec["template"].get("spec") or {}).get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {kind_in_words} is not Supported"
        causes.append(forbidden_value("spec.template.spec.activeDeadlineSeconds", detail))
