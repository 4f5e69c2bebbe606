"""Questions to the server, and Binding: kinds that can only be posted and are kept nowhere.

They are not part of `BUILTIN`, because no store holds them; the server answers them, and lists them in discovery.
"""

from functools import partial

from mainstay.api.kinds.declare import builtin

_CREATE = ("create",)
_authentication = partial(builtin, "authentication.k8s.io", "v1", verbs=_CREATE, has_generation=False)
_authorization = partial(builtin, "authorization.k8s.io", "v1", verbs=_CREATE, has_generation=False)

# Many of them at once (server/placement/batch_binding.py).
BINDINGS = builtin("mainstay.dev", "v1", "Binding", "bindings", namespaced=False, verbs=_CREATE, has_generation=False)

REVIEWS = (
    builtin("", "v1", "Binding", "bindings", verbs=_CREATE, has_generation=False),
    BINDINGS,
    _authentication("TokenReview", "tokenreviews", namespaced=False),
    _authentication("SelfSubjectReview", "selfsubjectreviews", namespaced=False),
    _authorization("LocalSubjectAccessReview", "localsubjectaccessreviews"),
    _authorization("SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False),
    _authorization("SelfSubjectRulesReview", "selfsubjectrulesreviews", namespaced=False),
    _authorization("SubjectAccessReview", "subjectaccessreviews", namespaced=False),
)
