"""Tokens of service accounts: what they say, and how long that holds."""

import json
from base64 import urlsafe_b64decode
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from mainstay.api import times
from mainstay.api.errors import StatusError
from mainstay.env import Chance, Env, tasks
from mainstay.http.messages import Headers, Peer, Request
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.auth.authorization import User
from mainstay.server.auth.jwt import SigningKey
from mainstay.server.auth.tokens import AUDIENCE, Accepted, AccountTokens, TokenRejected
from mainstay.server.storage.stored import stored
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.etcd import EtcdStore
from mainstay.store.interface import DeleteEntry, Put, Store
from tests.server.access import some_authorizers
from tests.store.fake_etcd import FakeEtcd

KEY = SigningKey(ec.generate_private_key(ec.SECP256R1()))
UID = "11111111-1111-4111-8111-111111111111"
OTHER_UID = "22222222-2222-4222-8222-222222222222"
WEB = "core/serviceaccounts/shop/web"
POD = "core/pods/shop/web-1"
NODE = "core/nodes/n1"
SECRET = "core/secrets/shop/s"
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated")


class World:
    """A store with one service account, and the tokens of a server on it."""

    def __init__(self, sim: Simulation, store: Store) -> None:
        given = sim.env("server")
        self.env = Env(given.clock, Chance(b"tokens"), given.disk)
        self.store = store
        self.tokens = AccountTokens(KEY, store, self.env)

    @property
    def now(self) -> int:
        return int(self.env.clock.wall().timestamp())

    async def put(self, key: str, uid: str = UID, deleted_for: timedelta | None = None, **rest: Any) -> None:
        metadata = {"name": key.rpartition("/")[2], "uid": uid}
        if deleted_for is not None:
            metadata["deletionTimestamp"] = times.format_time(self.env.clock.wall() - deleted_for)
        await self.store.commit([], [Put(key, stored({"metadata": metadata, **rest}))])

    async def delete(self, key: str) -> None:
        await self.store.commit([], [DeleteEntry(key)])

    async def issue(self, **spec: Any) -> Any:
        return await self.tokens.issue("shop", "web", {"spec": spec})

    async def token(self, **spec: Any) -> str:
        text: str = (await self.issue(**spec))["status"]["token"]
        return text

    async def bound_to(self, kind: str, name: str, **rest: str) -> str:
        return await self.token(boundObjectRef={"kind": kind, "apiVersion": "v1", "name": name, **rest})

    async def check(self, token: str, *audiences: str) -> Accepted | TokenRejected | None:
        await self.tokens.learn(token)
        return self.tokens.check(token, audiences or (AUDIENCE,))

    async def is_good(self, token: str) -> bool:
        return isinstance(await self.check(token), Accepted)

    async def why_not(self, token: str) -> str:
        found = await self.check(token)
        assert isinstance(found, TokenRejected)
        return found.why


@pytest.fixture(params=["memory", "etcd"])
def which(request: pytest.FixtureRequest) -> str:
    """A store that answers at once, or one that has to be asked."""
    name: str = request.param
    return name


async def a_world(sim: Simulation, which: str) -> World:
    store = await open_memory() if which == "memory" else an_etcd_store()
    world = World(sim, store)
    await world.put(WEB)
    return world


def an_etcd_store() -> Store:
    return EtcdStore(FakeEtcd().client(), chance=Chance(b"store"))


def claims_of(token: str) -> Any:
    return json.loads(urlsafe_b64decode(token.split(".")[1] + "=="))


async def refusal_of(asking: Awaitable[Any]) -> tuple[int, str]:
    with pytest.raises(StatusError) as refusal:
        await asking
    return refusal.value.code, refusal.value.message


# Issuing.


async def test_a_token_says_whose_it_is_for_whom_and_until_when(sim, which):
    world = await a_world(sim, which)

    answer = await world.issue()

    claims = claims_of(answer["status"]["token"])
    assert claims == {
        "aud": [AUDIENCE],
        "exp": world.now + 3600,
        "iat": world.now,
        "iss": "https://kubernetes.default.svc",
        "jti": claims["jti"],
        "kubernetes.io": {"namespace": "shop", "serviceaccount": {"name": "web", "uid": UID}},
        "nbf": world.now,
        "sub": "system:serviceaccount:shop:web",
    }
    assert len(claims["jti"]) == 36


async def test_the_answer_is_the_request_filled_in(sim, which):
    world = await a_world(sim, which)

    answer = await world.issue(audiences=["vault"], expirationSeconds=600)

    moment = world.env.clock.wall()
    assert answer == {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": "web", "namespace": "shop", "uid": UID, "creationTimestamp": times.format_time(moment)},
        "spec": {"audiences": ["vault"], "expirationSeconds": 600, "boundObjectRef": None},
        "status": {
            "token": answer["status"]["token"],
            "expirationTimestamp": times.format_time(moment + timedelta(minutes=10)),
        },
    }


async def test_each_token_has_an_id_of_its_own(sim, which):
    world = await a_world(sim, which)

    assert len({claims_of(await world.token())["jti"] for _ in range(3)}) == 3


