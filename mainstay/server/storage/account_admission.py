"""Service accounts of pods, as Kubernetes admits them: the account must exist, and its token is mounted.

A pod that names no account runs as `default`. Unless the pod or its account says otherwise, each container without a
mount at `TOKEN_PATH` gets a read-only one, of one projected volume: a token of the account, the CA of the API server
(unless that has none, because it serves without TLS), and the name of the namespace. A pod without image pull secrets
gets those of its account. An account may restrict which Secrets its pods refer to
(`kubernetes.io/enforce-mountable-secrets`).

The account is read from the store for each pod: at once where the store has everything in memory; otherwise `learn`
reads it first. The volume is added after validation, for it is valid by construction.
"""

from collections.abc import Awaitable, Iterator, Mapping
from typing import Any, Final

import msgspec

from mainstay.api.causes import SERVICE_ACCOUNT_NOT_FOUND
from mainstay.api.errors import forbidden
from mainstay.api.kind import Kind, Object
from mainstay.env.chance import SUFFIX_ALPHABET
from mainstay.server.storage.keyspace import CORE, namespace_key
from mainstay.server.storage.namespace_contents import CA_FILE, DEFAULT_ACCOUNT, ROOT_CA, require_open_namespace
from mainstay.store.interface import Entry, Store

TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_LIFETIME_S: Final = 3607
VOLUME_PREFIX: Final = "kube-api-access-"
ENFORCE_SECRETS: Final = "kubernetes.io/enforce-mountable-secrets"
ACCOUNTS_KNOWN_MAX: Final = 10_000

_NOTHING: Final[Mapping[str, Any]] = {}
_LETTERS: Final = str.maketrans("0123456789abcdef", SUFFIX_ALPHABET[:16])
_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")  # As Go reads a boolean.
# Shared by all pods: nothing changes an object once it is stored, and the encoder copies it.
_TOKEN: Final = {"serviceAccountToken": {"expirationSeconds": TOKEN_LIFETIME_S, "path": "token"}}
_CA: Final = {"configMap": {"items": [{"key": CA_FILE, "path": "ca.crt"}], "name": ROOT_CA}}
_FIELD: Final = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}
_NAMESPACE: Final = {"downwardAPI": {"items": [_FIELD]}}


class _Reference(msgspec.Struct, frozen=True):
    name: str = ""


class _Metadata(msgspec.Struct, frozen=True):
    annotations: dict[str, str] | None = None


class PodAccount(msgspec.Struct, frozen=True):
    """What of a service account concerns the pods that run as it."""

    metadata: _Metadata
    secrets: tuple[_Reference, ...] | None = None
    pull_secrets: tuple[_Reference, ...] | None = msgspec.field(name="imagePullSecrets", default=None)
    automounts: bool | None = msgspec.field(name="automountServiceAccountToken", default=None)


_decode = msgspec.json.Decoder(PodAccount).decode


class PodAccounts:
    """Admits pods by their service accounts. `has_ca`: whether the server has a CA to hand out."""

    def __init__(self, store: Store, *, has_ca: bool) -> None:
        self._store = store
        sources = [_TOKEN, _CA, _NAMESPACE] if has_ca else [_TOKEN, _NAMESPACE]
        self._projected = {"sources": sources, "defaultMode": 0o644}
        self._memory = store.memory
        self._known: dict[str, tuple[int, PodAccount]] = {}

    def learn(self, kind: Kind, namespace: str, pod: Object) -> Awaitable[None] | None:
        """What to await before a pod can be admitted. None, which is most often: nothing."""
        if self._memory is not None or not _is_pod(kind):
            return None
        return self._read(kind, namespace, pod)

    async def _read(self, kind: Kind, namespace: str, pod: Object) -> None:
        key = _key(namespace, _name_account(pod.get("spec") or _NOTHING))
        entry = await self._store.get(key)
        if entry is not None:
            self._remember(entry)
            return
        self._known.pop(key, None)
        # That the namespace does not exist, or is being terminated, is the better answer.
        require_open_namespace(
            kind, namespace, pod["metadata"].get("name", ""), await self._store.get(namespace_key(namespace))
        )

    def admit(self, kind: Kind, new: Object, old: Object | None) -> None:
        """An admission step: see strategies.py."""
        if old is not None or not _is_pod(kind):
            return
        spec, metadata = new["spec"], new["metadata"]
        name = spec["serviceAccountName"] = spec["serviceAccount"] = _name_account(spec)
        account = self._find(metadata["namespace"], name)
        if account is None:
            namespace, pod = metadata["namespace"], metadata.get("name", "")
            if self._memory is not None:
                require_open_namespace(kind, namespace, pod, self._memory.look(namespace_key(namespace)))
            text = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
            cause = {"reason": SERVICE_ACCOUNT_NOT_FOUND, "message": text, "field": "spec.serviceAccountName"}
            raise forbidden("pods", "", pod, text, [cause])
        if account.pull_secrets and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": each.name} if each.name else {} for each in account.pull_secrets]
        if account.metadata.annotations and account.metadata.annotations.get(ENFORCE_SECRETS) in _TRUE:
            _require_mountable(new, name, account)

    def mount_token(self, kind: Kind, pod: Object) -> None:
        """Give a pod that was admitted its token, unless it or its account does without."""
        if not _is_pod(kind):
            return
        spec = pod["spec"]
        wants = spec.get("automountServiceAccountToken")
        if wants is None:
            namespace, name = pod["metadata"]["namespace"], spec["serviceAccountName"]
            known = self._known.get(_key(namespace, name))  # Read when the pod was admitted.
            account = self._find(namespace, name) if known is None else known[1]
            wants = True if account is None or account.automounts is None else account.automounts
        if wants:
            _mount(spec, pod["metadata"]["uid"], self._projected)

    def _find(self, namespace: str, name: str) -> PodAccount | None:
        key = _key(namespace, name)
        known = self._known.get(key)
        if self._memory is None:
            return None if known is None else known[1]
        entry = self._memory.look(key)
        if entry is None:
            return None
        return known[1] if known is not None and known[0] == entry.revision else self._remember(entry)

    def _remember(self, entry: Entry) -> PodAccount:
        if len(self._known) >= ACCOUNTS_KNOWN_MAX:
            self._known.clear()
        account = _decode(entry.value)
        self._known[entry.key] = entry.revision, account
        return account


