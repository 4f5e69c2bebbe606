"""A small controller to run loops with: each Deployment should have a ConfigMap that says its number of replicas."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from mainstay.api.kind import Object
from mainstay.api.kind_names import CONFIG_MAPS, DEPLOYMENTS
from mainstay.api.object_key import ObjectKey
from mainstay.client.indexes import OWNER
from mainstay.loop.conditions import Condition, Truth
from mainstay.loop.controller import Controller, Reads, owner, reference_to
from mainstay.loop.decision import Create, Decision, Delete, GiveUp, Patch, Retry, WakeAt
from mainstay.loop.freshness import Freshness
from mainstay.loop.view import View


@dataclass(frozen=True)
class Memory:
    looks: int = 0


class Copying(Controller):
    name = "copying"
    kind = DEPLOYMENTS
    conditions_have_generation = False
    reads = (Reads(CONFIG_MAPS, wakes=owner(DEPLOYMENTS), indexes=(OWNER,)),)
    writes = (CONFIG_MAPS,)

    def decide(self, view: View, key: ObjectKey, memory: Any) -> Decision:
        deployment = view.get(DEPLOYMENTS, key)
        if deployment is None:
            return Decision()
        memory = Memory((memory or Memory()).looks + 1)
        asked = (deployment["metadata"].get("annotations") or {}).get("ask", "")
        match asked:
            case "give-up":
                return Decision(result=GiveUp("NotLiked", "a user asked for it"), memory=memory)
            case "retry":
                return Decision(result=Retry("WaitingForGodot", "he did not come"), memory=memory)
            case "wake":
                return Decision(result=WakeAt(view.now + timedelta(minutes=1)), memory=memory)
            case "bug":
                raise ZeroDivisionError("a bug")
        wanted = a_copy(deployment)
        copies = view.owned_by(CONFIG_MAPS, deployment["metadata"]["uid"])
        surplus = [copy for copy in copies if copy["metadata"]["name"] != wanted["metadata"]["name"]]
        actions: list[Any] = [
            Delete(CONFIG_MAPS, key_of(copy), copy["metadata"]["uid"], freshness=Freshness.MAY_BE_STALE)
            for copy in surplus
        ]
        current = [copy for copy in copies if copy not in surplus]
        if not current:
            actions.append(Create(CONFIG_MAPS, wanted))
        elif current[0].get("data") != wanted["data"]:
            actions.append(
                Patch(
                    CONFIG_MAPS,
                    key_of(wanted),
                    current[0]["metadata"]["uid"],
                    {"data": wanted["data"]},
                    freshness=Freshness.MAY_BE_STALE,
                )
            )
        done = Truth.TRUE if not actions else Truth.FALSE
        return Decision(
            actions=tuple(actions),
            status={"observedGeneration": deployment["metadata"]["generation"]},
            conditions=(Condition("Copied", done, "Copied" if not actions else "Copying"),),
            memory=memory,
            reasons=(f"{len(actions)} actions",),
        )


def key_of(obj: Object) -> ObjectKey:
    return ObjectKey(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def a_copy(deployment: Object) -> Object:
    metadata = deployment["metadata"]
    return {
        "metadata": {
            "name": f"{metadata['name']}-copy",
            "namespace": metadata["namespace"],
            "ownerReferences": [reference_to(deployment, DEPLOYMENTS)],
        },
        "data": {"replicas": str(deployment["spec"]["replicas"])},
    }
