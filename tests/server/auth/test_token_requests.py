"""Tokens of service accounts through the API: asked for, shown, asked about."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from mainstay.env import Chance
from mainstay.server.auth.jwt import SigningKey
from mainstay.store import open_memory
from mainstay.store.etcd import EtcdStore
from mainstay.store.interface import Store
from tests.server.world import Client, a_server
from tests.store.fake_etcd import FakeEtcd

KEY = SigningKey(ec.generate_private_key(ec.SECP256R1()))
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
TOKEN = f"{ACCOUNTS}/web/token"
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
WEB = "system:serviceaccount:default:web"


@pytest.fixture(params=["memory", "etcd"])
def which(request: pytest.FixtureRequest) -> str:
    """A store that answers at once, or one that has to be asked."""
    name: str = request.param
    return name


async def a_store(which: str) -> Store:
    return await open_memory() if which == "memory" else EtcdStore(FakeEtcd().client(), chance=Chance(b"store"))


async def an_account(client: Client, name: str = "web") -> None:
    await client.create(ACCOUNTS, {"metadata": {"name": name}})


async def a_token(client: Client, **spec: Any) -> str:
    answer = await client.create(TOKEN, {"spec": spec})
    token: str = answer["status"]["token"]
    return token


async def review_of(client: Client, token: str, **spec: Any) -> Any:
    return (await client.create(TOKEN_REVIEWS, {"spec": {"token": token, **spec}}))["status"]


async def test_a_service_account_is_known_by_its_token(sim, which):
    async with a_server(sim, store=await a_store(which), signing_key=KEY) as client:
        await an_account(client)
        token = await a_token(client)

        seen = await client.ask("POST", WHO_AM_I, {}, Authorization=f"Bearer {token}")

        assert seen.status == 201
        user = seen.body["status"]["userInfo"]
        assert (user["username"], user["groups"]) == (
            WEB,
            ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
        )
        assert list(user["extra"]) == ["authentication.kubernetes.io/credential-id"]


async def test_others_may_ask_whose_token_it_is(sim, which):
    async with a_server(sim, store=await a_store(which), signing_key=KEY) as client:
        await an_account(client)
        token = await a_token(client, audiences=["vault"])

        good = await review_of(client, token, audiences=["vault", "bank"])
        elsewhere = await review_of(client, token)

        assert (good["authenticated"], good["user"]["username"], good["audiences"]) == (True, WEB, ["vault"])
        assert elsewhere == {
            "user": {},
            "error": '[invalid bearer token, token audiences ["vault"] is invalid for the target audiences'
            ' ["https://kubernetes.default.svc"]]',
        }


async def test_a_token_is_worth_nothing_when_its_account_is_gone(sim, which):
    async with a_server(sim, store=await a_store(which), signing_key=KEY) as client:
        await an_account(client)
        token = await a_token(client)
        await client.delete(f"{ACCOUNTS}/web")

        assert (await client.ask("POST", WHO_AM_I, {}, Authorization=f"Bearer {token}")).status == 401
        assert (await review_of(client, token))["error"] == '[invalid bearer token, serviceaccounts "web" not found]'


async def test_a_token_gives_no_rights_by_itself(sim):
    async with a_server(sim, signing_key=KEY) as client:
        await an_account(client)
        token = await a_token(client)

        refused = await client.ask("GET", ACCOUNTS, Authorization=f"Bearer {token}")

        assert (refused.status, f'User "{WEB}" cannot list' in refused.body["message"]) == (403, True)


async def test_who_may_not_ask_for_tokens_gets_none(sim):
    async with a_server(sim, signing_key=KEY) as client:
        await an_account(client)

        assert (await client.ask("POST", TOKEN, {}, Authorization="Bearer usertoken")).status == 403


async def test_a_request_that_cannot_be_is_refused(sim):
    async with a_server(sim, signing_key=KEY) as client:
        missing = await client.ask("POST", TOKEN, {})
        await an_account(client)
        short = await client.ask("POST", TOKEN, {"spec": {"expirationSeconds": 60}})
        odd = await client.ask("POST", TOKEN, {"spec": {"expirationSeconds": "soon"}})

        assert (missing.status, missing.body["message"]) == (404, 'serviceaccounts "web" not found')
        assert (short.status, short.body["details"]["causes"][0]["field"]) == (422, "spec.expirationSeconds")
        assert odd.status == 400


async def test_a_server_without_a_key_says_that_it_issues_none(sim):
    async with a_server(sim) as client:
        await an_account(client)

        refused = await client.ask("POST", TOKEN, {})

        assert (refused.status, "no key" in refused.body["message"]) == (405, True)


async def test_a_review_needs_a_token(sim):
    async with a_server(sim) as client:
        refused = await client.ask("POST", TOKEN_REVIEWS, {"spec": {}})

        assert (refused.status, refused.body["message"]) == (
            400,
            "token is required for TokenReview in authentication",
        )
