"""Who may do what in a server: its authorizers, in order, and what keeps users from granting more than they have."""

from collections.abc import Sequence

from mainstay.env import Env
from mainstay.server.auth import node_restriction
from mainstay.server.auth.authorizers import build_authorizers
from mainstay.server.auth.node_authorizer import NodeAuthorizer
from mainstay.server.auth.request_signer import RequestSigner
from mainstay.server.auth.signing_point import CredentialPoint, SigningPoint
from mainstay.server.rbac import escalation
from mainstay.server.rbac.escalation import EscalationPoint
from mainstay.server.rbac.service import RoleService
from mainstay.server.storage.commit_points import CommitPoint
from mainstay.store.interface import Store


class AccessControl:
    def __init__(self) -> None:
        self.roles = RoleService()
        self.nodes = NodeAuthorizer()
        self.authorizers = build_authorizers(self.nodes, self.roles.authorizer)

    def build_commit_points(
        self, store: Store, env: Env, signer: RequestSigner | None
    ) -> dict[tuple[str, str], Sequence[CommitPoint]]:
        """`signer` signs what is approved; None: this server signs nothing."""
        guard = EscalationPoint(self.roles.index, store)
        return {
            **node_restriction.build_points(store),
            **escalation.build_points(guard),
            ("certificates.k8s.io", "CertificateSigningRequest"): (SigningPoint(store, env, signer, self.authorizers),),
            ("mainstay.dev", "Credential"): (CredentialPoint(env),),
        }
