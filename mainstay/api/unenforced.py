"""Accepted and not enforced: the one table of kinds and fields that the API stores and that nothing acts on.

What is accepted is enforced; what is not enforced is refused, or the client is warned. A change that makes a component
act on a field deletes its row here. Readers: admission (a `Warning` header, or 422 for a row that is refused), `plan`
and `why` (all by unenforced_search.py), and docs/compatibility.md, which a test keeps equal to this table. Another
test fails for a field of the schema that is neither here nor known to be acted on (tests/api/enforced_fields.py).

Rows that say `refused` promise isolation that is not given: to accept them would be worse than to say no. Rows that
`stays` are so by design. Those that are not `warned` are only documented: their value is a default that clients cannot
leave out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mainstay.api.controller_names import WITH_QUEUE
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import (
    AUTOSCALERS,
    CONTROLLER_SETTINGS,
    CRON_JOBS,
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    DAEMON_SETS,
    DEFINITIONS,
    DEVICE_CLASSES,
    ENDPOINT_SLICES,
    ENDPOINTS,
    INGRESS_CLASSES,
    INGRESSES,
    LEASES,
    LIMIT_RANGES,
    NETWORK_POLICIES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    PRIORITY_CLASSES,
    REPLICATION_CONTROLLERS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    RUNTIME_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    SIGNING_REQUESTS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    VOLUME_ATTRIBUTES_CLASSES,
)
from mainstay.api.signer_names import CLIENT_SIGNER, NODE_CLIENT_SIGNER, NODE_SERVING_SIGNER

PROCESS: Final = "process"
"""The runner whose containers are processes of the node."""


@dataclass(frozen=True, slots=True)
class UnenforcedKind:
    """A kind whose objects are stored, and that no component of Mainstay acts on."""

    kind: KindName
    text: str
    """What is not done, and what to do instead."""


@dataclass(frozen=True, slots=True)
class UnenforcedSubresource:
    """A subresource whose writes are stored, and that nothing acts on."""

    kind: KindName
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnenforcedField:
    """A field that is stored, and that nothing acts on. It matters when it is set, and all conditions hold."""

    kind: KindName
    path: str
    """`spec.containers[*].stdinOnce`. Of a pod, it is also found in templates of pods and in init containers."""
    text: str
    """What happens instead, and what to do."""
    only: tuple[Any, ...] = ()
    """It matters only with one of these values."""
    but: tuple[Any, ...] = ()
    """It does not matter with one of these values: they are what happens anyway."""
    when: Callable[[Any, Mapping[str, Any]], bool] | None = None
    """It matters if this is true of the value and of what the field is in."""
    runner: str = ""
    """Only with this runner; empty: with all."""
    warned: bool = True
    refused: bool = False
    stays: bool = False


def _has_no_command(image: Any, container: Mapping[str, Any]) -> bool:
    return not container.get("command")


def _asks_for_huge_pages(medium: Any, volume: Mapping[str, Any]) -> bool:
    return str(medium).startswith("HugePages")


def _has_address(type_: Any, spec: Mapping[str, Any]) -> bool:
    return spec.get("clusterIP") != "None"


def _is_confined(profile: Any, context: Mapping[str, Any]) -> bool:
    return bool(profile.get("type") != "Unconfined")


def _is_unprivileged(value: Any, context: Mapping[str, Any]) -> bool:
    return not context.get("privileged")


def _needs_low_port(containers: Any, spec: Mapping[str, Any]) -> bool:
    """Whether a container in a user namespace, so without rights on the network, says that it listens below 1024."""
    is_pod = spec.get("hostUsers") is False or _names_ids(spec.get("securityContext"))
    return any(
        (is_pod or _names_ids(each.get("securityContext")))
        and _is_unprivileged(each, each.get("securityContext") or {})
        and any(isinstance(port.get("containerPort"), int) and port["containerPort"] < 1024 for port in each["ports"])
        for each in containers
        if each.get("ports")
    )


def _names_ids(context: Any) -> bool:
    return bool(context) and any(context.get(name) not in (None, []) for name in _IDS)


def _is_required(source: Any, projection: Mapping[str, Any]) -> bool:
    return not source.get("optional")


def _has_rules(schema: Any, version: Mapping[str, Any]) -> bool:
    """Whether a schema has CEL rules, however deep."""
    if isinstance(schema, dict):
        if schema.get("x-kubernetes-validations"):
            return True
        return any(_has_rules(each, version) for each in schema.values())
    return isinstance(schema, list) and any(_has_rules(each, version) for each in schema)


def _has_no_queue(name: Any, metadata: Mapping[str, Any]) -> bool:
    return isinstance(name, str) and name not in ("", "default") and name not in WITH_QUEUE


def _is_other_signer(name: Any, spec: Mapping[str, Any]) -> bool:
    return name not in (CLIENT_SIGNER, NODE_CLIENT_SIGNER, NODE_SERVING_SIGNER)


def _pod(path: str, text: str, **rest: Any) -> UnenforcedField:
    return UnenforcedField(kind=PODS, path=f"spec.{path}", text=text, **rest)


def _container(path: str, text: str, **rest: Any) -> UnenforcedField:
    return _pod(f"containers[*].{path}", text, **rest)


def _service(path: str, text: str, **rest: Any) -> UnenforcedField:
    return UnenforcedField(kind=SERVICES, path=f"spec.{path}", text=text, **rest)


_IDS: Final = ("runAsUser", "runAsGroup", "fsGroup", "supplementalGroups")
_OWN_CONTROLLER: Final = "or run a controller of your own"
_NO_DRIVER: Final = "there are no storage drivers, the pod would not start: use emptyDir, configMap, secret or hostPath"
_NO_DEVICES: Final = "nothing allocates devices: use a resource that the node lists in its capacity"
_NOT_STARTED: Final = "the agent does not start such a container: leave it out"
_NO_PROXY: Final = "nothing routes traffic to Services"
_NO_DNS: Final = "there is no cluster DNS"
_RESOLVER: Final = "containers use the resolver of their node"
_NO_IMAGES: Final = "the agent pulls no images"

KINDS: Final = (
    UnenforcedKind(STATEFUL_SETS, f"no controller makes its pods: use a Deployment, {_OWN_CONTROLLER}"),
    UnenforcedKind(DAEMON_SETS, f"no controller makes its pods: use a Deployment, {_OWN_CONTROLLER}"),
    UnenforcedKind(CRON_JOBS, f"no controller makes its Jobs: create a Job when it is due, {_OWN_CONTROLLER}"),
    UnenforcedKind(REPLICATION_CONTROLLERS, "no controller makes its pods: use a Deployment"),
    UnenforcedKind(LIMIT_RANGES, "the API server neither checks nor fills in limits: set resources in every container"),
    UnenforcedKind(NETWORK_POLICIES, "nothing blocks traffic: use a firewall on the nodes"),
    UnenforcedKind(INGRESSES, f"no controller routes its traffic: {_OWN_CONTROLLER.removeprefix('or ')}"),
    UnenforcedKind(INGRESS_CLASSES, f"no controller serves Ingresses: {_OWN_CONTROLLER.removeprefix('or ')}"),
    UnenforcedKind(PERSISTENT_VOLUME_CLAIMS, "no controller binds claims: use emptyDir or hostPath volumes"),
    UnenforcedKind(PERSISTENT_VOLUMES, "no controller binds it to a claim: use emptyDir or hostPath volumes"),
    UnenforcedKind(STORAGE_CLASSES, "no controller provisions volumes: use emptyDir or hostPath volumes"),
    UnenforcedKind(VOLUME_ATTRIBUTES_CLASSES, "no controller provisions volumes: use emptyDir or hostPath volumes"),
    UnenforcedKind(VOLUME_ATTACHMENTS, "no controller attaches volumes: use emptyDir or hostPath volumes"),
    UnenforcedKind(CSI_DRIVERS, "agents use no storage drivers: use emptyDir or hostPath volumes"),
    UnenforcedKind(CSI_NODES, "agents use no storage drivers: use emptyDir or hostPath volumes"),
    UnenforcedKind(CSI_STORAGE_CAPACITIES, "the scheduler does not read it: use emptyDir or hostPath volumes"),
    UnenforcedKind(
        RUNTIME_CLASSES, "agents have one runner, and refuse pods that name a class: remove runtimeClassName"
    ),
    UnenforcedKind(DEVICE_CLASSES, _NO_DEVICES),
    UnenforcedKind(RESOURCE_CLAIMS, _NO_DEVICES),
    UnenforcedKind(RESOURCE_CLAIM_TEMPLATES, _NO_DEVICES),
    UnenforcedKind(
        RESOURCE_SLICES, "the scheduler does not read it: use a resource that the node lists in its capacity"
    ),
)

SUBRESOURCES: Final = (
    UnenforcedSubresource(PODS, "resize", "agents do not resize containers that run: delete the pod"),
)

_VOLUMES: Final = (
    *("awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "ephemeral", "fc", "flexVolume"),
    *("flocker", "gcePersistentDisk", "gitRepo", "glusterfs", "image", "iscsi", "nfs", "persistentVolumeClaim"),
    *("photonPersistentDisk", "portworxVolume", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume"),
)

FIELDS: Final = (
    # Refused: it would be worse to accept them.
    _pod("runtimeClassName", "agents have one runner, and no other isolation: remove it", refused=True),
    _container(
        "volumeMounts[*].recursiveReadOnly",
        "mounts below this one stay writable: use IfPossible",
        only=("Enabled",),
        refused=True,
    ),
    # Refused by the agent: the container would wait with CreateContainerConfigError.
    _pod("shareProcessNamespace", _NOT_STARTED, runner=PROCESS),
    _pod("securityContext.sysctls", _NOT_STARTED, runner=PROCESS),
    *(
        row
        for name in ("seLinuxOptions", "windowsOptions")
        for row in (
            _pod(f"securityContext.{name}", _NOT_STARTED, runner=PROCESS),
            _container(f"securityContext.{name}", _NOT_STARTED, runner=PROCESS),
        )
    ),
    _pod("securityContext.appArmorProfile", _NOT_STARTED, when=_is_confined, runner=PROCESS),
    _container("securityContext.appArmorProfile", _NOT_STARTED, when=_is_confined, runner=PROCESS),
    _pod("securityContext.seccompProfile.localhostProfile", _NOT_STARTED, runner=PROCESS),
    _container("securityContext.seccompProfile.localhostProfile", _NOT_STARTED, runner=PROCESS),
    _container("securityContext.procMount", _NOT_STARTED, but=("Default",), runner=PROCESS),
    # Accepted, with less than they say.
    _container(
        "securityContext.allowPrivilegeEscalation",
        "no program gets more rights than the container has: remove it, or set privileged",
        only=(True,),
        when=_is_unprivileged,
        runner=PROCESS,
        stays=True,
    ),
    _pod(
        "containers",
        "a pod that names users or groups cannot listen on a containerPort below 1024: use a higher port, or remove "
        "runAsUser, runAsGroup, fsGroup and supplementalGroups",
        when=_needs_low_port,
        runner=PROCESS,
        stays=True,
    ),
    # Where pods run.
    _pod("affinity.podAffinity", "the scheduler does not read it: use nodeAffinity or a nodeSelector"),
    _pod("affinity.podAntiAffinity", "the scheduler does not read it: use topologySpreadConstraints"),
    _pod("schedulingGroup", "the scheduler places each pod by itself: use a Reservation for each"),
    _pod(
        "preemptionPolicy",
        "the scheduler evicts no pods for others: a higher priority is placed first",
        but=("Never",),
        warned=False,
    ),
    _pod("resourceClaims", _NO_DEVICES),
    _pod("resources.claims", _NO_DEVICES),
    _container("resources.claims", _NO_DEVICES),
    # Containers.
    _container(
        "image",
        f"{_NO_IMAGES}, so the container has nothing to run: set `command` to a program of the node",
        when=_has_no_command,
        runner=PROCESS,
        stays=True,
    ),
    _container("imagePullPolicy", _NO_IMAGES, runner=PROCESS, warned=False, stays=True),
    _pod("imagePullSecrets", f"{_NO_IMAGES}: remove it", runner=PROCESS, stays=True),
    _container("lifecycle.stopSignal", "the agent stops containers with SIGTERM: handle that one", but=("SIGTERM",)),
    *(
        _container(
            f"{probe}.grpc", "the agent does not run it and counts it as succeeded: use exec, httpGet or tcpSocket"
        )
        for probe in ("livenessProbe", "readinessProbe", "startupProbe")
    ),
    _container("restartPolicyRules", "the agent does not look at exit codes: set restartPolicy"),
    _container("resizePolicy", "agents do not resize containers that run: delete the pod"),
    _container("stdinOnce", "the agent keeps stdin open after the first client: end it in the program"),
    _container("env[*].valueFrom.fileKeyRef", "the container would not start: use a ConfigMap or a Secret"),
    _container("resources.limits.ephemeral-storage", "the agent does not limit it: limit it in the program"),
    _pod("resources.limits", "the scheduler counts it, the agent does not limit it: set limits in every container"),
    # Network.
    _container(
        "ports[*].hostPort",
        "the scheduler reserves the port, and nothing forwards it: listen at $POD_IP, or use hostNetwork",
        stays=True,
        runner=PROCESS,
    ),
    _pod("dnsPolicy", f"{_NO_DNS}: {_RESOLVER}", only=("None", "ClusterFirstWithHostNet"), stays=True, runner=PROCESS),
    _pod("dnsConfig", f"{_RESOLVER}: change that of the node", stays=True, runner=PROCESS),
    _pod("hostAliases", "containers use the hosts file of their node: change that one", stays=True, runner=PROCESS),
    _pod("hostname", "only the variable HOSTNAME has it: read that one", runner=PROCESS),
    _pod("hostnameOverride", "only the variable HOSTNAME is set, to the name of the pod: use hostname"),
    _pod("setHostnameAsFQDN", f"{_NO_DNS}: use the address in $POD_IP"),
    _pod("subdomain", f"{_NO_DNS}: read the EndpointSlices of the Service"),
    _pod("enableServiceLinks", "the agent sets no variables for Services: read their EndpointSlices", warned=False),
    # Volumes.
    *(_pod(f"volumes[*].{name}", _NO_DRIVER) for name in _VOLUMES),
    _pod("volumes[*].emptyDir.sizeLimit", "the agent does not limit it: limit it in the program"),
    _pod("volumes[*].emptyDir.medium", "it is a directory on disk: use Memory", when=_asks_for_huge_pages),
    *(
        _pod(
            f"volumes[*].projected.sources[*].{name}",
            "the pod would not start: use a ConfigMap or a Secret",
            when=_is_required,
        )
        for name in ("clusterTrustBundle", "podCertificate")
    ),
    _container("volumeDevices", _NO_DRIVER),
    _container(
        "volumeMounts[*].mountPropagation",
        "mounts do not propagate: mount it in each container",
        but=("None",),
    ),
    # Autoscalers.
    *(
        UnenforcedField(
            kind=AUTOSCALERS,
            path=f"spec.metrics[*].{name}",
            text="the autoscaler does not read such metrics, and says so in ScalingActive: use Resource, "
            "ContainerResource or Pods",
        )
        for name in ("object", "external")
    ),
    UnenforcedField(
        kind=CONTROLLER_SETTINGS,
        path="metadata.name",
        text="no controller of Mainstay with a work queue has this name (`mainstay top queues` lists them): only a "
        "controller of your own with this name follows it",
        when=_has_no_queue,
        stays=True,
    ),
    UnenforcedField(
        kind=SIGNING_REQUESTS,
        path="spec.signerName",
        text="the API server signs for kubernetes.io/kube-apiserver-client, kube-apiserver-client-kubelet and "
        "kubelet-serving only: a controller of your own has to sign it",
        when=_is_other_signer,
        stays=True,
    ),
    # Services.
    _service(
        "type",
        f"{_NO_PROXY}, so its address has no effect: read its EndpointSlices, or set clusterIP: None",
        only=("ClusterIP",),
        when=_has_address,
    ),
    _service("type", f"{_NO_PROXY}, so no node port is open: use the addresses of the pods", only=("NodePort",)),
    _service("type", "nothing creates a load balancer: use the addresses of the pods", only=("LoadBalancer",)),
    _service("externalName", f"{_NO_DNS}, so the name does not resolve: use the external name itself"),
    _service("externalIPs", f"{_NO_PROXY}: use the addresses of the pods"),
    _service("sessionAffinity", f"{_NO_PROXY}: keep sessions in the client", but=("None",)),
    _service("sessionAffinityConfig", f"{_NO_PROXY}: keep sessions in the client", warned=False),
    _service("healthCheckNodePort", f"{_NO_PROXY}, nothing answers there: ask the pods", warned=False),
    _service("loadBalancerIP", "nothing creates a load balancer: use the addresses of the pods"),
    _service("loadBalancerClass", "nothing creates a load balancer: use the addresses of the pods"),
    _service("loadBalancerSourceRanges", "nothing blocks traffic: use a firewall on the nodes"),
    _service("externalTrafficPolicy", f"{_NO_PROXY}: use the addresses of the pods", only=("Local",)),
    _service("internalTrafficPolicy", f"{_NO_PROXY}: choose by nodeName in the EndpointSlices", only=("Local",)),
    _service("trafficDistribution", f"{_NO_PROXY}: choose by zone in the EndpointSlices"),
    UnenforcedField(
        kind=ENDPOINTS, path="subsets", text=f"{_NO_PROXY}, and it is not copied to an EndpointSlice: create one"
    ),
    UnenforcedField(
        kind=ENDPOINT_SLICES, path="endpoints[*].hints", text=f"{_NO_PROXY}: choose by zone in the EndpointSlices"
    ),
    # Others.
    UnenforcedField(
        kind=PRIORITY_CLASSES,
        path="preemptionPolicy",
        text="the scheduler evicts no pods for others, it only places a higher priority first: use Never",
        but=("Never",),
    ),
    UnenforcedField(
        kind=SECRETS,
        path="type",
        text="no controller fills in a token: use `kubectl create token`",
        only=("kubernetes.io/service-account-token",),
    ),
    UnenforcedField(
        kind=SERVICE_ACCOUNTS, path="imagePullSecrets", text=f"{_NO_IMAGES}: remove it", runner=PROCESS, stays=True
    ),
    UnenforcedField(kind=NODES, path="spec.configSource", text="agents do not read it: set the options of the agent"),
    UnenforcedField(kind=NODES, path="spec.externalID", text="nothing reads it: use a label"),
    UnenforcedField(
        kind=LEASES,
        path="spec.strategy",
        text="no controller chooses a leader among candidates: renew the Lease yourself",
    ),
    UnenforcedField(
        kind=LEASES,
        path="spec.preferredHolder",
        text="no controller chooses a leader among candidates: renew the Lease yourself",
    ),
    UnenforcedField(
        kind=DEFINITIONS,
        path="spec.versions[*].schema",
        text="the API server does not run CEL rules (x-kubernetes-validations): check in your controller",
        when=_has_rules,
    ),
    UnenforcedField(
        kind=DEFINITIONS,
        path="spec.conversion.strategy",
        text="the API server calls no webhooks, and changes only apiVersion between versions: serve one version",
        only=("Webhook",),
    ),
)
