"""What may change about a pod once it is there: little, because it may be running."""

from typing import Any

import msgspec

from mainstay.api.errors import StatusCause, forbidden_value, invalid_value
from mainstay.api.kind import Object

_WORDS = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_CONTAINER_LISTS = ("containers", "initContainers")


def check_pod_update(new: Object, old: Object, causes: list[StatusCause]) -> None:
    """Compare two specs, of the pod as it would be and as it is."""
    if new == old:
        return
    for name in _CONTAINER_LISTS:
        if len(new.get(name) or ()) != len(old.get(name) or ()):
            causes.append(forbidden_value(f"spec.{name}", "pod updates may not add or remove containers"))
            return
    _check_deadline(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"), causes)
    _check_tolerations(new.get("tolerations") or [], old.get("tolerations") or [], causes)
    was_gated = bool(old.get("schedulingGates"))
    _check_gates(new.get("schedulingGates") or [], old.get("schedulingGates") or [], causes)
    changed = [key for key in sorted({*new, *old}) if new.get(key) != old.get(key)]
    fixed = [key for key in changed if not _may_change(key, new, old, was_gated)]
    if fixed:
        causes.append(forbidden_value("spec", f"{_WORDS}\n{_shown(fixed, new, old)}"))


def _may_change(key: str, new: Object, old: Object, was_gated: bool) -> bool:
    match key:
        case "containers" | "initContainers":
            return all(
                {**after, "image": ""} == {**before, "image": ""}
                for after, before in zip(new.get(key) or (), old.get(key) or (), strict=True)
            )
        case "activeDeadlineSeconds" | "tolerations" | "schedulingGates":
            return True  # Within limits, which have been looked at.
        case "terminationGracePeriodSeconds":
            return (old.get(key) or 0) < 0 and new.get(key) == 1
        case "nodeSelector":
            return was_gated and (old.get(key) or {}).items() <= (new.get(key) or {}).items()
        case "affinity":
            return was_gated
        case _:
            return False


def _check_deadline(new: int | None, old: int | None, causes: list[StatusCause]) -> None:
    if old is None or new == old:
        return
    if new is None:
        detail = "must not update from a positive integer to nil value"
        causes.append(invalid_value("spec.activeDeadlineSeconds", None, detail))
    elif new > old:
        causes.append(invalid_value("spec.activeDeadlineSeconds", new, "must be less than or equal to previous value"))


def _check_tolerations(new: list[Any], old: list[Any], causes: list[StatusCause]) -> None:
    if new == old:
        return
    there = [_but_seconds(each) for each in new]
    if any(_but_seconds(each) not in there for each in old):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        causes.append(forbidden_value("spec.tolerations", detail))


def _but_seconds(toleration: Object) -> Object:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _check_gates(new: list[Any], old: list[Any], causes: list[StatusCause]) -> None:
    before = {each.get("name") for each in old}
    for number, gate in enumerate(new):
        if gate.get("name") not in before:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            causes.append(forbidden_value(f"spec.schedulingGates[{number}].name", detail))


def _shown(fields: list[str], new: Object, old: Object) -> str:
    lines = []
    for field in fields:
        lines += [f'- "{field}": {_json(old.get(field))},', f'+ "{field}": {_json(new.get(field))},']
    return "\n".join(lines) + "\n"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
