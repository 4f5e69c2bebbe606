"""Texts that only this server can have written: JSON Web Tokens, signed with a key that only the server has.

The algorithm is ES256, and no other is accepted, whatever a token says of itself. A signature of it is never the same
twice, so nothing may depend on the text of a token; but for the key of a simulated server, which repeats itself.

Others check such tokens with the public key, which is served in the form of a JSON Web Key Set (issuer.py).

What a token says, and for how long that holds, is for others: see tokens.py.
"""

import hashlib
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from mainstay.server.auth.certificates import BadCertificate

_TOKEN: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)", re.ASCII)
_NUMBER_BYTES: Final = 32  # A signature is two numbers of this size.
_ALGORITHM: Final = ec.ECDSA(hashes.SHA256())
_REPEATABLE: Final = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)


class SigningKey:
    """Signs, and knows its own signatures. Raises `BadCertificate` for a key of another curve than P-256."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, *, is_repeatable: bool = False) -> None:
        """`is_repeatable`: the same claims give the same token (RFC 6979). Not every OpenSSL can do that."""
        if not isinstance(key.curve, ec.SECP256R1):
            raise BadCertificate(f"the key that signs tokens is for the curve {key.curve.name}: P-256 is needed")
        self._key = key
        self._signing = _REPEATABLE if is_repeatable else _ALGORITHM
        self._public = key.public_key()
        public = self._public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        # The name that Kubernetes would give to the key: with it others can find the right one of several.
        self.name = _text(hashlib.sha256(public).digest())
        self._head = _text(msgspec.json.encode({"alg": "ES256", "kid": self.name}))

    @property
    def public_key(self) -> dict[str, str]:
        """The public key, as a JSON Web Key."""
        numbers = self._public.public_numbers()
        x, y = (_text(number.to_bytes(_NUMBER_BYTES)) for number in (numbers.x, numbers.y))
        return {"use": "sig", "kty": "EC", "kid": self.name, "crv": "P-256", "alg": "ES256", "x": x, "y": y}

    def sign(self, claims: dict[str, Any]) -> str:
        """A token that says this."""
        said = f"{self._head}.{_text(msgspec.json.encode(claims))}"
        numbers = utils.decode_dss_signature(self._key.sign(said.encode(), self._signing))
        return f"{said}.{_text(b''.join(number.to_bytes(_NUMBER_BYTES) for number in numbers))}"

    def said_by(self, token: str) -> bytes | None:
        """What a token says, as JSON. None if it is none, or not of this key."""
        found = _TOKEN.fullmatch(token)
        if found is None or found[1] != self._head:
            return None
        try:
            said, signature = _bytes(found[2]), _bytes(found[3])
        except ValueError:
            return None
        if len(signature) != 2 * _NUMBER_BYTES:
            return None
        first, second = (int.from_bytes(each) for each in (signature[:_NUMBER_BYTES], signature[_NUMBER_BYTES:]))
        try:
            encoded = utils.encode_dss_signature(first, second)
            self._public.verify(encoded, f"{found[1]}.{found[2]}".encode(), _ALGORITHM)
        except InvalidSignature:
            return None
        return said


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode("ascii").rstrip("=")


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
