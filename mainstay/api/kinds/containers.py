"""What a container may say: of a pod, of an init container, of a template. The words are those of Kubernetes.

Straight code: every pod that is created goes through it. Paths are put together once for a container, and beyond that
only when there is something to complain about.
"""

import re
from collections.abc import Collection, Sequence

from mainstay.api.errors import StatusCause, duplicate, forbidden_value, invalid_value, not_supported, required
from mainstay.api.kind import Object
from mainstay.api.kinds.amounts import check_resources
from mainstay.api.kinds.checks import (
    NOT_NEGATIVE,
    PROTOCOLS,
    check_label,
    check_port,
    check_port_or_name,
    check_subdomain,
    not_found_value,
    port_name_problems,
)

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")
_PROBE_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_NOT_FOR_INIT = "may not be set for init containers without restartPolicy=Always"
_ENV_NAME = re.compile(r"[ -<>-~]+")
_FIELD_PATHS = frozenset(
    {"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"}
    | {"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs", "metadata.labels", "metadata.annotations"}
)
_FIELD_WITH_KEY = re.compile(r"metadata\.(labels|annotations)\['[^']+'\]")


def check_containers(
    listed: Sequence[Object],
    path: str,
    volumes: Collection[str],
    causes: list[StatusCause],
    names: set[str],
    is_init: bool,
) -> None:
    """Look at the containers of a pod. `names` has those of the containers before them, and gets theirs."""
    host_ports: set[tuple[object, ...]] = set()
    for number, container in enumerate(listed):
        here = f"{path}[{number}]"
        get = container.get
        name = get("name")
        if not name:
            causes.append(required(f"{here}.name"))
        else:
            check_label(name, here, ".name", causes)
            if name in names:
                causes.append(duplicate(f"{here}.name", name))
            names.add(name)
        image = get("image")
        if not image:
            causes.append(required(f"{here}.image"))
        elif image != image.strip():
            causes.append(invalid_value(f"{here}.image", image, "must not have leading or trailing whitespace"))
        if get("terminationMessagePolicy") not in _MESSAGE_POLICIES:
            causes.append(
                not_supported(f"{here}.terminationMessagePolicy", get("terminationMessagePolicy"), _MESSAGE_POLICIES)
            )
        ports = get("ports")
        if ports:
            _check_ports(ports, f"{here}.ports", causes, host_ports)
        env = get("env")
        if env:
            _check_env(env, f"{here}.env", causes)
        env_from = get("envFrom")
        if env_from:
            _check_env_from(env_from, f"{here}.envFrom", causes)
        mounts = get("volumeMounts")
        if mounts:
            _check_mounts(mounts, f"{here}.volumeMounts", volumes, causes)
        if get("imagePullPolicy") not in _PULL_POLICIES:
            causes.append(not_supported(f"{here}.imagePullPolicy", get("imagePullPolicy"), _PULL_POLICIES))
        resources = get("resources")
        if resources:
            check_resources(resources, f"{here}.resources", causes)
        _check_lifecycle(container, here, causes, is_init)


def _check_lifecycle(container: Object, here: str, causes: list[StatusCause], is_init: bool) -> None:
    get = container.get
    lifecycle = get("lifecycle")
    restart_policy = get("restartPolicy")
    is_plain_init = is_init and restart_policy != "Always"
    if lifecycle:
        if is_plain_init:
            causes.append(forbidden_value(f"{here}.lifecycle", _NOT_FOR_INIT))
        for name in ("postStart", "preStop"):
            hook = lifecycle.get(name)
            if hook is not None:
                _check_handler(hook, f"{here}.lifecycle.{name}", _HOOK_HANDLERS, causes)
    for name in _PROBES:
        probe = get(name)
        if probe is not None:
            if is_plain_init:
                causes.append(forbidden_value(f"{here}.{name}", _NOT_FOR_INIT))
            else:
                _check_probe(probe, f"{here}.{name}", name, causes)
    if restart_policy and restart_policy not in _RESTART_POLICIES:
        causes.append(not_supported(f"{here}.restartPolicy", restart_policy, _RESTART_POLICIES))


def _check_ports(
    ports: Sequence[Object], path: str, causes: list[StatusCause], host_ports: set[tuple[object, ...]]
) -> None:
    names: set[str] = set()
    for number, port in enumerate(ports):
        get = port.get
        name = get("name")
        if name:
            for problem in port_name_problems(name):
                causes.append(invalid_value(f"{path}[{number}].name", name, problem))
            if name in names:
                causes.append(duplicate(f"{path}[{number}].name", name))
            names.add(name)
        inside = get("containerPort")
        if not inside:
            causes.append(required(f"{path}[{number}].containerPort"))
        elif not 0 < inside < 65536:
            check_port(inside, f"{path}[{number}].containerPort", causes)
        outside = get("hostPort")
        if outside:
            check_port(outside, f"{path}[{number}].hostPort", causes)
            taken = (outside, get("protocol"), get("hostIP"))
            if taken in host_ports:
                shown = f"{get('hostIP') or ''}/{get('protocol')}/{outside}"
                causes.append(duplicate(f"{path}[{number}].hostPort", shown))
            host_ports.add(taken)
        if get("protocol") not in PROTOCOLS:
            causes.append(not_supported(f"{path}[{number}].protocol", get("protocol"), PROTOCOLS))


def _check_env(env: Sequence[Object], path: str, causes: list[StatusCause]) -> None:
    for number, variable in enumerate(env):
        name = variable.get("name")
        if not name:
            causes.append(required(f"{path}[{number}].name"))
        elif not _ENV_NAME.fullmatch(name):
            detail = "a valid environment variable name must consist only of printable ASCII characters other than '='"
            causes.append(invalid_value(f"{path}[{number}].name", name, detail))
        source = variable.get("valueFrom")
        if source is not None:
            _check_env_source(source, variable, f"{path}[{number}].valueFrom", causes)


