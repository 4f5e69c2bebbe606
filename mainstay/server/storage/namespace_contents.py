"""What every namespace has from its first moment on: the service account `default`, and the CA of the API server.

Both are committed in the transaction that makes the namespace, so that a pod which is created right after it is never
refused for want of its account, and finds the CA that it checks the server with. Later it is the controllers' job
(controllers/service_account) to restore what is deleted.

A server without TLS has no CA to hand out: there is no ConfigMap then, and pods do without (account_admission.py).

The namespaces that clients expect in every cluster are made at start, and cannot be deleted.
"""

from typing import Final

from mainstay.api import times
from mainstay.api.causes import NAMESPACE_TERMINATING
from mainstay.api.errors import forbidden, not_found
from mainstay.api.kind import Kind, Object
from mainstay.env import Env
from mainstay.server.storage.commit_points import Intended, TransactionParts
from mainstay.server.storage.keyspace import CORE
from mainstay.server.storage.stored import read, stored
from mainstay.store.interface import Entry, Put

FIRST_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
DEFAULT_ACCOUNT: Final = "default"
ROOT_CA: Final = "kube-root-ca.crt"
CA_FILE: Final = "ca.crt"


def require_deletable(kind: Kind, name: str) -> None:
    """Raise `StatusError` (403) for an object without which no cluster works."""
    if name in FIRST_NAMESPACES and kind.kind == "Namespace" and kind.group == "":
        raise forbidden(kind.plural, kind.group, name, "this namespace may not be deleted")


def require_open_namespace(kind: Kind, namespace: str, name: str, entry: Entry | None) -> Entry:
    """The namespace of a new object, of this name. An object is committed on condition that it stays as it is.

    Raises `StatusError`: 404 if there is no such namespace, 403 if it is being terminated.
    """
    if entry is None:
        raise not_found("namespaces", "", namespace)
    if b'"deletionTimestamp"' in entry.value and "deletionTimestamp" in read(kind, entry)["metadata"]:
        text = f"unable to create new content in namespace {namespace} because it is being terminated"
        cause = {
            "reason": NAMESPACE_TERMINATING,
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        raise forbidden(kind.plural, kind.group, name, text, [cause])
    return entry


class NamespacePoint:
    """Implements `CommitPoint`. Made with the CA certificates to hand out, as PEM, if there are any."""

    def __init__(self, env: Env, authorities: str) -> None:
        self._env = env
        self._data = {CA_FILE: authorities}

    def applies_to(self, intended: Intended) -> bool:
        return intended.old is None

    async def parts_for(self, intended: Intended) -> TransactionParts:
        if intended.new is None:
            raise AssertionError("a write has an object before it, or after it, or both")
        given = intended.new["metadata"]
        namespace = given["name"]
        account = self._begin(given, DEFAULT_ACCOUNT)
        writes = [Put(f"{CORE}/serviceaccounts/{namespace}/{DEFAULT_ACCOUNT}", stored(account))]
        if self._data[CA_FILE]:
            authorities = {**self._begin(given, ROOT_CA), "data": self._data}
            writes.append(Put(f"{CORE}/configmaps/{namespace}/{ROOT_CA}", stored(authorities)))
        return TransactionParts(writes=writes)

    def _begin(self, namespace: Object, name: str) -> Object:
        # From the uid of the namespace: asked again for another attempt, it says the same.
        uid = self._env.chance.uid(f"{name} of {namespace['uid']}", 0)
        now = times.format_time(self._env.clock.wall())
        return {"metadata": {"name": name, "namespace": namespace["name"], "uid": uid, "creationTimestamp": now}}
