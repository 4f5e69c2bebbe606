"""The roles and bindings that every cluster has, as data.

A line of a role is `VERBS GROUP RESOURCE…`, where `core` is the group without a name, and `read`, `write` and `all`
stand for the usual verbs. After `=` are the names of the only objects it is about. `VERBS path PATH…` is about pages.
They are those of Kubernetes 1.36, without what is for parts that Mainstay does not have (cloud providers, volume
plug-ins, proxies, the API group `extensions`). Mainstay's own kinds are added where a user of
a role needs them. The roles of the scheduler and the controllers are what those of Mainstay need, which is less.
"""

from typing import Final

from msgspec import Struct

from mainstay.server.auth import identities
from mainstay.server.auth.authorization import (
    AUTHENTICATED,
    BOOTSTRAPPERS,
    MASTERS,
    MONITORING,
    NODES,
    SERVERS,
    UNAUTHENTICATED,
)
from mainstay.server.rbac.rules import PolicyRule

AGGREGATE: Final = "rbac.authorization.k8s.io/aggregate-to-"
_SCHEDULER: Final = identities.SCHEDULER.name
_CONTROLLERS: Final = identities.CONTROLLERS.name
_CLUSTER_INFO: Final = "system:mainstay:cluster-info"

_VERBS: Final = {
    "read": ("get", "list", "watch"),
    "write": ("create", "delete", "deletecollection", "patch", "update"),
    "all": ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
}

