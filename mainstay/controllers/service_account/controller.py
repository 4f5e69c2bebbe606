"""What every namespace has: a service account `default`, and what the API server's certificate is checked with.

Pods that name no account get `default`, and find the certificate authorities in the ConfigMap `kube-root-ca.crt`. The
server makes both together with the namespace (server/storage/namespace_contents.py). These controllers restore what is
deleted while the namespace is there to stay, and correct the ConfigMap when it is changed. An account is its owner's
to change.

Which authorities: those that the controllers themselves check the server with. Without any (a server without TLS, or
one whose authorities the machine trusts anyhow) there is no such ConfigMap.
"""

from collections.abc import Iterable
from typing import Final

from mainstay.api.kind_names import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from mainstay.api.object_key import ObjectKey
from mainstay.client.entry import Change
from mainstay.loop.controller import Controller, Reads
from mainstay.loop.controller_loop import ControllerLoop
from mainstay.loop.decider import decide_per_key
from mainstay.loop.decision import Create, Decision, Delete, Patch
from mainstay.loop.freshness import Freshness
from mainstay.loop.kernel import LoopContext, LoopSpec
from mainstay.loop.view import View

ACCOUNT: Final = "default"
AUTHORITIES: Final = "kube-root-ca.crt"
FILE: Final = "ca.crt"
ROOT_AUTHORITIES: Final = "root-ca"


def find_namespace(change: Change) -> Iterable[ObjectKey]:
    """Wakes the namespace that something is in."""
    return (ObjectKey("", change.key.namespace),)


def is_there_to_stay(view: View, key: ObjectKey) -> bool:
    namespace = view.get(NAMESPACES, key)
    return namespace is not None and "deletionTimestamp" not in namespace["metadata"]


class ServiceAccounts(Controller):
    name = "serviceaccount"
    kind = NAMESPACES
    reads = (Reads(SERVICE_ACCOUNTS, wakes=find_namespace, fields=f"metadata.name={ACCOUNT}"),)
    writes = (SERVICE_ACCOUNTS,)

    def decide(self, view: View, key: ObjectKey, memory: None) -> Decision:
        if not is_there_to_stay(view, key):
            return Decision()
        place = ObjectKey(key.name, ACCOUNT)
        if view.get(SERVICE_ACCOUNTS, place) is not None:
            return Decision()
        account = {"metadata": {"name": place.name, "namespace": place.namespace}}
        return Decision((Create(SERVICE_ACCOUNTS, account),), reasons=("a namespace has a default account",))


class RootAuthorities(Controller):
    """Made with the authorities to hand out, as PEM."""

    name = ROOT_AUTHORITIES
    kind = NAMESPACES
    says_stalled = False
    reads = (Reads(CONFIG_MAPS, wakes=find_namespace, fields=f"metadata.name={AUTHORITIES}"),)
    writes = (CONFIG_MAPS,)

    def __init__(self, authorities: str) -> None:
        self.settings = authorities
        self._data = {FILE: authorities}

    def decide(self, view: View, key: ObjectKey, memory: None) -> Decision:
        if not self._data[FILE] or not is_there_to_stay(view, key):
            return Decision()
        place = ObjectKey(key.name, AUTHORITIES)
        found = view.get(CONFIG_MAPS, place)
        if found is None:
            made = {"metadata": {"name": place.name, "namespace": place.namespace}, "data": self._data}
            return Decision((Create(CONFIG_MAPS, made),), reasons=("a namespace has the authorities",))
        before = found.get("data") or {}
        if before == self._data:
            return Decision()
        uid, version = found["metadata"]["uid"], found["metadata"]["resourceVersion"]
        if found.get("immutable"):
            gone = Delete(CONFIG_MAPS, place, uid, resource_version=version, freshness=Freshness.SEEN_VERSION)
            return Decision((gone,), reasons=("it is invalid and immutable",))
        data = {**dict.fromkeys(before), **self._data}  # None removes what does not belong there.
        patch = Patch(CONFIG_MAPS, place, uid, {"data": data}, freshness=Freshness.MAY_BE_STALE)
        return Decision((patch,), reasons=("it differs from the authorities",))


def _run_root_authorities(context: LoopContext) -> ControllerLoop:
    """With the authorities that this process itself relies on."""
    return ControllerLoop(RootAuthorities(context.client.config.tls.authorities), context)


ROOT_CA: Final = LoopSpec(ROOT_AUTHORITIES, _run_root_authorities, decide_per_key(RootAuthorities(""), RootAuthorities))
