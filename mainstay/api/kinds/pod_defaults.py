"""What a pod spec says when it says nothing: the defaults of pods and of all templates of pods.

Straight code over dicts, because every pod that is created goes through it. Nothing is copied; what is there stays.
"""

from typing import Any

from mainstay.api.kind import Object
from mainstay.api.kinds.declare import child

_READABLE_BY_ALL = 0o644
_TOKEN_LIFETIME_S = 3600
_MODE_SOURCES = ("secret", "configMap", "downwardAPI", "projected")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def default_pod(pod: Object) -> None:
    """Fill in a Pod. A few defaults hold for pods and not for templates: a template is not a pod yet."""
    child(pod, "metadata")
    spec = child(pod, "spec")
    default_pod_spec(spec)
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    uses_host_network = spec.get("hostNetwork")
    for group in ("containers", "initContainers"):
        for container in spec.get(group) or ():
            resources = container["resources"]
            limits = resources.get("limits")
            if limits:
                _request_what_is_limited(resources, limits)
            if uses_host_network:
                for port in container.get("ports") or ():
                    if not port.get("hostPort") and port.get("containerPort"):
                        port["hostPort"] = port["containerPort"]
    whole = spec.get("resources")
    if whole and whole.get("limits"):
        _request_what_is_limited(whole, whole["limits"])


def _request_what_is_limited(resources: Object, limits: Object) -> None:
    requests = resources.get("requests")
    if requests is None:
        requests = resources["requests"] = {}
    for name, amount in limits.items():
        if name not in requests:
            requests[name] = amount


def default_template(parent: Object, key: str = "template") -> None:
    """Fill in the template of pods under a key of a workload's spec."""
    template = child(parent, key)
    child(template, "metadata")
    default_pod_spec(child(template, "spec"))


def default_pod_spec(spec: Object) -> None:
    get = spec.get
    for container in get("initContainers") or ():
        default_container(container)
    for container in get("containers") or ():
        default_container(container)
    ephemeral = get("ephemeralContainers")
    if ephemeral:
        for container in ephemeral:
            default_container(container)
    if not get("restartPolicy"):
        spec["restartPolicy"] = "Always"
    if get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    if not get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirst"
    if get("securityContext") is None:
        spec["securityContext"] = {}
    if not get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"
    _name_account_twice(spec)
    volumes = get("volumes")
    if volumes:
        for volume in volumes:
            default_volume(volume)


def _name_account_twice(spec: Object) -> None:
    # `serviceAccount` is the old name of the field. The real server always answers with both.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def default_container(container: Object) -> None:
    get = container.get
    if get("resources") is None:
        container["resources"] = {}
    if not get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    if not get("imagePullPolicy"):
        container["imagePullPolicy"] = "Always" if _is_latest(get("image") or "") else "IfNotPresent"
    ports = get("ports")
    if ports:
        for port in ports:
            if not port.get("protocol"):
                port["protocol"] = "TCP"
    env = get("env")
    if env:
        for variable in env:
            source = variable.get("valueFrom")
            if source and source.get("fieldRef"):
                _default_field_reference(source["fieldRef"])
    for name in _PROBES:
        probe = get(name)
        if probe is not None:
            _default_probe(probe)
    lifecycle = get("lifecycle")
    if lifecycle:
        for hook in (lifecycle.get("postStart"), lifecycle.get("preStop")):
            if hook and hook.get("httpGet") is not None:
                _default_http_get(hook["httpGet"])


def _is_latest(image: str) -> bool:
    if "@" in image:
        return False
    _, colon, tag = image.rpartition(":")
    return not colon or "/" in tag or tag == "latest"


def _default_probe(probe: Object) -> None:
    if not probe.get("timeoutSeconds"):
        probe["timeoutSeconds"] = 1
    if not probe.get("periodSeconds"):
        probe["periodSeconds"] = 10
    if not probe.get("successThreshold"):
        probe["successThreshold"] = 1
    if not probe.get("failureThreshold"):
        probe["failureThreshold"] = 3
    http_get = probe.get("httpGet")
    if http_get is not None:
        _default_http_get(http_get)
    grpc = probe.get("grpc")
    if grpc is not None and grpc.get("service") is None:
        grpc["service"] = ""


def _default_http_get(http_get: Object) -> None:
    if not http_get.get("path"):
        http_get["path"] = "/"
    if not http_get.get("scheme"):
        http_get["scheme"] = "HTTP"


def _default_field_reference(reference: Object) -> None:
    if not reference.get("apiVersion"):
        reference["apiVersion"] = "v1"


def default_volume(volume: Object) -> None:
    get = volume.get
    if len(volume) <= 1:  # Nothing but its name.
        volume["emptyDir"] = {}
        return
    for kind in _MODE_SOURCES:
        source = get(kind)
        if source is not None:
            if source.get("defaultMode") is None:
                source["defaultMode"] = _READABLE_BY_ALL
            if kind == "downwardAPI":
                _default_downward_items(source)
            elif kind == "projected":
                for each in source.get("sources") or ():
                    _default_projection(each)
            return
    host_path = get("hostPath")
    if host_path is not None and host_path.get("type") is None:
        host_path["type"] = ""
    ephemeral = get("ephemeral")
    if ephemeral and ephemeral.get("volumeClaimTemplate"):
        default_claim_spec(child(ephemeral["volumeClaimTemplate"], "spec"))


def _default_projection(source: Object) -> None:
    token = source.get("serviceAccountToken")
    if token is not None and token.get("expirationSeconds") is None:
        token["expirationSeconds"] = _TOKEN_LIFETIME_S
    downward = source.get("downwardAPI")
    if downward is not None:
        _default_downward_items(downward)


def _default_downward_items(source: Object) -> None:
    for item in source.get("items") or ():
        reference: Any = item.get("fieldRef")
        if reference is not None:
            _default_field_reference(reference)


def default_claim_spec(spec: Object) -> None:
    """Fill in what a PersistentVolumeClaim asks for, wherever such a claim is written."""
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"
    child(spec, "resources")
