"""Who is asked whether a user may do something, and in which order."""

from mainstay.server.auth.authorization import Authorizer, Authorizers, MastersAuthorizer


def build_authorizers(nodes: Authorizer, roles: Authorizer) -> Authorizers:
    """`nodes` knows agents (node_authorizer.py), `roles` evaluates roles (rbac/authorizer.py)."""
    return Authorizers((MastersAuthorizer(), nodes, roles))
