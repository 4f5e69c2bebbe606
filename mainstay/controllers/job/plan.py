"""How a Job takes part in a plan: only so many pods at a time, and none of them ever ends."""

from collections.abc import Sequence
from typing import Final

from mainstay.api.kind import Object
from mainstay.controllers.job.controller import Jobs
from mainstay.explain.registry import PlanRoom


def _wanted(job: Object) -> int:
    spec = job.get("spec") or {}
    if spec.get("suspend"):
        return 0
    parallelism, completions = int(spec.get("parallelism", 1)), spec.get("completions")
    done = int((job.get("status") or {}).get("succeeded") or 0)
    return parallelism if completions is None else max(0, min(parallelism, int(completions) - done))


def _notes(job: Object) -> Sequence[str]:
    spec = job.get("spec") or {}
    if spec.get("suspend"):
        return ["suspended: no pods are created"]
    parallelism, completions = int(spec.get("parallelism", 1)), int(spec.get("completions") or 1)
    if completions > parallelism:
        return [f"parallelism {parallelism}, completions {completions}: further pods are created as these complete"]
    return []


ROOM: Final = PlanRoom(controller=Jobs(), wanted=_wanted, notes=_notes, ignores_deadlines=True)
