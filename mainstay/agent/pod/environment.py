"""The environment of a container: from its spec and from ConfigMaps, Secrets and facts, to plain pairs.

`find_needs` lists the ConfigMaps and Secrets that a pod refers to. preparation.py reads them, and hands over those that
it found, and `build_environment` resolves. The order is that of the kubelet: first `envFrom`, of which later sources
win; then `env` from top to bottom, in which `$(NAME)` stands for what was said before it. A reference to nothing stays
as it is, and `$$` is a dollar. What is referred to and not there is `Missing`, unless it is optional: then it is left
out.

Beyond what Kubernetes says, each container gets `POD_IP`, `POD_NAME`, `POD_NAMESPACE` and `NODE_NAME`: without a
network namespace of its own, a pod has to know which address to listen at. Services are not told as variables, except
the API server's.

Pure: nothing here reads anything but its arguments.
"""

import binascii
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mainstay.agent.pod.downward import Surroundings, Unresolved, read_field, read_resource
from mainstay.api.kind import Object

CONFIG_MAP: Final = "ConfigMap"
SECRET: Final = "Secret"
CONFIG_ERROR: Final = "CreateContainerConfigError"

_HOST_NAME_MAX: Final = 63
_NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a container or a volume cannot be prepared now. It may be possible later: what it needs may come to be."""

    reason: str
    message: str
    missing: str = ""
    """See `Unresolved`."""


@dataclass(frozen=True, slots=True, order=True)
class Need:
    """A ConfigMap or Secret, in the pod's namespace, that a pod refers to."""

    kind: str
    name: str
    is_optional: bool
    """Every reference to it says that it may be absent."""


Sources = Mapping[tuple[str, str], Object]
"""The ConfigMaps and Secrets of the pod's namespace, by kind and name. What does not exist is not in it."""


@dataclass(frozen=True, slots=True)
class Environment:
    pairs: tuple[tuple[str, str], ...]
    """All of it, sorted by name."""
    variables: Mapping[str, str]
    """The part that `$(NAME)` may refer to. Like a container runtime's, our PATH, HOME and HOSTNAME are not in it."""


def find_needs(pod: Object) -> list[Need]:
    """The ConfigMaps and Secrets that a pod refers to, each once, sorted."""
    found: dict[tuple[str, str], bool] = {}
    for kind, reference in _references(pod.get("spec") or _NOTHING):
        # Secrets have another word for their name in volumes.
        name = reference.get("name") or reference.get("secretName") or ""
        if name:
            found[kind, name] = found.get((kind, name), True) and bool(reference.get("optional"))
    return [Need(kind, name, is_optional) for (kind, name), is_optional in sorted(found.items())]