_CLUSTER_ROLES: Final = {
    "cluster-admin": """
        * * *
        * path *
    """,
    "system:discovery": (
        "get path /api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/"
    ),
    "system:public-info-viewer": "get path /healthz /livez /readyz /version /version/",
    "system:monitoring": """
        get path /metrics /metrics/slis /livez /readyz /healthz /livez/* /readyz/* /healthz/*
        get core nodes/metrics
    """,
    "system:basic-user": """
        create authorization.k8s.io selfsubjectaccessreviews selfsubjectrulesreviews
        create authentication.k8s.io selfsubjectreviews
    """,
    "system:service-account-issuer-discovery": """
        get path /.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/
    """,
    "system:auth-delegator": """
        create authentication.k8s.io tokenreviews
        create authorization.k8s.io subjectaccessreviews
    """,
    "system:kubelet-api-admin": """
        read core nodes
        proxy core nodes
        * core nodes/log nodes/metrics nodes/proxy nodes/stats
        * core nodes/configz nodes/healthz nodes/pods
    """,
    "system:node-problem-detector": """
        get core nodes
        patch core nodes/status
        create,patch,update core events
        create,patch,update events.k8s.io events
    """,
    "system:persistent-volume-provisioner": """
        create,delete,get,list,watch core persistentvolumes
        get,list,update,watch core persistentvolumeclaims
        read storage.k8s.io storageclasses
        create,patch,update,watch core events
        create,patch,update events.k8s.io events
    """,
    # With a bootstrap token. What is approved at once, auth/node_claims.py says.
    "system:node-bootstrapper": "create,get certificates.k8s.io certificatesigningrequests",
    "system:certificates.k8s.io:kube-apiserver-client-approver": """
        approve certificates.k8s.io signers = kubernetes.io/kube-apiserver-client
    """,
    "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver": """
        approve certificates.k8s.io signers = kubernetes.io/kube-apiserver-client-kubelet
    """,
    "system:certificates.k8s.io:kubelet-serving-approver": """
        approve certificates.k8s.io signers = kubernetes.io/kubelet-serving
    """,
    "system:kube-dns": "list,watch core endpoints services",
    "system:aggregate-to-admin": """
        create authorization.k8s.io localsubjectaccessreviews
        all rbac.authorization.k8s.io roles rolebindings
    """,
    "system:aggregate-to-edit": """
        read core pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy
        impersonate core serviceaccounts
        write core pods pods/attach pods/exec pods/portforward pods/proxy
        create core pods/eviction
        write core configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale
        write core secrets serviceaccounts services services/proxy
        create core serviceaccounts/token
        write events.k8s.io events
        write apps daemonsets deployments deployments/scale replicasets replicasets/scale
        write apps statefulsets statefulsets/scale
        write autoscaling horizontalpodautoscalers
        write batch cronjobs jobs
        write policy poddisruptionbudgets
        write networking.k8s.io ingresses networkpolicies
        all coordination.k8s.io leases
        write resource.k8s.io resourceclaims resourceclaimtemplates
        write mainstay.dev servicelevelobjectives
    """,
    "system:aggregate-to-view": """
        read core configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods serviceaccounts
        read core replicationcontrollers replicationcontrollers/scale services services/status
        read core bindings events limitranges namespaces/status pods/log pods/status replicationcontrollers/status
        read core resourcequotas resourcequotas/status
        read core namespaces
        read events.k8s.io events
        read discovery.k8s.io endpointslices
        read apps controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status
        read apps replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status
        read autoscaling horizontalpodautoscalers horizontalpodautoscalers/status
        read batch cronjobs cronjobs/status jobs jobs/status
        read policy poddisruptionbudgets poddisruptionbudgets/status
        read networking.k8s.io ingresses ingresses/status networkpolicies
        read resource.k8s.io resourceclaims resourceclaims/status resourceclaimtemplates
        read metrics.k8s.io pods
        read mainstay.dev decisions reservations reservations/status zonequotas zonequotas/status
        read mainstay.dev servicelevelobjectives servicelevelobjectives/status
    """,
    # The node authorizer decides what a node may do. The role is there for those who bind it, and bound to no subject.
    "system:node": """
        create authentication.k8s.io tokenreviews
        create authorization.k8s.io localsubjectaccessreviews subjectaccessreviews
        read core services
        create,get,list,watch core nodes
        patch,update core nodes nodes/status
        create,patch,update core events
        create,patch,update events.k8s.io events
        read core pods
        create,delete core pods
        patch,update core pods/status
        create core pods/eviction
        read core configmaps secrets
        get core endpoints persistentvolumeclaims persistentvolumes serviceaccounts
        get,patch,update core persistentvolumeclaims/status
        create core serviceaccounts/token
        create,delete,get,patch,update coordination.k8s.io leases
        create,get,list,watch certificates.k8s.io certificatesigningrequests
        create,delete,get,patch,update storage.k8s.io csinodes
        read storage.k8s.io csidrivers
        get storage.k8s.io volumeattachments
        read node.k8s.io runtimeclasses
        post path /journal/decisions
    """,
    # With a pod network, a node has routes to the pods of all others.
    "system:mainstay:node-routes": """
        list,watch core nodes
    """,
    # Of Mainstay's own kinds: what a component says of itself, and what it is told.
    "system:mainstay:component": """
        create,patch,update core events
        create,patch,update events.k8s.io events
        create,get,list,patch,update,watch mainstay.dev componentstates componentstates/status
        read mainstay.dev controllersettings holds placementpolicies policyrollouts reservations samplingpolicies
        read mainstay.dev zonequotas
        post path /journal/decisions
    """,
    # For people who explain what happens in the whole cluster. A page of the journal shows all namespaces.
    "system:mainstay:journal-reader": """
        get path /journal/*
        read mainstay.dev decisions
    """,
    # For nightly backups. A backup has everything, the values of Secrets too.
    "system:mainstay:backup": "get path /mainstay/backup /mainstay/verify",
    _SCHEDULER: """
        read core nodes pods
        get core nodes/ghosts
        patch,update core pods/status
        create core pods/binding
        create mainstay.dev bindings
    """,
    # What is in the caches that all controllers share. What each of them writes, it writes as a user of its own.
    _CONTROLLERS: f"""
        list,watch core endpoints namespaces nodes pods replicationcontrollers services
        list,watch core configmaps = kube-root-ca.crt
        list,watch core serviceaccounts = default
        list,watch apps deployments replicasets statefulsets
        list,watch autoscaling horizontalpodautoscalers
        list,watch batch jobs
        list,watch discovery.k8s.io endpointslices
        list,watch policy poddisruptionbudgets
        list,watch mainstay.dev componentstates servicelevelobjectives
        impersonate core users = {" ".join(user.name for user in identities.CONTROLLER_USERS)}
    """,
}

