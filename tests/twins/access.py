"""Bugs that the checks of access could have."""

import copy

import pytest

from mainstay.controllers.component import Controllers
from mainstay.server.auth.identities import build_controller_user
from mainstay.server.auth.node_index import NodeIndexFollower
from mainstay.server.rbac import bootstrap


def refuses_what_it_has_not_heard_of(patch: pytest.MonkeyPatch) -> None:
    """The index is taken for all there is, whatever the store has."""

    async def settle(self: NodeIndexFollower) -> None:
        pass

    patch.setattr(NodeIndexFollower, "settle", settle)


def controllers_act_as_their_process(patch: pytest.MonkeyPatch) -> None:
    """All of them write as the user of the process, whose role is for reading."""
    patch.setattr(Controllers, "client_for", lambda self, controller: self.client)


def replicasets_may_not_create_pods(patch: pytest.MonkeyPatch) -> None:
    """The role of a controller lacks a verb that it uses."""
    name = build_controller_user("replicaset").name
    objects = {key: copy.deepcopy(obj) for key, obj in bootstrap.build_objects().items()}
    for rule in objects[f"rbac.authorization.k8s.io/clusterroles/{name}"]["rules"]:
        rule["verbs"] = [verb for verb in rule["verbs"] if verb != "create"]
    patch.setattr(bootstrap, "build_objects", lambda: objects)
