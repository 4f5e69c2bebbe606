"""What every namespace has: an account, and what the server's certificate is checked with."""

from datetime import timedelta
from typing import Any

from mainstay.api.kind_names import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from mainstay.api.object_key import ObjectKey
from mainstay.controllers.service_account.controller import RootAuthorities, ServiceAccounts
from mainstay.env import tasks
from mainstay.loop.controller_loop import ControllerLoop
from mainstay.loop.decision import Create, Decision, Delete, Patch
from mainstay.loop.freshness import Freshness
from mainstay.loop.kernel import LoopSpec
from mainstay.loop.view import View
from tests.controllers.garbage.owned import NAMESPACES_TOO, a_household
from tests.controllers.objects import NOON

Object = dict[str, Any]

KEY = ObjectKey("", "team")
PEM = "-----BEGIN CERTIFICATE-----\n…\n-----END CERTIFICATE-----\n"
ROOT = RootAuthorities(PEM)


def a_namespace(**metadata: Any) -> Object:
    return {"metadata": {"name": "team", **metadata}}


def an_account(name: str = "default") -> Object:
    return {"metadata": {"name": name, "namespace": "team"}}


def authorities(data: Object | None = None, **more: Any) -> Object:
    metadata = {"name": "kube-root-ca.crt", "namespace": "team", "uid": "u1"}
    return {"metadata": metadata, "data": {"ca.crt": PEM} if data is None else data, **more}


def accounts(namespaces: list[Object], *found: Object) -> Decision:
    return ServiceAccounts().decide(View.of({NAMESPACES: namespaces, SERVICE_ACCOUNTS: found}, NOON), KEY, None)


def roots(namespaces: list[Object], *found: Object, controller: RootAuthorities = ROOT) -> Decision:
    return controller.decide(View.of({NAMESPACES: namespaces, CONFIG_MAPS: found}, NOON), KEY, None)


def test_a_namespace_gets_a_default_account_once():
    assert accounts([a_namespace()]).actions == (Create(SERVICE_ACCOUNTS, an_account()),)
    assert accounts([a_namespace()], an_account()) == Decision()
    assert accounts([a_namespace(deletionTimestamp="2026-01-01T00:00:00Z")]) == Decision()
    assert accounts([]) == Decision()


def test_a_namespace_gets_the_authorities_and_gets_them_back():
    place = ObjectKey("team", "kube-root-ca.crt")
    made = {"metadata": {"name": place.name, "namespace": "team"}, "data": {"ca.crt": PEM}}
    assert roots([a_namespace()]).actions == (Create(CONFIG_MAPS, made),)
    assert roots([a_namespace()], authorities()) == Decision()
    changed = authorities({"ca.crt": "mine", "more": "x"})
    assert roots([a_namespace()], changed).actions == (
        Patch(CONFIG_MAPS, place, "u1", {"data": {"ca.crt": PEM, "more": None}}, freshness=Freshness.MAY_BE_STALE),
    )
    frozen = authorities({"ca.crt": "mine"}, immutable=True)
    assert roots([a_namespace()], frozen).actions == (
        Delete(CONFIG_MAPS, place, "u1", resource_version="1", freshness=Freshness.SEEN_VERSION),
    )
    assert roots([a_namespace(deletionTimestamp="2026-01-01T00:00:00Z")]) == Decision()
    assert roots([]) == Decision()


def test_without_authorities_there_is_nothing_to_hand_out():
    assert roots([a_namespace()], controller=RootAuthorities("")) == Decision()


async def test_every_namespace_has_both_whatever_is_done_to_them_until_it_goes(sim):
    given = LoopSpec(
        "root-ca",
        lambda context: ControllerLoop(RootAuthorities(PEM), context),
    )
    loops = (*NAMESPACES_TOO, given)
    async with a_household(sim, loops=loops, controllers=(ServiceAccounts(),)) as home:
        await home.client.create(NAMESPACES, {"metadata": {"name": "team"}})
        await home.at_rest()
        for name in ("default", "kube-system", "team"):
            assert await home.get("default", SERVICE_ACCOUNTS, name) is not None
            found = await home.get("kube-root-ca.crt", CONFIG_MAPS, name)
            assert found is not None
            assert found["data"] == {"ca.crt": PEM}

        await home.client.delete(SERVICE_ACCOUNTS, "default", "team")
        await home.client.delete(CONFIG_MAPS, "kube-root-ca.crt", "default")
        await home.client.patch(
            CONFIG_MAPS, "kube-root-ca.crt", "team", {"data": {"ca.crt": "mine"}, "immutable": True}
        )
        await home.at_rest()
        assert await home.get("default", SERVICE_ACCOUNTS, "team") is not None
        for name in ("default", "team"):
            found = await home.get("kube-root-ca.crt", CONFIG_MAPS, name)
            assert found is not None
            assert found["data"] == {"ca.crt": PEM}

        await home.client.delete(NAMESPACES, "team")
        await home.at_rest()
        assert await home.get("team", NAMESPACES, "") is None
        writes = len([each for each in home.writes() if "/configmaps" in each.path or "/serviceaccounts" in each.path])
        await tasks.sleep(timedelta(minutes=3))
        after = [each for each in home.writes() if "/configmaps" in each.path or "/serviceaccounts" in each.path]
        assert len(after) == writes
