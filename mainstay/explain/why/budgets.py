"""What to do about a disruption budget that allows nothing: waiting helps only if one of its pods is not ready."""

from mainstay.api.kind import Object
from mainstay.explain.why.found import NOTHING


def budget_advice(budget: Object) -> str:
    """Empty: that of the cause will do."""
    spec, status = budget.get("spec") or NOTHING, budget.get("status") or NOTHING
    healthy, expected = int(status.get("currentHealthy") or 0), int(status.get("expectedPods") or 0)
    if healthy < expected or int(status.get("disruptionsAllowed") or 0):
        return ""
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    so = "All its pods are healthy, so waiting does not help"
    if most is not None:
        return f"{so}: raise maxUnavailable, which is {most}."
    more = "" if least == "100%" else ", or add replicas"
    return f"{so}: lower minAvailable, which is {least}{more}."