def _is_pod(kind: Kind) -> bool:
    return kind.kind == "Pod" and kind.group == ""


def _name_account(spec: Mapping[str, Any]) -> str:
    return spec.get("serviceAccountName") or spec.get("serviceAccount") or DEFAULT_ACCOUNT


def _key(namespace: str, name: str) -> str:
    return f"{CORE}/serviceaccounts/{namespace}/{name}"


def _mount(spec: Object, uid: str, projected: Object) -> None:
    volumes = spec.get("volumes") or []
    found = [each["name"] for each in volumes if each["name"].startswith(VOLUME_PREFIX)]
    name = found[0] if found else VOLUME_PREFIX + _suffix(uid)
    mount = {"name": name, "readOnly": True, "mountPath": TOKEN_PATH}
    is_used = False
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        mounts = container.get("volumeMounts") or []
        if TOKEN_PATH not in [each["mountPath"] for each in mounts]:
            container["volumeMounts"] = [*mounts, mount]
            is_used = True
    if is_used and not found:
        spec["volumes"] = [*volumes, {"name": name, "projected": projected}]


def _suffix(uid: str) -> str:
    """From the pod's uid, which is drawn for it anyhow."""
    return uid[:5].translate(_LETTERS)


def _require_mountable(pod: Object, name: str, account: PodAccount) -> None:
    """Raise `StatusError` (403) for a Secret that the account does not list."""
    secrets = {each.name for each in account.secrets or ()}
    for what, secret in _find_secrets(pod["spec"]):
        if secret not in secrets:
            text = (
                f'{what}secret.secretName="{secret}" is not allowed because service account {name} does not reference'
                " that secret"
            )
            raise forbidden("pods", "", pod["metadata"].get("name", ""), text)
    pulls = {each.name for each in account.pull_secrets or ()}
    for index, reference in enumerate(pod["spec"].get("imagePullSecrets") or ()):
        if reference.get("name") not in pulls:
            text = (
                f'imagePullSecrets[{index}].name="{reference.get("name")}" is not allowed because service account'
                f" {name} does not reference that imagePullSecret"
            )
            raise forbidden("pods", "", pod["metadata"].get("name", ""), text)


def _find_secrets(spec: Object) -> Iterator[tuple[str, str]]:
    """Each Secret that a pod refers to, after the words that say where."""
    for volume in spec.get("volumes") or ():
        if volume.get("secret"):
            yield "volume with ", volume["secret"].get("secretName", "")
        for source in (volume.get("projected") or _NOTHING).get("sources") or ():
            if source.get("secret"):
                yield "volume with ", source["secret"].get("name", "")
    for word, listed in (("init container", "initContainers"), ("container", "containers")):
        for container in spec.get(listed) or ():
            for source in container.get("envFrom") or ():
                if source.get("secretRef"):
                    yield f"{word} {container['name']} with envFrom referencing ", source["secretRef"].get("name", "")
            for variable in container.get("env") or ():
                if reference := (variable.get("valueFrom") or _NOTHING).get("secretKeyRef"):
                    where = f"{word} {container['name']} with envVar {variable['name']} referencing "
                    yield where, reference.get("name", "")