@pytest.mark.parametrize(
    ("lifetime_s", "why"),
    [(0, "less than 10 minutes"), (599, "less than 10 minutes"), (2**32 + 1, "larger than 2^32 seconds")],
)
async def test_a_lifetime_has_limits(sim, which, lifetime_s: int, why: str):
    world = await a_world(sim, which)

    assert await refusal_of(world.issue(expirationSeconds=lifetime_s)) == (
        422,
        'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value:'
        f" {lifetime_s}: may not specify a duration {why}",
    )


async def test_there_are_no_tokens_for_an_account_that_is_not_there(sim, which):
    world = await a_world(sim, which)

    asking = world.tokens.issue("shop", "gone", {})

    assert await refusal_of(asking) == (404, 'serviceaccounts "gone" not found')


@pytest.mark.parametrize(
    ("metadata", "code"), [({"name": "other"}, 422), ({"namespace": "other"}, 422), ({"uid": OTHER_UID}, 409)]
)
async def test_a_request_for_another_account_than_the_address_names_is_refused(sim, which, metadata: Any, code: int):
    world = await a_world(sim, which)

    assert (await refusal_of(world.tokens.issue("shop", "web", {"metadata": metadata})))[0] == code
    same = {"name": "web", "namespace": "shop", "uid": UID}
    assert (await world.tokens.issue("shop", "web", {"metadata": same}))["metadata"]["uid"] == UID


async def test_a_token_is_bound_to_a_pod_and_tells_its_node(sim, which):
    world = await a_world(sim, which)
    await world.put(POD, spec={"serviceAccountName": "web", "nodeName": "n1"})
    unseen = await world.bound_to("Pod", "web-1")
    await world.put(NODE, OTHER_UID)

    seen = await world.bound_to("Pod", "web-1", uid=UID)

    whole = {"namespace": "shop", "serviceaccount": {"name": "web", "uid": UID}, "pod": {"name": "web-1", "uid": UID}}
    assert claims_of(unseen)["kubernetes.io"] == {**whole, "node": {"name": "n1"}}
    assert claims_of(seen)["kubernetes.io"] == {**whole, "node": {"name": "n1", "uid": OTHER_UID}}


@pytest.mark.parametrize(
    ("reference", "code", "message"),
    [
        ({"kind": "Pod", "name": "gone"}, 404, 'pods "gone" not found'),
        ({"kind": "Secret", "name": ""}, 404, 'secrets "" not found'),
        ({"kind": "Secret", "name": "x" * 5000}, 404, f'secrets "{"x" * 5000}" not found'),
        ({"kind": "ConfigMap", "name": "c"}, 400, "cannot bind token to object of type /v1, Kind=ConfigMap"),
        (
            {"kind": "Pod", "name": "web-1", "apiVersion": "apps/v1"},
            400,
            "cannot bind token to object of type apps/v1, Kind=Pod",
        ),
        (
            {"kind": "Pod", "name": "other"},
            400,
            'cannot bind token for serviceaccount "web" to pod running with different serviceaccount name.',
        ),
        (
            {"kind": "Pod", "name": "web-1", "uid": OTHER_UID},
            409,
            f'Operation cannot be fulfilled on Pod "web-1": the UID in the bound object reference ({OTHER_UID}) does'
            " not match the UID in record. The object might have been deleted and then recreated",
        ),
    ],
)
async def test_a_token_is_bound_only_to_what_is_there(sim, which, reference: Any, code: int, message: str):
    world = await a_world(sim, which)
    await world.put(POD, spec={"serviceAccountName": "web"})
    await world.put("core/pods/shop/other", spec={"serviceAccountName": "other"})

    asking = world.issue(boundObjectRef={"apiVersion": "v1", **reference})

    assert await refusal_of(asking) == (code, message)


# Showing.


async def test_who_shows_a_token_is_the_service_account(sim, which):
    world = await a_world(sim, which)
    token = await world.token()

    extra = (("authentication.kubernetes.io/credential-id", (f"JTI={claims_of(token)['jti']}",)),)
    assert await world.check(token) == Accepted(
        User("system:serviceaccount:shop:web", GROUPS, UID, extra), ("https://kubernetes.default.svc",)
    )


async def test_who_shows_a_token_of_a_pod_is_known_to_be_in_it(sim, which):
    world = await a_world(sim, which)
    await world.put(POD, spec={"serviceAccountName": "web", "nodeName": "n1"})

    found = await world.check(await world.bound_to("Pod", "web-1"))

    assert isinstance(found, Accepted)
    extra = found.user.info()["extra"]
    assert {name.rpartition("/")[2]: values for name, values in extra.items() if "credential" not in name} == {
        "node-name": ["n1"],
        "pod-name": ["web-1"],
        "pod-uid": [UID],
    }


async def test_a_token_ends_with_its_time(sim, which):
    world = await a_world(sim, which)
    token = await world.token(expirationSeconds=600)

    await tasks.sleep(timedelta(minutes=10, seconds=59))
    assert await world.is_good(token)
    await tasks.sleep(timedelta(seconds=2))

    assert await world.why_not(token) == "service account token has expired"


