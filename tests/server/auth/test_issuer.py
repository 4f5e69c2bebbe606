"""Others can check tokens of service accounts by themselves, with what the server tells them of its key."""

from base64 import urlsafe_b64decode
from typing import Any

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

from tests.server.auth.test_token_requests import KEY, a_token, an_account
from tests.server.world import a_server

CONFIGURATION = "/.well-known/openid-configuration"
KEYS = "/openid/v1/jwks"


def decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def verified(token: str, keys: list[dict[str, str]]) -> dict[str, Any]:
    """The claims of a token. Raises `InvalidSignature`."""
    head, claims, signature = token.split(".")
    name = msgspec.json.decode(decoded(head))["kid"]
    (key,) = (each for each in keys if each["kid"] == name)
    x, y = (int.from_bytes(decoded(key[part])) for part in ("x", "y"))
    public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    numbers = decoded(signature)
    der = utils.encode_dss_signature(int.from_bytes(numbers[:32]), int.from_bytes(numbers[32:]))
    public.verify(der, f"{head}.{claims}".encode(), ec.ECDSA(hashes.SHA256()))
    found: dict[str, Any] = msgspec.json.decode(decoded(claims))
    return found


async def test_a_token_can_be_checked_with_the_published_key(sim):
    async with a_server(sim, signing_key=KEY) as client:
        await an_account(client)
        token = await a_token(client)

        configuration = await client.get(CONFIGURATION)
        keys = await client.ask("GET", KEYS)

        assert configuration == {
            "issuer": "https://kubernetes.default.svc",
            "jwks_uri": "https://kubernetes.default.svc/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }
        assert (keys.status, keys.headers["Content-Type"]) == (200, "application/jwk-set+json")
        published = msgspec.json.decode(keys.body)["keys"]
        assert [(each["kty"], each["crv"], each["alg"], each["use"]) for each in published] == [
            ("EC", "P-256", "ES256", "sig")
        ]
        claims = verified(token, published)
        assert (claims["iss"], claims["sub"]) == (configuration["issuer"], "system:serviceaccount:default:web")


async def test_the_documents_are_not_for_everybody(sim):
    async with a_server(sim, signing_key=KEY) as client:
        for path in (CONFIGURATION, KEYS):
            answer = await client.ask("GET", path, Impersonate_User="system:anonymous")
            assert answer.status == 403, path


async def test_a_server_without_a_key_has_no_such_documents(sim):
    async with a_server(sim) as client:
        assert (await client.ask("GET", KEYS)).status == 404
