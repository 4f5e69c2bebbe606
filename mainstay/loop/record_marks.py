"""What a record says of its subject, for the rules of sampling (journal/sampling.py) to tell what is worth keeping."""

from typing import Any, NamedTuple

from mainstay.api.kind import Object


class Marks(NamedTuple):
    """Fields of a `DecisionRecord`, by the same names."""

    priority: int = 0
    priority_class: str = ""
    is_rolling_out: bool = False


NO_MARKS = Marks()


def read_marks(subject: Object | None) -> Marks:
    """The marks of an object, of whatever kind; none for one that is gone."""
    if subject is None:
        return NO_MARKS
    spec = subject.get("spec")
    if not isinstance(spec, dict):
        return NO_MARKS
    priority = spec.get("priority")
    name = spec.get("priorityClassName") or _of_template(spec)
    return Marks(
        priority if isinstance(priority, int) else 0,
        name if isinstance(name, str) else "",
        _is_rolling_out(subject["metadata"], spec, subject.get("status")),
    )


def _of_template(spec: dict[str, Any]) -> Any:
    template = spec.get("template")
    inner = template.get("spec") if isinstance(template, dict) else None
    return inner.get("priorityClassName") if isinstance(inner, dict) else ""


def _is_rolling_out(metadata: dict[str, Any], spec: dict[str, Any], status: Any) -> bool:
    """Only of a kind that says which generation it has observed: before it does, or while it has replicas to update."""
    if "template" not in spec:
        return False
    said = status if isinstance(status, dict) else {}
    if said.get("observedGeneration", 0) != metadata.get("generation", 0):
        return True
    updated = said.get("updatedReplicas")
    return isinstance(updated, int) and updated < (spec.get("replicas") or 0)
