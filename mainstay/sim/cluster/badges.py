"""Who asks a simulated server: a program of the world, or a client that shows a certificate (authority.py)."""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from mainstay.env import Env
from mainstay.http.messages import Request
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.auth.authorization import User
from mainstay.server.auth.bootstrap_tokens import BootstrapTokens
from mainstay.server.auth.jwt import SigningKey
from mainstay.server.auth.tokens import AUDIENCE, Accepted, AccountTokens, TokenRejected
from mainstay.sim.cluster.authority import read_badge
from mainstay.store.interface import Store

_BEARER: Final = "Bearer "
_SIGNING_KEY: Final = SigningKey(ec.derive_private_key(1, ec.SECP256R1()), is_repeatable=True)


class WorldAuthenticator(Authenticator):
    """Knows the programs of a world, also those that are added later."""

    def __init__(self, users: Mapping[str, User], store: Store, env: Env) -> None:
        super().__init__({}, AccountTokens(_SIGNING_KEY, store, env), BootstrapTokens(store, env.clock))
        self._programs = users

    def authenticate_sender(self, request: Request) -> User:
        shown = read_badge((request.headers.get("authorization") or "").removeprefix(_BEARER))
        if shown is not None:
            request = replace(request, peer=replace(request.peer, certificate=shown))
        return super().authenticate_sender(request)

    def learning(self, request: Request) -> Awaitable[None] | None:
        token = (request.headers.get("authorization") or "").removeprefix(_BEARER)
        return None if token in self._programs else super().learning(request)

    def review(self, token: str, audiences: Sequence[str] = ()) -> Accepted | TokenRejected:
        user = self._programs.get(token)
        return super().review(token, audiences) if user is None else Accepted(user, (AUDIENCE,))
