"""The FlowSchemas and PriorityLevelConfigurations that are there from the beginning, as in Kubernetes 1.36.

One differs: the controllers, which are users here and service accounts of `kube-system` there, are subjects of
`kube-controller-manager`.

The mandatory ones (`exempt`, `catch-all`) are part of what the kinds are (api/kinds/flowcontrol.py), and always put
back. The suggested ones are put back too, unless their annotation says that users manage them.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kinds.flowcontrol import CATCH_ALL, EVERYTHING, EXEMPT, MANDATORY_LEVELS, MANDATORY_SCHEMAS
from mainstay.api.kinds.flowcontrol import group_subject as _group
from mainstay.server.auth.identities import CONTROLLER_USERS, CONTROLLERS, SCHEDULER

AUTO_UPDATE: Final = "apf.kubernetes.io/autoupdate-spec"
"""The annotation by which this server reconciles an object ("true") or leaves it alone ("false")."""


def _level(shares: int, lendable: int, queues: int, hand_size: int) -> Object:
    queuing = {"queues": queues, "handSize": hand_size, "queueLengthLimit": 50}
    limited = {
        "nominalConcurrencyShares": shares,
        "limitResponse": {"type": "Queue", "queuing": queuing},
        "lendablePercent": lendable,
    }
    return {"type": "Limited", "limited": limited}


def _user(name: str) -> Object:
    return {"kind": "User", "user": {"name": name}}


def _resources(verbs: Sequence[str], group: str, resources: Sequence[str], *, is_cluster_scope: bool = False) -> Object:
    rule: Object = {"verbs": [*verbs], "apiGroups": [group], "resources": [*resources], "namespaces": ["*"]}
    return {**rule, "clusterScope": True} if is_cluster_scope else rule


def _schema(
    precedence: int, level: str, method: str, subjects: Sequence[Object], rules: Mapping[str, object]
) -> Object:
    spec: Object = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence}
    if method:
        spec["distinguisherMethod"] = {"type": method}
    return {**spec, "rules": [{"subjects": [*subjects], **rules}]}


_ALL_USERS: Final = (_group("system:unauthenticated"), _group("system:authenticated"))
_NODES: Final = (_group("system:nodes"),)
_MANAGER: Final = _user(CONTROLLERS.name)
_SCHEDULER: Final = _user(SCHEDULER.name)
_SYSTEM_ACCOUNTS: Final = {"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "*"}}

LEVELS: Final[Mapping[str, Object]] = {
    **MANDATORY_LEVELS,
    "system": _level(30, 33, 64, 6),
    "node-high": _level(40, 25, 64, 6),
    "leader-election": _level(10, 0, 16, 4),
    "workload-high": _level(40, 50, 128, 6),
    "workload-low": _level(100, 90, 128, 6),
    "global-default": _level(20, 50, 128, 6),
}

SCHEMAS: Final[Mapping[str, Object]] = {
    **MANDATORY_SCHEMAS,
    "probes": _schema(
        2,
        EXEMPT,
        "",
        _ALL_USERS,
        {"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]},
    ),
    "system-leader-election": _schema(
        100,
        "leader-election",
        "ByUser",
        (_MANAGER, _SCHEDULER, _SYSTEM_ACCOUNTS),
        {"resourceRules": [_resources(("get", "create", "update"), "coordination.k8s.io", ("leases",))]},
    ),
    "system-node-high": _schema(
        400,
        "node-high",
        "ByUser",
        _NODES,
        {
            "resourceRules": [
                _resources(("*",), "", ("nodes", "nodes/status"), is_cluster_scope=True),
                _resources(("*",), "coordination.k8s.io", ("leases",)),
            ]
        },
    ),
    "system-nodes": _schema(500, "system", "ByUser", _NODES, EVERYTHING),
    "kube-controller-manager": _schema(
        800, "workload-high", "ByNamespace", (_MANAGER, *(_user(each.name) for each in CONTROLLER_USERS)), EVERYTHING
    ),
    "kube-scheduler": _schema(800, "workload-high", "ByNamespace", (_SCHEDULER,), EVERYTHING),
    "kube-system-service-accounts": _schema(900, "workload-high", "ByNamespace", (_SYSTEM_ACCOUNTS,), EVERYTHING),
    "service-accounts": _schema(9000, "workload-low", "ByUser", (_group("system:serviceaccounts"),), EVERYTHING),
    "global-default": _schema(9900, "global-default", "ByUser", _ALL_USERS, EVERYTHING),
}

MANDATORY: Final = frozenset({EXEMPT, CATCH_ALL})
