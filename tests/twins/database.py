"""Bugs that operators of databases had, planted in that of the scenarios 25–31 (scenarios/_database.py)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import PODS
from mainstay.api.object_key import ObjectKey
from mainstay.loop.decision import Action, Create, Delete, Patch, Result
from mainstay.loop.freshness import Freshness
from mainstay.loop.view import View
from mainstay.scenarios import _database
from mainstay.scenarios._database import (
    DATABASES,
    VOLUMES,
    Parts,
    delete,
    grow,
    outdated,
    pod_name,
    read_key,
    read_number,
    volume_name,
)


def believes_that_a_member_has_the_volume_it_was_started_for(patch: pytest.MonkeyPatch) -> None:
    """25: volumes grow with their members, and who crashed in between starts the member as if that was done."""

    def growth(database: Object, parts: Parts) -> tuple[Action, ...]:
        actions: list[Action] = []
        for pod in outdated(database, parts, "storage"):
            volume = parts.volumes.get(volume_name(database, read_number(pod)))
            actions.append(delete(PODS, pod))
            actions += [] if volume is None else [grow(volume, database["spec"]["storage"])]
        return tuple(actions)

    patch.setattr(_database, "growth", growth)


def _ends_whatever_has_the_name(patch: pytest.MonkeyPatch, kind: KindName, name: Callable[[Object, int], str]) -> None:
    honest = _database.leaving

    def leaving(view: View, database: Object, parts: Parts) -> tuple[tuple[Action, ...], Result]:
        actions, result = honest(view, database, parts)
        others = [action for action in actions if action.kind != kind]
        namespace = database["metadata"]["namespace"]
        names = [name(database, number) for number in range(database["spec"]["replicas"])]
        return (
            *(Delete(kind, ObjectKey(namespace, each), uid="", freshness=Freshness.MAY_BE_STALE) for each in names),
            *others,
        ), result

    patch.setattr(_database, "leaving", leaving)


def ends_members_by_their_names(patch: pytest.MonkeyPatch) -> None:
    """26: those of another database, which has the name now, go with them."""
    _ends_whatever_has_the_name(patch, PODS, pod_name)


def deletes_volumes_by_their_names(patch: pytest.MonkeyPatch) -> None:
    """27: the same, and the data is gone."""
    _ends_whatever_has_the_name(patch, VOLUMES, volume_name)


def shrinks_by_names_without_looking_again(patch: pytest.MonkeyPatch) -> None:
    """28: what is seen is taken for what is wanted, and what has the name for what was seen."""
    honest = _database.surplus

    def surplus(database: Object, parts: Parts) -> tuple[Action, ...]:
        actions = honest(database, parts)
        return tuple(replace(action, uid="") for action in actions if isinstance(action, Delete))

    patch.setattr(_database, "surplus", surplus)


def removes_what_it_has_said_it_has(patch: pytest.MonkeyPatch) -> None:
    """29: what was made, and not yet said in the status, is not thought of."""

    def surplus(database: Object, parts: Parts) -> tuple[Action, ...]:
        said = (database.get("status") or {}).get("joined") or []
        beyond = [number for number in said if number >= database["spec"]["replicas"]]
        pods = [parts.pods.get(pod_name(database, number)) for number in beyond]
        volumes = [parts.volumes.get(volume_name(database, number)) for number in beyond]
        found = [*((PODS, pod) for pod in pods), *((VOLUMES, volume) for volume in volumes)]
        actions = [delete(kind, obj) for kind, obj in found if obj is not None]
        return (_database.claim(database), *actions) if actions else ()

    patch.setattr(_database, "surplus", surplus)
    # And then it does not have them any more, whatever is there.
    honest = _database.build_status

    def status_of(database: Object, parts: Parts) -> dict[str, Any]:
        return {**honest(database, parts), "joined": list(range(database["spec"]["replicas"]))}

    patch.setattr(_database, "build_status", status_of)


def takes_one_certificate_for_both(patch: pytest.MonkeyPatch) -> None:
    """30."""
    honest = _database.certificates
    patch.setattr(_database, "certificates", lambda database, parts: () if parts.secrets else honest(database, parts))


def restarts_members_only_with_the_settings(patch: pytest.MonkeyPatch) -> None:
    """31a: if the settings are as they should be, so are the members, it believes."""
    honest = _database.settings

    def settings(database: Object, parts: Parts) -> tuple[Action, ...]:
        actions = honest(database, parts)
        return () if all(isinstance(action, Delete) for action in actions) else actions

    patch.setattr(_database, "settings", settings)


def says_once_that_a_member_has_joined(patch: pytest.MonkeyPatch) -> None:
    """31b: right after making it, or never; and only those leave that have joined."""
    honest_members, honest_surplus, honest_status = _database.members, _database.surplus, _database.build_status

    def joined(database: Object) -> list[int]:
        return list((database.get("status") or {}).get("joined") or [])

    def members(database: Object, parts: Parts) -> tuple[Action, ...]:
        actions: list[Action] = []
        said = joined(database)
        for action in honest_members(database, parts):
            actions.append(action)
            if isinstance(action, Create) and action.kind == PODS:
                said = sorted({*said, read_number(action.object)})
                body = {"status": {"joined": said}}
                actions.append(
                    Patch(
                        DATABASES,
                        read_key(database),
                        database["metadata"]["uid"],
                        body,
                        "status",
                        freshness=Freshness.MAY_BE_STALE,
                    )
                )
        return tuple(actions)

    def surplus(database: Object, parts: Parts) -> tuple[Action, ...]:
        def may_go(action: Action) -> bool:
            is_pod = isinstance(action, Delete) and action.kind == PODS
            return not is_pod or _number(action) in joined(database)

        return tuple(action for action in honest_surplus(database, parts) if may_go(action))

    def status_of(database: Object, parts: Parts) -> dict[str, Any]:
        there = [read_number(pod) for pod in parts.pods.values()]
        status = honest_status(database, parts)
        status["joined"] = [each for each in joined(database) if each in there]
        return status if status["joined"] != joined(database) else {_database.SHRUNK_TO: status[_database.SHRUNK_TO]}

    patch.setattr(_database, "members", members)
    patch.setattr(_database, "surplus", surplus)
    patch.setattr(_database, "build_status", status_of)


def removes_volumes_only_with_their_members(patch: pytest.MonkeyPatch) -> None:
    """31c: whose member is gone already has no volume, it believes."""
    honest = _database.surplus

    def surplus(database: Object, parts: Parts) -> tuple[Action, ...]:
        volumes = {
            name: volume
            for name, volume in parts.volumes.items()
            if pod_name(database, read_number(volume)) in parts.pods
        }
        return honest(database, replace(parts, volumes=volumes))

    patch.setattr(_database, "surplus", surplus)


def _number(action: Action) -> int:
    key: ObjectKey = action.key if isinstance(action, Delete | Patch) else ObjectKey("", "-1")
    return int(key.name.rpartition("-")[2])
