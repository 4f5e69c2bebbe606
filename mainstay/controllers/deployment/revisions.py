"""The ReplicaSets of a Deployment as its history: which one has the template that is wanted, and what the others were.

Each template that a Deployment has had is a ReplicaSet, named `DEPLOYMENT-HASH` after the template, with the hash as a
label of the set and its pods, so that their selectors do not overlap. Going back to an earlier template finds its set
again. What `kubectl rollout history` shows is in annotations: a set's revision is one more than all others' at the time
that it became the new one, and those it had before are its history.

A name that is taken by something else is no reason to fail: the next number of collisions gives another name. It is
kept in the Deployment's status, and only ever grows.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from mainstay.api import pod_state
from mainstay.api.annotations import DESIRED_REPLICAS, LAST_APPLIED
from mainstay.api.kind import Object
from mainstay.api.kind_names import DEPLOYMENTS
from mainstay.api.well_known_labels import HASH_LABEL
from mainstay.controllers.pods.slots import short_hash
from mainstay.loop.controller import reference_to

REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
MOST: Final = "deployment.kubernetes.io/max-replicas"
HISTORY_LENGTH_MAX: Final = 2000
_HASH_LENGTH: Final = 10
_NAME_LENGTH_MAX: Final = 253

_NOT_COPIED: Final = frozenset(
    {
        LAST_APPLIED,
        "deprecated.deployment.rollback.to",
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MOST,
    }
)


def get_annotations(obj: Object) -> Mapping[str, str]:
    found: Mapping[str, str] = obj["metadata"].get("annotations") or {}
    return found


def parse_revision(obj: Object) -> int:
    """0: it has none."""
    return number_in(obj, REVISION)


def number_in(obj: Object, annotation: str) -> int:
    text = get_annotations(obj).get(annotation, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def by_age(sets: Iterable[Object]) -> list[Object]:
    return sorted(sets, key=lambda each: (pod_state.created_at(each), each["metadata"]["name"]))


def new_set(deployment: Object, sets: Sequence[Object]) -> Object | None:
    """The one that has the wanted template. Should there be several, the oldest."""
    wanted = comparable(deployment["spec"]["template"])
    return next((each for each in by_age(sets) if comparable(each["spec"]["template"]) == wanted), None)


def comparable(template: Object) -> Any:
    """What makes two templates the same: everything but the label that only the set's has, and what says nothing."""
    metadata = dict(template.get("metadata") or {})
    metadata["labels"] = {name: text for name, text in (metadata.get("labels") or {}).items() if name != HASH_LABEL}
    return _said({"metadata": metadata, "spec": template.get("spec")})


def _said(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: _said(each) for name, each in value.items()}
        return {name: each for name, each in kept.items() if each is not None and each != {} and each != []}
    if isinstance(value, list):
        return [_said(each) for each in value]
    return value


def compute_hash(template: Object, collisions: int) -> str:
    text = json.dumps(comparable(template), sort_keys=True, separators=(",", ":"))
    return short_hash(text, str(collisions) if collisions else "", length=_HASH_LENGTH)


def build_set_name(deployment: Object, suffix: str) -> str:
    return f"{deployment['metadata']['name'][: _NAME_LENGTH_MAX - len(suffix) - 1]}-{suffix}"


def made_set(deployment: Object, suffix: str, replicas: int, most: int, revision: int) -> Object:
    """A new ReplicaSet with the wanted template."""
    metadata, spec = deployment["metadata"], deployment["spec"]
    template = spec["template"]
    found = template.get("metadata") or {}
    labels = {**(found.get("labels") or {}), HASH_LABEL: suffix}
    selector = dict(spec.get("selector") or {})
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH_LABEL: suffix}
    made: dict[str, Any] = {
        "replicas": replicas,
        "selector": selector,
        "template": {**template, "metadata": {**found, "labels": labels}},
    }
    if spec.get("minReadySeconds"):
        made["minReadySeconds"] = spec["minReadySeconds"]
    return {
        "metadata": {
            "name": build_set_name(deployment, suffix),
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": {
                **_copied(deployment),
                REVISION: str(revision),
                **sized(int(spec.get("replicas", 1)), most),
            },
            "ownerReferences": [reference_to(deployment, DEPLOYMENTS)],
        },
        "spec": made,
    }


def sized(desired: int, most: int) -> dict[str, str]:
    """What a set says about the rollout that it was sized for."""
    return {DESIRED_REPLICAS: str(desired), MOST: str(most)}


def changes_to_new(deployment: Object, new: Object, old: Sequence[Object]) -> Object:
    """What has to change in the set that has the wanted template for it to be the new one. Empty: nothing."""
    annotations: dict[str, str] = {
        name: text for name, text in _copied(deployment).items() if get_annotations(new).get(name) != text
    }
    revision = parse_revision(new)
    wanted = max((parse_revision(each) for each in old), default=0) + 1
    if revision < wanted:
        annotations[REVISION] = str(wanted)
        if revision:
            annotations[REVISION_HISTORY] = _history(get_annotations(new).get(REVISION_HISTORY, ""), revision)
    body: dict[str, Any] = {"metadata": {"annotations": annotations}} if annotations else {}
    min_ready = deployment["spec"].get("minReadySeconds") or 0
    if (new["spec"].get("minReadySeconds") or 0) != min_ready:
        body["spec"] = {"minReadySeconds": min_ready}
    return body


def _copied(deployment: Object) -> dict[str, str]:
    return {name: text for name, text in get_annotations(deployment).items() if name not in _NOT_COPIED}


def _history(before: str, revision: int) -> str:
    numbers = [*filter(None, before.split(",")), str(revision)]
    while len(numbers) > 1 and len(",".join(numbers)) > HISTORY_LENGTH_MAX:
        del numbers[0]
    return ",".join(numbers)


def forgotten(deployment: Object, old: Sequence[Object]) -> list[Object]:
    """The old sets that are beyond the history limit, and have nothing left to do."""
    limit = deployment["spec"].get("revisionHistoryLimit")
    if limit is None:
        return []
    kept = [each for each in old if not pod_state.is_leaving(each)]
    kept.sort(key=lambda each: (parse_revision(each), pod_state.created_at(each), each["metadata"]["name"]))
    return [each for each in kept[: max(0, len(kept) - limit)] if is_at_rest(each)]


def is_observed(replica_set: Object) -> bool:
    """What its status says was said since it was last changed."""
    status = replica_set.get("status") or {}
    return bool(status.get("observedGeneration", 0) >= replica_set["metadata"].get("generation", 0))


def is_at_rest(replica_set: Object) -> bool:
    """It wants no pods, has none, and has said so since it was last changed."""
    status = replica_set.get("status") or {}
    return (
        not replica_set["spec"].get("replicas", 1)
        and not status.get("replicas")
        and not status.get("terminatingReplicas")
        and is_observed(replica_set)
    )
