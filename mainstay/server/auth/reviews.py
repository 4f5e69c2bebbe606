"""Reviews: questions about who a user is and what they may do. Nothing is stored."""

from typing import Any, Final

from mainstay.api.errors import bad_request, invalid, invalid_value
from mainstay.api.kind import Kind, Object
from mainstay.api.kinds.checks import invalid_json
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.auth.authorization import AccessAttributes, Authorizer, User, UserRules
from mainstay.server.auth.tokens import Accepted, TokenRejected

_RESOURCE_FIELDS: Final = ("verb", "group", "resource", "namespace", "name", "subresource")


class Reviews:
    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer

    def answer(self, kind: Kind, review: Object, user: User, namespace: str, now: str) -> Object:
        """The review with its status. The kind is one of those that can only be posted; `namespace` is that of the
        request. Raises `StatusError`."""
        spec: dict[str, Any] = review.get("spec") or {}
        result: Object = {"kind": kind.kind, "apiVersion": kind.group_version, "metadata": review.get("metadata") or {}}
        match kind.kind:
            case "SelfSubjectReview":
                return {**result, "metadata": {"creationTimestamp": now}, "status": {"userInfo": user.info()}}
            case "SelfSubjectAccessReview":
                _require_valid(kind, spec, namespace)
                return {**result, "spec": spec, "status": self._access_status(user, spec)}
            case "SubjectAccessReview" | "LocalSubjectAccessReview":
                _require_valid(kind, spec, namespace)
                extra = tuple((name, tuple(values)) for name, values in sorted((spec.get("extra") or {}).items()))
                asked = User(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""), extra)
                return {**result, "spec": spec, "status": self._access_status(asked, spec)}
            case "SelfSubjectRulesReview":
                if not spec.get("namespace"):
                    raise bad_request("no namespace on request")
                rules = self._authorizer.find_rules(user, spec["namespace"])
                return {**result, "spec": {}, "status": _rules_status(rules)}
            case "TokenReview":
                if not spec.get("token"):
                    raise bad_request("token is required for TokenReview in authentication")
                found = self._authenticator.review(spec["token"], spec.get("audiences") or ())
                return {**result, "spec": spec, "status": _token_status(found)}
            case _:
                raise bad_request(f"{kind.kind} is not supported")

    def _access_status(self, user: User, spec: dict[str, Any]) -> Object:
        verdict = self._authorizer.decide(user, _find_access(spec))
        status: Object = {"allowed": verdict.allowed}
        if verdict.reason:
            status["reason"] = verdict.reason
        if verdict.error:
            status["evaluationError"] = verdict.error
        return status


def _require_valid(kind: Kind, spec: dict[str, Any], namespace: str) -> None:
    """Raise `StatusError` (422) for an access review that asks for nothing, or for two things."""
    causes = []
    attributes, page = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if attributes is not None and page is not None:
        detail = "cannot be specified in combination with resourceAttributes"
        causes.append(invalid_json("spec.nonResourceAttributes", page, detail))
    if attributes is None and page is None:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        causes.append(invalid_json("spec.resourceAttributes", attributes, detail))
    if kind.kind != "SelfSubjectAccessReview" and not spec.get("user") and not spec.get("groups"):
        causes.append(invalid_value("spec.user", "", "at least one of user or group must be specified"))
    if kind.namespaced:
        if page is not None:
            causes.append(invalid_json("spec.nonResourceAttributes", page, "disallowed on this kind of request"))
        if attributes is not None and attributes.get("namespace", "") != namespace:
            detail = "must match metadata.namespace"
            causes.append(invalid_value("spec.resourceAttributes.namespace", attributes.get("namespace", ""), detail))
    if causes:
        raise invalid(kind.kind, kind.group, "", causes)


def _find_access(spec: dict[str, Any]) -> AccessAttributes:
    attributes = spec.get("resourceAttributes")
    if attributes is None:
        page = spec.get("nonResourceAttributes") or {}
        return AccessAttributes(page.get("verb", ""), path=page.get("path", ""))
    return AccessAttributes(*(attributes.get(field, "") for field in _RESOURCE_FIELDS))


def _rules_status(rules: UserRules) -> Object:
    status: Object = {
        "resourceRules": list(rules.resources),
        "nonResourceRules": list(rules.paths),
        "incomplete": bool(rules.incomplete),
    }
    if rules.incomplete:
        status["evaluationError"] = rules.incomplete
    return status


def _token_status(found: Accepted | TokenRejected) -> Object:
    if isinstance(found, TokenRejected):
        error = f"[invalid bearer token, {found.why}]" if found.why else "invalid bearer token"
        return {"user": {}, "error": error}
    return {"authenticated": True, "user": found.user.info(), "audiences": list(found.audiences)}
