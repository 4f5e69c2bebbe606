"""Namespace, ConfigMap, Secret and ServiceAccount."""

import base64
import binascii
from collections.abc import Sequence

import msgspec

from mainstay.api import kind_names
from mainstay.api.errors import StatusCause, forbidden_value, invalid_value, required, too_long
from mainstay.api.kind import STATUS, Object, Subresource
from mainstay.api.kinds.checks import check_config_key, check_immutable
from mainstay.api.kinds.declare import at, builtin, child, set_status

DATA_BYTES_MAX = 1 << 20
_TOO_LONG = f"may not be more than {DATA_BYTES_MAX} bytes"
_FROZEN = "field is immutable when `immutable` is set"
_NAME_LABEL = "kubernetes.io/metadata.name"
_DOCKER = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}
_ACCOUNT_TOKEN = "kubernetes.io/service-account-token"
_ACCOUNT_NAME = "kubernetes.io/service-account.name"


def _default_namespace(new: Object) -> None:
    child(new, "spec")
    metadata = child(new, "metadata")
    if metadata.get("name"):
        child(metadata, "labels")[_NAME_LABEL] = metadata["name"]


def _prepare_namespace(new: Object, old: Object | None) -> None:
    set_status(new, old, lambda: {"phase": "Active"})
    spec = new["spec"]
    if old is None:
        finalizers = spec.get("finalizers") or []
        if "kubernetes" not in finalizers:
            spec["finalizers"] = [*finalizers, "kubernetes"]
        return
    # What a namespace waits for before it goes is only written through `finalize`, which does not come by here.
    kept = (old.get("spec") or {}).get("finalizers")
    if kept:
        spec["finalizers"] = kept
    else:
        spec.pop("finalizers", None)


def _validate_config_map(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    data, binary = new.get("data") or {}, new.get("binaryData") or {}
    size = 0
    for key, value in data.items():
        check_config_key(key, f"data[{key}]", causes)
        if key in binary:
            causes.append(invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData"))
        size += len(value) if value.isascii() else len(value.encode())
    for key, value in binary.items():
        check_config_key(key, f"binaryData[{key}]", causes)
        size += len(value) * 3 // 4
    if size > DATA_BYTES_MAX:
        causes.append(too_long("", _TOO_LONG))
    if old is not None and old.get("immutable"):
        _check_frozen(new, old, ("data", "binaryData"), causes)
    return causes


def _check_frozen(new: Object, old: Object, fields: Sequence[str], causes: list[StatusCause]) -> None:
    if not new.get("immutable"):
        causes.append(forbidden_value("immutable", _FROZEN))
    for field in fields:
        if (new.get(field) or {}) != (old.get(field) or {}):
            causes.append(forbidden_value(field, _FROZEN))


def _default_secret(new: Object) -> None:
    if not new.get("type"):
        new["type"] = "Opaque"


def _prepare_secret(new: Object, old: Object | None) -> None:
    given = new.pop("stringData", None)
    if given:
        data = new["data"] = dict(new.get("data") or {})
        for key, value in given.items():
            data[key] = base64.b64encode(value.encode()).decode()


def _validate_secret(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    data = new.get("data") or {}
    size = 0
    for key, value in data.items():
        check_config_key(key, f"data[{key}]", causes)
        size += len(value) * 3 // 4
    if size > DATA_BYTES_MAX:
        causes.append(too_long("data", _TOO_LONG))
    _check_type(new, data, causes)
    if old is not None:
        check_immutable(new, old, "type", "", causes)
        if old.get("immutable"):
            _check_frozen(new, old, ("data",), causes)
    return causes


def _check_type(new: Object, data: Object, causes: list[StatusCause]) -> None:
    kind = new.get("type") or ""
    if kind in _DOCKER:
        key = _DOCKER[kind]
        if key not in data:
            causes.append(required(f"data[{key}]"))
        elif not _is_json(data[key]):
            causes.append(invalid_value(f"data[{key}]", "<secret contents redacted>", "invalid JSON"))
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            causes += [required("data[username]"), required("data[password]")]
    elif kind == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            causes.append(required("data[ssh-privatekey]"))
    elif kind == "kubernetes.io/tls":
        causes += [required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]
    elif kind == _ACCOUNT_TOKEN and not (new["metadata"].get("annotations") or {}).get(_ACCOUNT_NAME):
        causes.append(required(f"metadata.annotations[{_ACCOUNT_NAME}]"))


def _is_json(encoded: str) -> bool:
    try:
        msgspec.json.decode(base64.b64decode(encoded))
    except (binascii.Error, ValueError):
        return False
    return True


NAMESPACE = builtin(
    kind_names.NAMESPACES,
    short_names=("ns",),
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    subresources=(
        Subresource("finalize", ("update",)),
        # Recounts what is used of its quotas: ours (server/quota/recount.py).
        Subresource("recount", ("create",), "mainstay.dev", "v1", "NamespaceRecount"),
        STATUS,
    ),
    defaults=_default_namespace,
    prepare=_prepare_namespace,
    name_rule="label",
    selectable={"status.phase": at("status", "phase")},
    has_generation=False,
    delete_returns_object=True,
)

CONFIG_MAP = builtin(kind_names.CONFIG_MAPS, short_names=("cm",), validate=_validate_config_map, has_generation=False)

SECRET = builtin(
    kind_names.SECRETS,
    defaults=_default_secret,
    prepare=_prepare_secret,
    validate=_validate_secret,
    selectable={"type": at("type")},
    has_generation=False,
)

SERVICE_ACCOUNT = builtin(
    kind_names.SERVICE_ACCOUNTS,
    short_names=("sa",),
    subresources=(Subresource("token", ("create",), "authentication.k8s.io", "v1", "TokenRequest"),),
    has_generation=False,
    delete_returns_object=True,
)

KINDS = (NAMESPACE, CONFIG_MAP, SECRET, SERVICE_ACCOUNT)
