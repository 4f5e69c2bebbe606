"""Who may do what, without a server: the roles that every cluster has, and what a test adds to them."""

from typing import Any

import msgspec

from mainstay.server.auth.authorization import Authorizers
from mainstay.server.rbac.access_control import AccessControl
from mainstay.server.rbac.bootstrap import build_objects


def an_access_control(objects: dict[str, dict[str, Any]] | None = None) -> AccessControl:
    """With these roles and bindings, by key, besides those that every cluster has."""
    access = AccessControl()
    for key, value in {**build_objects(), **(objects or {})}.items():
        access.roles.index.put(key, msgspec.json.encode(value))
    return access


def some_authorizers() -> Authorizers:
    return an_access_control().authorizers
