"""What the debug view says of a Deployment: whether it went back to an earlier template, and which set is current."""

from collections.abc import Sequence
from typing import Any

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.controllers.deployment import revisions
from mainstay.explain.debug.view import ObservedRevision, Rollback
from mainstay.explain.story.lines import StoryObject
from mainstay.explain.writers import Version


def rollbacks(kind: KindName, workload: Object, versions: Sequence[Version]) -> list[Rollback]:
    """The last change of the template, if it went back to an earlier one, and whether the controller has seen that."""
    changed = [
        each
        for each in versions
        if each.after is not None and any(change.path[:2] == ("spec", "template") for change in each.changes)
    ]
    if not changed:
        return []
    last = changed[-1]
    earlier = [_template(each.before) for each in changed[:-1]]
    if _template(last.after) not in earlier:
        return []
    status, metadata = workload.get("status") or {}, workload["metadata"]
    after = (last.after or {}).get("metadata") or {}
    generation, observed = int(after.get("generation") or 0), int(status.get("observedGeneration") or 0)
    seen = ObservedRevision(
        component="deployment",
        revision=last.revision if observed >= generation else 0,
        is_observed=observed >= generation,
        source="status.observedGeneration",
    )
    return [
        Rollback(
            about=StoryObject(kind.text, metadata["name"], metadata.get("namespace", "")),
            revision=last.revision,
            at=last.at,
            who=last.who,
            is_rollback=True,
            observed=(seen,),
        )
    ]


def find_current_set(workload: Object, sets: Sequence[Object]) -> Object | None:
    return revisions.new_set(workload, sets)


def _template(obj: Object | None) -> Any:
    return ((obj or {}).get("spec") or {}).get("template")
