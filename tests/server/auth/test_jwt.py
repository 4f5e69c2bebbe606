"""Tokens as texts: what only the key can have written."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from mainstay.server.auth.certificates import BadCertificate
from mainstay.server.auth.jwt import SigningKey

KEY = SigningKey(ec.generate_private_key(ec.SECP256R1()))
TOKEN = KEY.sign({"sub": "web"})


def decoded(part: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(urlsafe_b64decode(part + "=="))
    return found


def encoded(value: dict[str, str]) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def test_what_was_signed_is_read_again():
    assert KEY.said_by(TOKEN) == b'{"sub":"web"}'


def test_a_token_names_its_algorithm_and_its_key():
    assert decoded(TOKEN.split(".")[0]) == {"alg": "ES256", "kid": KEY.name}


def test_another_key_does_not_count():
    other = SigningKey(ec.generate_private_key(ec.SECP256R1()))

    assert KEY.said_by(other.sign({"sub": "web"})) is None
    assert other.name != KEY.name


@pytest.mark.parametrize("algorithm", ["none", "HS256", "RS256"])
def test_no_token_can_choose_its_algorithm(algorithm: str):
    _, said, signature = TOKEN.split(".")
    head = encoded({"alg": algorithm, "kid": KEY.name})

    assert KEY.said_by(f"{head}.{said}.{signature}") is None
    assert KEY.said_by(f"{head}.{said}.") is None


def test_a_changed_claim_does_not_count():
    head, _, signature = TOKEN.split(".")

    assert KEY.said_by(f"{head}.{encoded({'sub': 'admin'})}.{signature}") is None


@given(st.text() | st.from_regex(r"[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*", fullmatch=True))
def test_no_other_text_is_a_token(text: str):
    assert KEY.said_by(text) is None
    assert KEY.said_by(f"{TOKEN.rpartition('.')[0]}.{text}") is None


def test_a_key_for_another_curve_is_refused():
    with pytest.raises(BadCertificate, match="P-256"):
        SigningKey(ec.generate_private_key(ec.SECP384R1()))
