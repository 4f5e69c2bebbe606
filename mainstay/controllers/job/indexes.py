"""The indexes of an Indexed Job: which there are, which are done, and which come next.

Sets of indexes are written as text in a Job's status and policies: numbers in order, and runs of three or more as a
range: `0,2,5-7`. (Two neighbours are written as `5,6`, as upstream does it.) The set is kept as a sorted tuple.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from mainstay.api.annotations import JOB_COMPLETION_INDEX
from mainstay.api.kind import Object

FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
"""Annotation of a pod of a job with `backoffLimitPerIndex`: how often its index had failed before it."""

Indexes = tuple[int, ...]


def parse(text: str, below: int) -> Indexes:
    """The indexes that a text names, without those that the job does not have (any more)."""
    found: dict[int, None] = {}
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if first.isdigit() and (not dash or last.isdigit()):
            for index in range(int(first), min(int(last or first), below - 1) + 1):
                found[index] = None
    return tuple(sorted(found))


def render_indexes(indexes: Iterable[int]) -> str:
    runs: list[list[int]] = []
    for index in sorted(frozenset(indexes)):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(_run(run) for run in runs)


def _run(run: Sequence[int]) -> str:
    return f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run))


def is_indexed(job: Object) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def read_index(pod: Object) -> int | None:
    """The index that a pod is for; None if it does not say."""
    metadata = pod["metadata"]
    text = str(
        (metadata.get("annotations") or {}).get(JOB_COMPLETION_INDEX)
        or (metadata.get("labels") or {}).get(JOB_COMPLETION_INDEX)
        or ""
    )
    return int(text) if text.isascii() and text.isdigit() else None


def stored(job: Object, field: str) -> Indexes:
    """`completedIndexes` or `failedIndexes` of a job's status."""
    return parse((job.get("status") or {}).get(field) or "", int(job["spec"].get("completions") or 0))


def pending(job: Object, taken: Iterable[int], count: int) -> list[int]:
    """The first indexes, so many of them at most, that are not taken."""
    gone = frozenset(taken)
    found: list[int] = []
    for index in range(int(job["spec"].get("completions") or 0)):
        if len(found) >= count:
            break
        if index not in gone:
            found.append(index)
    return found


def success_rule(policy: Mapping[str, Any] | None, succeeded: Indexes, completions: int) -> int | None:
    """Which rule of a success policy is met, counted from 0; None if none is."""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        meant: Indexes = succeeded
        if rule.get("succeededIndexes") is not None:
            named = parse(rule["succeededIndexes"], completions)
            meant = tuple([index for index in named if index in frozenset(succeeded)])
            needed = rule.get("succeededCount", len(named))
        else:
            needed = rule.get("succeededCount", completions)
        if needed and len(meant) >= needed:
            return number
    return None