async def test_a_token_is_only_for_its_audiences(sim, which):
    world = await a_world(sim, which)
    token = await world.token(audiences=["vault", "ci"])

    assert await world.why_not(token) == (
        'token audiences ["vault" "ci"] is invalid for the target audiences ["https://kubernetes.default.svc"]'
    )
    found = await world.check(token, "ci", "bank")
    assert isinstance(found, Accepted)
    assert found.audiences == ("ci",)


@pytest.mark.parametrize(
    ("kind", "name", "key", "why"),
    [
        ("", "", WEB, 'serviceaccounts "web" not found'),
        ("Pod", "web-1", POD, "service account token has been invalidated"),
        ("Secret", "s", SECRET, "service account token has been invalidated"),
        ("Node", "n1", NODE, "service account token has been invalidated"),
    ],
)
async def test_a_token_ends_with_what_it_names(sim, which, kind: str, name: str, key: str, why: str):
    world = await a_world(sim, which)
    for each in (POD, SECRET, NODE):
        await world.put(each, spec={"serviceAccountName": "web"})
    token = await world.bound_to(kind, name) if kind else await world.token()
    assert await world.is_good(token)

    await world.delete(key)
    await tasks.sleep(timedelta(seconds=11))

    assert await world.why_not(token) == why


@pytest.mark.parametrize(
    ("kind", "key", "why"),
    [
        ("", WEB, f"service account UID ({OTHER_UID}) does not match claim ({UID})"),
        ("Pod", POD, f"pod UID ({OTHER_UID}) does not match service account pod ref claim ({UID})"),
    ],
)
async def test_another_thing_of_the_same_name_does_not_revive_a_token(sim, which, kind: str, key: str, why: str):
    world = await a_world(sim, which)
    await world.put(POD, spec={"serviceAccountName": "web"})
    token = await world.bound_to(kind, "web-1") if kind else await world.token()

    await world.put(key, OTHER_UID, spec={"serviceAccountName": "web"})

    assert await world.why_not(token) == why


async def test_what_is_being_deleted_counts_for_a_moment_longer(sim, which):
    world = await a_world(sim, which)
    token = await world.token()

    await world.put(WEB, deleted_for=timedelta(seconds=59))
    assert await world.is_good(token)
    await tasks.sleep(timedelta(seconds=11))

    assert await world.why_not(token) == "service account shop/web has been deleted"


async def test_a_token_counts_as_soon_as_what_it_names_is_there(sim, which):
    world = await a_world(sim, which)
    token = await world.token()
    await world.delete(WEB)
    assert not await world.is_good(token)

    await world.put(WEB)

    assert await world.is_good(token)


async def test_a_token_of_another_server_is_rejected(sim, which):
    world = await a_world(sim, which)
    other = AccountTokens(SigningKey(ec.generate_private_key(ec.SECP256R1())), world.store, world.env)

    token = (await other.issue("shop", "web", {}))["status"]["token"]

    assert await world.check(token) is None
    assert await world.check("nonsense") is None


@pytest.mark.parametrize("claims", [{}, {"iss": "me"}, {"sub": 3}])
async def test_what_the_key_has_signed_but_no_server_has_issued_is_no_token(sim, which, claims: Any):
    world = await a_world(sim, which)

    assert await world.check(KEY.sign(claims)) is None


# At the door.


def a_request(token: str) -> Request:
    return Request("GET", "/api", "/api", "", Headers([("Authorization", f"Bearer {token}")]), b"", Peer("10.0.0.1", 1))


async def authenticate(authenticator: Authenticator, token: str) -> User:
    request = a_request(token)
    learning = authenticator.learning(request)
    if learning is not None:
        await learning
    return authenticator.authenticate(request, some_authorizers())


async def test_a_request_with_a_token_comes_from_the_service_account(sim, which):
    world = await a_world(sim, which)
    authenticator = Authenticator({"ann-token": User("ann", ())}, world.tokens)

    assert (await authenticate(authenticator, await world.token())).name == "system:serviceaccount:shop:web"
    assert (await authenticate(authenticator, "ann-token")).name == "ann"


async def test_a_request_with_a_token_that_is_not_good_any_more_is_refused(sim, which):
    world = await a_world(sim, which)
    authenticator = Authenticator({}, world.tokens)
    token = await world.token()
    await world.delete(WEB)

    assert await refusal_of(authenticate(authenticator, token)) == (401, "Unauthorized")


async def test_only_a_store_that_must_be_asked_is_asked_beforehand(sim):
    memory = World(sim, await open_memory())
    await memory.put(WEB)
    etcd = World(sim, an_etcd_store())

    request = a_request(await memory.token())

    assert Authenticator({}, memory.tokens).learning(request) is None
    learning = Authenticator({}, etcd.tokens).learning(request)
    assert learning is not None
    await learning


async def test_a_server_without_a_key_issues_no_tokens():
    code, message = await refusal_of(Authenticator({}).issue("shop", "web", {}))

    assert (code, "no key" in message) == (405, True)
