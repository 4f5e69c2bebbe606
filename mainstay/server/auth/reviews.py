"""Reviews: questions about who a user is and what they may do. Nothing is stored."""

from typing import Any

from mainstay.api.errors import bad_request
from mainstay.api.kind import Kind, Object
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.auth.authorization import AUTHENTICATED, AccessAttributes, User, may
from mainstay.server.auth.tokens import Accepted, TokenRejected


def answer(kind: Kind, review: Object, user: User, authenticator: Authenticator, now: str) -> Object:
    """The review with its status. The kind is one of those that can only be posted."""
    spec: dict[str, Any] = review.get("spec") or {}
    result: Object = {"kind": kind.kind, "apiVersion": kind.group_version, "metadata": review.get("metadata") or {}}
    match kind.kind:
        case "SelfSubjectReview":
            return {**result, "metadata": {"creationTimestamp": now}, "status": {"userInfo": user.info()}}
        case "SelfSubjectAccessReview":
            return {**result, "spec": spec, "status": {"allowed": _allowed(user, spec)}}
        case "SubjectAccessReview" | "LocalSubjectAccessReview":
            groups = tuple(spec.get("groups") or ())
            asked = User(spec.get("user", ""), groups, spec.get("uid", ""))
            return {**result, "spec": spec, "status": {"allowed": _allowed(asked, spec)}}
        case "SelfSubjectRulesReview":
            return {**result, "spec": {}, "status": _rules(user)}
        case "TokenReview":
            if not spec.get("token"):
                raise bad_request("token is required for TokenReview in authentication")
            found = authenticator.review(spec["token"], spec.get("audiences") or ())
            return {**result, "spec": spec, "status": _token_status(found)}
        case _:
            raise bad_request(f"{kind.kind} is not supported")


def _allowed(user: User, spec: dict[str, Any]) -> bool:
    attributes = spec.get("resourceAttributes")
    if attributes is None:
        path = (spec.get("nonResourceAttributes") or {}).get("path", "")
        return user.is_master or path in ("/healthz", "/livez", "/readyz", "/version")
    fields = ("verb", "group", "resource", "namespace", "name", "subresource")
    return may(user, AccessAttributes(*(attributes.get(field, "") for field in fields)))


def _rules(user: User) -> Object:
    anyone = [
        {
            "verbs": ["create"],
            "apiGroups": ["authorization.k8s.io"],
            "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        },
        {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]},
    ]
    public = [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]}]
    if user.is_master:
        anyone = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, *anyone]
        public = [*public, {"verbs": ["*"], "nonResourceURLs": ["*"]}]
    known = user.is_master or AUTHENTICATED in user.groups
    return {"resourceRules": anyone if known else [], "nonResourceRules": public, "incomplete": False}


def _token_status(found: Accepted | TokenRejected) -> Object:
    if isinstance(found, TokenRejected):
        error = f"[invalid bearer token, {found.why}]" if found.why else "invalid bearer token"
        return {"user": {}, "error": error}
    return {"authenticated": True, "user": found.user.info(), "audiences": list(found.audiences)}