# By the name of the controller, which acts as the user of that name (identities.py). To `list` tells a controller
# whether a write was committed whose answer was lost.
_CONTROLLER_ROLES: Final = {
    "deployment": """
        get,list,patch apps deployments
        patch apps deployments/status
        create,delete,get,list,patch apps replicasets
    """,
    "deployment-progress": """
        get,list apps deployments
        patch apps deployments/status
    """,
    "replicaset": """
        get,list apps replicasets
        patch apps replicasets/status
        create,delete,get,list,patch core pods
    """,
    "replicaset-progress": """
        get,list apps replicasets
        patch apps replicasets/status
    """,
    "job": """
        delete,get,list batch jobs
        patch batch jobs/status
        create,delete,get,list,patch core pods
    """,
    "job-progress": """
        get,list batch jobs
        patch batch jobs/status
    """,
    "disruption-budget": """
        get,list policy poddisruptionbudgets
        patch policy poddisruptionbudgets/status
    """,
    "service-level-objective": """
        get,list mainstay.dev servicelevelobjectives
        patch mainstay.dev servicelevelobjectives/status
    """,
    "serviceaccount": """
        get,list core namespaces
        patch core namespaces/status
        create core serviceaccounts
        get,list core serviceaccounts = default
    """,
    "root-ca": """
        create core configmaps
        delete,get,list,patch core configmaps = kube-root-ca.crt
    """,
    "endpoints": """
        get,list core services
        create,delete,get,list,patch core endpoints
    """,
    "endpoint-slice": """
        get,list core services
        patch core services/status
        create,delete,get,list,patch discovery.k8s.io endpointslices
    """,
    "serving": """
        get,list core pods
        patch core pods/status
    """,
    "holds": """
        delete,get,list mainstay.dev holds
        patch mainstay.dev holds/status
    """,
    # Whatever has a scale can be its target.
    "horizontal-pod-autoscaler": """
        get,list autoscaling horizontalpodautoscalers
        patch autoscaling horizontalpodautoscalers/status
        get apps deployments replicasets
        get,patch * */scale
        list core pods
        list metrics.k8s.io pods
        get custom.metrics.k8s.io *
        list mainstay.dev componentstates zonequotas
    """,
    "node-health": """
        patch core nodes nodes/status pods/status
        delete core pods
        create core events
    """,
    "pod-garbage": "delete core pods",
    "policy-rollout": """
        get,list mainstay.dev policyrollouts
        patch mainstay.dev policyrollouts/status
        get,list,patch mainstay.dev placementpolicies
    """,
    "repair": """
        get core namespaces nodes
        get apps deployments replicasets
        get batch jobs
        delete core pods
        create core events namespaces/recount nodes/recount
        patch mainstay.dev reservations/status
        create mainstay.dev componentstates
        get,patch mainstay.dev componentstates componentstates/status = repair
    """,
    # These two reach every kind, and see metadata alone (auth/cleanup_restriction.py).
    "namespace": """
        delete,list * *
        get core namespaces
        patch core namespaces/status
        update core namespaces/finalize
    """,
    "owner-cleanup": """
        delete,get,list,patch,watch * *
        create core events
    """,
}
_NODE_LEASES: Final = "create,delete,get,update coordination.k8s.io leases"

# By namespace.
_ROLES: Final = {
    "kube-system": {
        "extension-apiserver-authentication-reader": "read core configmaps = extension-apiserver-authentication",
        "system::leader-locking-kube-scheduler": "create,get,list,update,watch coordination.k8s.io leases",
        "system::leader-locking-kube-controller-manager": "create,get,list,update,watch coordination.k8s.io leases",
    },
    # The only object that unknown users may read: how a machine that joins checks the server (auth/cluster_info.py).
    "kube-public": {_CLUSTER_INFO: "get core configmaps = cluster-info"},
    "kube-node-lease": {
        _CONTROLLERS: "list,watch coordination.k8s.io leases",
        identities.build_controller_user("node-health").name: _NODE_LEASES,
        identities.build_controller_user("repair").name: _NODE_LEASES,
    },
}