def build_environment(pod: Object, container: Object, sources: Sources, facts: Surroundings) -> Environment | Missing:
    """What a container of a pod finds in its environment."""
    variables = _told_to_all(pod, facts)
    try:
        for source in container.get("envFrom") or ():
            variables.update(_read_all(source, sources))
        for variable in container.get("env") or ():
            value = _resolve_value(variable, pod, container, sources, facts, variables)
            if value is not None:
                variables[variable["name"]] = value
        for name, value in variables.items():
            if "\0" in name or "\0" in value:
                raise Unresolved(f"environment variable {name.replace(chr(0), '?')} contains a NUL byte")
    except Unresolved as problem:
        return Missing(CONFIG_ERROR, str(problem), problem.missing)
    by_machine = {"PATH": facts.path, "HOME": facts.home, "HOSTNAME": find_host_name(pod)}
    return Environment(tuple(sorted((by_machine | variables).items())), variables)


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by its value. References to nothing, and what is no reference, stay as they are."""
    return "".join(
        variables.get(part[2:-1], part) if is_reference else part for part, is_reference in _split_references(text)
    )


def empty_in(text: str, variables: Mapping[str, str]) -> list[str]:
    """The names in a text that refer to nothing, or to an empty value. Each once, sorted."""
    return sorted(
        {part[2:-1] for part, is_reference in _split_references(text) if is_reference and not variables.get(part[2:-1])}
    )


def find_host_name(pod: Object) -> str:
    """What a pod takes for the name of its machine."""
    name = (pod.get("spec") or _NOTHING).get("hostname") or pod["metadata"]["name"]
    return str(name)[:_HOST_NAME_MAX].rstrip("-.")


def secret_bytes(secret: Object, key: str) -> bytes:
    """One entry of a Secret. The API lets in only what is base64."""
    try:
        return b64decode((secret.get("data") or _NOTHING)[key] or "")
    except binascii.Error as error:
        raise Unresolved(f"key {key} in Secret {secret['metadata']['name']} is not base64") from error


# What a pod refers to.


def _references(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for source in container.get("envFrom") or ():
            yield from _either(source, "configMapRef", "secretRef")
        for variable in container.get("env") or ():
            yield from _either(variable.get("valueFrom") or _NOTHING, "configMapKeyRef", "secretKeyRef")
    for volume in spec.get("volumes") or ():
        yield from _either(volume, "configMap", "secret")
        for source in (volume.get("projected") or _NOTHING).get("sources") or ():
            yield from _either(source, "configMap", "secret")


def _either(source: Mapping[str, Any], config_map: str, secret: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if source.get(config_map):
        yield CONFIG_MAP, source[config_map]
    if source.get(secret):
        yield SECRET, source[secret]


# Values.


def _told_to_all(pod: Object, facts: Surroundings) -> dict[str, str]:
    metadata = pod["metadata"]
    told = {
        "POD_IP": facts.address,
        "POD_NAME": metadata["name"],
        "POD_NAMESPACE": metadata.get("namespace") or "default",
        "NODE_NAME": facts.node_name,
    }
    if facts.service_host:
        told |= _tell_api_server(facts.service_host, str(facts.service_port))
    return told


def _tell_api_server(host: str, port: str) -> dict[str, str]:
    """Where the API server is, as every pod is told it; with the port that really answers."""
    url = f"tcp://{host}:{port}"
    variables = {"": url, "_PROTO": "tcp", "_PORT": port, "_ADDR": host}
    return {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        "KUBERNETES_SERVICE_PORT_HTTPS": port,
        "KUBERNETES_PORT": url,
        **{f"KUBERNETES_PORT_{port}_TCP{name}": value for name, value in variables.items()},
    }


def _read_all(source: Mapping[str, Any], sources: Sources) -> dict[str, str]:
    """Every entry of a ConfigMap or Secret. All keys that these may have are names that a variable may have."""
    prefix = source.get("prefix") or ""
    for kind, reference in _either(source, "configMapRef", "secretRef"):
        found = _found(kind, reference, sources)
        if found is None:
            return {}
        keys = found.get("data") or _NOTHING
        return {prefix + key: _text(kind, found, key) for key in sorted(keys)}
    return {}


def _resolve_value(
    variable: Mapping[str, Any],
    pod: Object,
    container: Object,
    sources: Sources,
    facts: Surroundings,
    before: Mapping[str, str],
) -> str | None:
    """None: it is optional, and not there."""
    value = variable.get("value")
    source = variable.get("valueFrom")
    if value or not source:
        return expanded(value or "", before)
    if source.get("fieldRef"):
        return read_field(pod, source["fieldRef"].get("fieldPath") or "", facts)
    if source.get("resourceFieldRef"):
        return read_resource(pod, container, source["resourceFieldRef"], facts)
    for kind, reference in _either(source, "configMapKeyRef", "secretKeyRef"):
        found = _found(kind, reference, sources)
        key = reference.get("key") or ""
        if found is None:
            return None
        if key not in (found.get("data") or _NOTHING):
            if reference.get("optional"):
                return None
            where = f"{kind} {pod['metadata'].get('namespace')}/{reference['name']}"
            raise Unresolved(f"couldn't find key {key} in {where}", f"{kind}/{reference['name']}/{key}")
        return _text(kind, found, key)
    raise Unresolved(f"unsupported source of environment variable {variable['name']}")


def _found(kind: str, reference: Mapping[str, Any], sources: Sources) -> Object | None:
    found = sources.get((kind, reference.get("name") or ""))
    if found is None and not reference.get("optional"):
        name = reference.get("name")
        raise Unresolved(f'{kind.lower()} "{name}" not found', f"{kind}/{name}")
    return found


def _text(kind: str, found: Object, key: str) -> str:
    if kind == CONFIG_MAP:
        return str(found["data"][key])
    try:
        return secret_bytes(found, key).decode()
    except UnicodeDecodeError as error:
        # A variable that one program reads and the next cannot is worse than none.
        message = f"key {key} in Secret {found['metadata']['name']} is not UTF-8 text: mount it as a volume instead"
        raise Unresolved(message) from error


def _split_references(text: str) -> Iterator[tuple[str, bool]]:
    """A text taken apart: what stands for itself, and references. `$$` is taken for a dollar here already."""
    position = 0
    while (dollar := text.find("$", position)) >= 0:
        yield text[position:dollar], False
        follower = text[dollar + 1 : dollar + 2]
        end = text.find(")", dollar) if follower == "(" else -1
        if end >= 0:
            yield text[dollar : end + 1], True
            position = end + 1
        elif follower == "$":
            yield "$", False
            position = dollar + 2
        else:
            yield "$", False
            position = dollar + 1
    yield text[position:], False
