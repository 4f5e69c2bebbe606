"""The rows of who may do what, and of the certificates that say who one is."""

from collections.abc import Callable
from datetime import timedelta

from mainstay.api.kind import Object
from mainstay.api.tables.fields import has, objects, text, whole
from mainstay.api.tables.table import AGE, DEFAULT, NAME, filled, of, table, text_at
from mainstay.api.tables.texts import NONE
from mainstay.api.times import human_duration

_EXPIRATION_S_MAX = 2**31 - 1  # The field holds no more.


def _role(binding: Object) -> str:
    return f"{text(binding, 'roleRef.kind')}/{text(binding, 'roleRef.name')}"


def _subjects(kind: str) -> Callable[[Object], str]:
    def write(binding: Object) -> str:
        found = [each for each in objects(binding, "subjects") if each.get("kind") == kind]
        names = [text(each, "name") for each in found]
        if kind == "ServiceAccount":
            names = [f"{text(each, 'namespace')}/{name}" for each, name in zip(found, names, strict=True)]
        return ", ".join(names)

    return write


def _request_condition(request: Object) -> str:
    given = [each.get("type") for each in objects(request, "status.conditions")]
    decision = next((decision for decision in ("Denied", "Approved") if decision in given), "Pending")
    failed = ",Failed" if "Failed" in given else ""
    issued = ",Issued" if text(request, "status.certificate") else ""
    return f"{decision}{failed}{issued}"


def _requested_duration(request: Object) -> str:
    if not has(request, "spec.expirationSeconds"):
        return NONE
    return human_duration(timedelta(seconds=min(max(whole(request, "spec.expirationSeconds"), 0), _EXPIRATION_S_MAX)))


def _pod_request_state(request: Object) -> str:
    state = "Pending"
    for condition in objects(request, "status.conditions"):
        if (named := text(condition, "type")) in ("Issued", "Denied", "Failed"):
            state = named
    return state


_BINDING = table(
    NAME,
    filled("Role", of(_role), "The role that is given."),
    AGE,
    filled("Users", of(_subjects("User")), "The users who get it.", wide=True),
    filled("Groups", of(_subjects("Group")), "The groups that get it.", wide=True),
    filled("ServiceAccounts", of(_subjects("ServiceAccount")), "The service accounts that get it.", wide=True),
)

TABLES = {
    ("rbac.authorization.k8s.io", "Role"): DEFAULT,
    ("rbac.authorization.k8s.io", "ClusterRole"): DEFAULT,
    ("rbac.authorization.k8s.io", "RoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _BINDING,
    ("certificates.k8s.io", "CertificateSigningRequest"): table(
        NAME,
        AGE,
        filled("SignerName", text_at("spec.signerName", NONE), "Who shall sign it."),
        filled("Requestor", text_at("spec.username"), "Who asks."),
        filled("RequestedDuration", of(_requested_duration), "How long the certificate shall last."),
        filled("Condition", of(_request_condition), "What has been decided and done."),
    ),
    ("certificates.k8s.io", "ClusterTrustBundle"): table(
        NAME, filled("SignerName", text_at("spec.signerName", NONE), "Whose certificates it vouches for.")
    ),
    ("certificates.k8s.io", "PodCertificateRequest"): table(
        NAME,
        filled("PodName", text_at("spec.podName"), "The pod it is for."),
        filled("ServiceAccountName", text_at("spec.serviceAccountName"), "The account of that pod."),
        filled("NodeName", text_at("spec.nodeName"), "Where the pod runs."),
        filled("SignerName", text_at("spec.signerName"), "Who shall sign it."),
        filled("State", of(_pod_request_state), "What has been decided."),
    ),
}