_AGGREGATING: Final = ("admin", "edit", "view")
_EVERY: Final = (AUTHENTICATED, UNAUTHENTICATED)


class BootstrapRole(Struct, frozen=True):
    namespace: str
    """Empty: a ClusterRole."""
    name: str
    rules: tuple[PolicyRule, ...]
    aggregates: str = ""
    """The label of the ClusterRoles whose rules it has."""
    label: str = ""
    """By which others aggregate it."""


class BootstrapBinding(Struct, frozen=True):
    namespace: str
    name: str
    role: tuple[str, str]
    """The kind and the name of the role."""
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


def _parse_line(line: str) -> PolicyRule:
    words, _, names = line.partition("=")
    verbs, group, *rest = words.split()
    parsed = _VERBS.get(verbs) or tuple(verbs.split(","))
    if group == "path":
        return PolicyRule(parsed, paths=tuple(rest))
    return PolicyRule(parsed, ("" if group == "core" else group,), tuple(rest), tuple(names.split()))


def parse_rules(text: str) -> tuple[PolicyRule, ...]:
    return tuple(_parse_line(line) for line in text.strip().splitlines())


def _list_roles() -> tuple[BootstrapRole, ...]:
    texts = {**_CLUSTER_ROLES}
    texts |= {identities.build_controller_user(name).name: text for name, text in _CONTROLLER_ROLES.items()}
    roles = []
    for name, text in texts.items():
        to = name.removeprefix("system:aggregate-to-")
        roles.append(BootstrapRole("", name, parse_rules(text), label="" if to == name else AGGREGATE + to))
    for name, above in zip(_AGGREGATING, ("", *_AGGREGATING), strict=False):
        roles.append(BootstrapRole("", name, (), AGGREGATE + name, AGGREGATE + above if above else ""))
    for namespace, own in _ROLES.items():
        roles += [BootstrapRole(namespace, name, parse_rules(text)) for name, text in own.items()]
    return tuple(roles)


def _list_bindings() -> tuple[BootstrapBinding, ...]:
    def bind(name: str, *, users: tuple[str, ...] = (), groups: tuple[str, ...] = ()) -> BootstrapBinding:
        return BootstrapBinding("", name, ("ClusterRole", name), users, groups)

    def bind_in(namespace: str, name: str, user: str) -> BootstrapBinding:
        return BootstrapBinding(namespace, name, ("Role", name), (user,))

    return (
        bind("cluster-admin", groups=(MASTERS,)),
        bind("system:discovery", groups=(AUTHENTICATED,)),
        bind("system:basic-user", groups=(AUTHENTICATED,)),
        bind("system:public-info-viewer", groups=_EVERY),
        bind("system:monitoring", groups=(MONITORING,)),
        bind("system:service-account-issuer-discovery", groups=("system:serviceaccounts",)),
        bind("system:node"),
        bind("system:mainstay:node-routes", groups=(NODES,)),
        bind("system:node-bootstrapper", groups=(BOOTSTRAPPERS,)),
        bind("system:mainstay:journal-reader", groups=(SERVERS,)),
        bind("system:mainstay:component", users=(_SCHEDULER, _CONTROLLERS)),
        bind(_SCHEDULER, users=(_SCHEDULER,)),
        bind(_CONTROLLERS, users=(_CONTROLLERS,)),
        *(bind(user.name, users=(user.name,)) for user in identities.CONTROLLER_USERS),
        BootstrapBinding("kube-public", _CLUSTER_INFO, ("Role", _CLUSTER_INFO), groups=_EVERY),
        bind_in("kube-system", "system::leader-locking-kube-scheduler", _SCHEDULER),
        bind_in("kube-system", "system::leader-locking-kube-controller-manager", _CONTROLLERS),
        *(bind_in("kube-node-lease", name, name) for name in _ROLES["kube-node-lease"]),
    )


ROLES: Final = _list_roles()
BINDINGS: Final = _list_bindings()
