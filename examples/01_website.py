"""A complete controller for a kind of your own: each Website gets a Deployment, and says whether it is online.

kubectl apply -f examples/01_website.yaml
KUBECONFIG=… python examples/01_website.py
"""

from mainstay.api.kind_names import DEPLOYMENTS
from mainstay.loop import (
    OWNER,
    Apply,
    Condition,
    Controller,
    Decision,
    Freshness,
    KindName,
    Object,
    ObjectKey,
    Reads,
    Truth,
    View,
    owner,
    reference_to,
    run,
)

WEBSITES = KindName("example.com", "v1", "Website", "websites", namespaced=True)


class Websites(Controller):
    name = "websites"
    kind = WEBSITES
    reads = (Reads(DEPLOYMENTS, wakes=owner(WEBSITES), indexes=(OWNER,)),)
    writes = (DEPLOYMENTS,)

    def decide(self, view: View, key: ObjectKey, memory: None) -> Decision:
        site = view.get(WEBSITES, key)
        if site is None or "deletionTimestamp" in site["metadata"]:
            return Decision()  # Its deployment goes with it, because it is owned by it.
        owned = view.owned_by(DEPLOYMENTS, site["metadata"]["uid"])
        ready = sum(deployment.get("status", {}).get("readyReplicas", 0) for deployment in owned)
        online = Truth.TRUE if ready else Truth.FALSE
        return Decision(
            # Where all is so already, this changes nothing: so it may be decided on an old view.
            actions=(Apply(DEPLOYMENTS, a_deployment(site), freshness=Freshness.MAY_BE_STALE),),
            conditions=(Condition("Online", online, "Ready" if ready else "NotReady", f"{ready} replicas are ready"),),
        )


def a_deployment(site: Object) -> Object:
    name, namespace = site["metadata"]["name"], site["metadata"]["namespace"]
    metadata = {"name": name, "namespace": namespace, "ownerReferences": [reference_to(site, WEBSITES)]}
    labels, containers = {"site": name}, [{"name": "web", "image": site["spec"]["image"]}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"replicas": site["spec"]["replicas"], "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": metadata, "spec": spec}


if __name__ == "__main__":
    run("websites", [Websites()])
