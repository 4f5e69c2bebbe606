"""What a Job's `podFailurePolicy` says about a pod that has failed: the first rule that fits it decides.

A rule is about exit codes or about conditions of the pod. Containers that have ended well do not count for `NotIn`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from mainstay.api.kind import Object


class FailureAction(StrEnum):
    """What to do. As upstream has it."""

    FAIL_JOB = "FailJob"
    FAIL_INDEX = "FailIndex"
    IGNORE = "Ignore"
    COUNT = "Count"


@dataclass(frozen=True, slots=True)
class MatchedRule:
    """One that fits."""

    action: FailureAction
    message: str


def rule_for(job: Object, pod: Object) -> MatchedRule | None:
    """The first rule that fits a pod; None: it is an ordinary failure. Only a pod that has failed has any."""
    policy = job["spec"].get("podFailurePolicy")
    if policy is None or (pod.get("status") or {}).get("phase") != "Failed":
        return None
    for number, rule in enumerate(policy.get("rules") or ()):
        try:
            action = FailureAction(rule.get("action", ""))
        except ValueError:
            continue  # Of a later version than ours. Upstream skips these as well.
        if action is FailureAction.FAIL_INDEX and job["spec"].get("backoffLimitPerIndex") is None:
            continue
        what = _fitting_exit(rule, pod) or _fitting_condition(rule, pod)
        if what:
            return MatchedRule(action, f"{what} matching {action} rule at index {number}")
    return None


def _fitting_exit(rule: Any, pod: Object) -> str:
    wanted = rule.get("onExitCodes")
    if not wanted:
        return ""
    metadata, status = pod["metadata"], pod.get("status") or {}
    for each in [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]:
        code = ((each.get("state") or {}).get("terminated") or {}).get("exitCode")
        if not code or wanted.get("containerName") not in (None, "", each.get("name")):
            continue
        if (code in (wanted.get("values") or ())) == (wanted.get("operator") == "In"):
            where = f"{metadata['namespace']}/{metadata['name']}"
            return f"Container {each.get('name')} for pod {where} failed with exit code {code}"
    return ""


def _fitting_condition(rule: Any, pod: Object) -> str:
    metadata = pod["metadata"]
    for wanted in rule.get("onPodConditions") or ():
        for each in (pod.get("status") or {}).get("conditions") or ():
            if each.get("type") == wanted.get("type") and each.get("status") == wanted.get("status", "True"):
                return f"Pod {metadata['namespace']}/{metadata['name']} has condition {each['type']}"
    return ""