def _check_env_source(source: Object, variable: Object, path: str, causes: list[StatusCause]) -> None:
    given = [name for name in _ENV_SOURCES if source.get(name) is not None]
    field = source.get("fieldRef")
    if field is not None:
        _check_field_reference(field, f"{path}.fieldRef", causes)
    whole = source.get("resourceFieldRef")
    if whole is not None and not whole.get("resource"):
        causes.append(required(f"{path}.resourceFieldRef.resource"))
    for name in ("configMapKeyRef", "secretKeyRef"):
        key = source.get(name)
        if key is not None:
            if not key.get("key"):
                causes.append(required(f"{path}.{name}.key"))
            if not key.get("name"):
                causes.append(required(f"{path}.{name}.name"))
    if not given:
        detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        causes.append(invalid_value(path, "", detail))
    elif variable.get("value"):
        causes.append(invalid_value(path, "", "may not be specified when `value` is not empty"))
    if len(given) > 1:
        causes.append(invalid_value(path, "", "may not have more than one field specified at a time"))


def _check_field_reference(reference: Object, path: str, causes: list[StatusCause]) -> None:
    field = reference.get("fieldPath")
    if not field:
        causes.append(required(f"{path}.fieldPath"))
    elif field not in _FIELD_PATHS and not _FIELD_WITH_KEY.fullmatch(field):
        detail = f"error converting fieldPath: field label not supported: {field}"
        causes.append(invalid_value(f"{path}.fieldPath", field, detail))


def _check_env_from(sources: Sequence[Object], path: str, causes: list[StatusCause]) -> None:
    for number, source in enumerate(sources):
        given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in given:
            if not source[name].get("name"):
                causes.append(required(f"{path}[{number}].{name}.name"))
            else:
                check_subdomain(source[name]["name"], f"{path}[{number}].{name}", ".name", causes)
        if not given:
            causes.append(invalid_value(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            causes.append(invalid_value(path, "", "may not have more than one field specified at a time"))


def _check_mounts(mounts: Sequence[Object], path: str, volumes: Collection[str], causes: list[StatusCause]) -> None:
    paths: set[str] = set()
    for number, mount in enumerate(mounts):
        name = mount.get("name")
        if not name:
            causes.append(required(f"{path}[{number}].name"))
        if name not in volumes:
            causes.append(not_found_value(f"{path}[{number}].name", name or ""))
        where = mount.get("mountPath")
        if not where:
            causes.append(required(f"{path}[{number}].mountPath"))
        elif where in paths:
            causes.append(invalid_value(f"{path}[{number}].mountPath", where, "must be unique"))
        paths.add(where or "")
        below = mount.get("subPath")
        if below:
            check_local_path(below, f"{path}[{number}].subPath", causes)
        expression = mount.get("subPathExpr")
        if expression:
            if below:
                detail = "subPathExpr and subPath are mutually exclusive"
                causes.append(invalid_value(f"{path}[{number}].subPathExpr", expression, detail))
            check_local_path(expression, f"{path}[{number}].subPathExpr", causes)
        propagation = mount.get("mountPropagation")
        if propagation and propagation not in _PROPAGATIONS:
            causes.append(not_supported(f"{path}[{number}].mountPropagation", propagation, _PROPAGATIONS))


def check_local_path(value: str, path: str, causes: list[StatusCause]) -> None:
    """A path below something, that does not leave it."""
    if value.startswith("/"):
        causes.append(invalid_value(path, value, "must be a relative path"))
    if ".." in value.split("/"):
        causes.append(invalid_value(path, value, "must not contain '..'"))


def _check_probe(probe: Object, path: str, name: str, causes: list[StatusCause]) -> None:
    _check_handler(probe, path, _HANDLERS, causes)
    for field in _PROBE_NUMBERS:
        number = probe.get(field)
        if number is not None and number < 0:
            causes.append(invalid_value(f"{path}.{field}", number, NOT_NEGATIVE))
    if name != "readinessProbe" and probe.get("successThreshold") != 1:
        causes.append(invalid_value(f"{path}.successThreshold", probe.get("successThreshold"), "must be 1"))
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None:
        if name == "readinessProbe":
            detail = "must not be set for readinessProbes"
            causes.append(invalid_value(f"{path}.terminationGracePeriodSeconds", grace, detail))
        elif grace <= 0:
            causes.append(invalid_value(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0"))


def _check_handler(handler: Object, path: str, known: Sequence[str], causes: list[StatusCause]) -> None:
    found = 0
    for name in known:
        action = handler.get(name)
        if action is None:
            continue
        found += 1
        if found > 1:
            causes.append(forbidden_value(f"{path}.{name}", "may not specify more than 1 handler type"))
        elif name == "exec":
            if not action.get("command"):
                causes.append(required(f"{path}.exec.command"))
        elif name == "httpGet":
            if not action.get("path"):
                causes.append(required(f"{path}.httpGet.path"))
            check_port_or_name(action.get("port"), f"{path}.httpGet.port", causes)
            if action.get("scheme") not in ("HTTP", "HTTPS"):
                causes.append(not_supported(f"{path}.httpGet.scheme", action.get("scheme"), ("HTTP", "HTTPS")))
        elif name == "tcpSocket":
            check_port_or_name(action.get("port"), f"{path}.tcpSocket.port", causes)
        elif name == "grpc":
            check_port(action.get("port") or 0, f"{path}.grpc.port", causes)
    if not found:
        causes.append(required(path, "must specify a handler type"))
