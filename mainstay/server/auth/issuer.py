"""The documents with which others check tokens of service accounts without asking this server: OpenID discovery.

    /.well-known/openid-configuration   who issues the tokens, and where the keys are
    /openid/v1/jwks                     the public key, as a JSON Web Key Set

As in Kubernetes, the role `system:service-account-issuer-discovery` grants them; an administrator who wants them to be
public binds it to `system:unauthenticated`.
"""

from typing import Any, Final

import msgspec

from mainstay.http.messages import Answer, Request, Response
from mainstay.server.auth.jwt import SigningKey
from mainstay.server.auth.tokens import ISSUER

CONFIGURATION_PATH: Final = "/.well-known/openid-configuration"
KEYS_PATH: Final = "/openid/v1/jwks"

_CACHED: Final = (("Cache-Control", "public, max-age=3600"),)


class IssuerDiscovery:
    """The pages of one server. `url` is where clients reach it: set when that is known."""

    def __init__(self, key: SigningKey) -> None:
        self.url = ISSUER
        self._keys = _encode({"keys": [key.public_key]})

    def show_configuration(self, request: Request) -> Answer:
        found = {
            "issuer": ISSUER,
            "jwks_uri": f"{self.url}{KEYS_PATH}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }
        return Response(200, _encode(found), "application/json", _CACHED)

    def show_keys(self, request: Request) -> Answer:
        return Response(200, self._keys, "application/jwk-set+json", _CACHED)


def _encode(document: dict[str, Any]) -> bytes:
    return msgspec.json.encode(document)
