"""Which kinds there are, as a server tells it: in either form, and what it cannot tell."""

from dataclasses import replace

from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import CONFIG_MAPS, DEFINITIONS, DEPLOYMENTS, PODS
from mainstay.client import served_kinds as under_test
from mainstay.client.served_kinds import Served, ServedKind, all_kinds, served_kinds
from tests.controllers.garbage.owned import WEBSITES, a_household, define, definition


async def test_the_old_form_of_discovery_says_the_same_as_the_new_one(sim, monkeypatch):
    async with a_household(sim, loops=()) as home:
        await define(home)
        new = await served_kinds(home.client)
        monkeypatch.setattr(under_test, "_AGGREGATED", "application/json")
        old = await served_kinds(home.client)
        assert old == new
        assert new.problems == {}
        assert {PODS, CONFIG_MAPS, DEPLOYMENTS, WEBSITES, DEFINITIONS} <= {each.name for each in new.kinds}


async def test_a_kind_comes_once_in_the_version_that_its_group_prefers(sim):
    async with a_household(sim, loops=()) as home:
        twice = definition()
        (version,) = twice["spec"]["versions"]
        twice["spec"]["versions"].append({**version, "name": "v1beta1", "storage": False})
        await home.client.create(DEFINITIONS, twice)

        async def is_served() -> bool:
            return (await served_kinds(home.client)).find("example.dev", "Website") is not None

        await home.until(is_served)
        found = [each.name for each in (await served_kinds(home.client)).kinds if each.name.group == "example.dev"]
        assert found == [WEBSITES]


async def test_what_is_defined_and_not_served_yet_is_a_problem(sim, monkeypatch):
    async with a_household(sim, loops=()) as home:
        await define(home)
        taken = definition(replace(WEBSITES, plural="webpages"))  # Refused, as the kind's name is taken.
        await home.client.create(DEFINITIONS, taken)
        assert (await all_kinds(home.client)).problems == {}
        honest = await served_kinds(home.client)

        async def behind(client: object) -> Served:
            return Served(tuple(each for each in honest.kinds if each.name != WEBSITES))

        monkeypatch.setattr(under_test, "served_kinds", behind)
        assert (await all_kinds(home.client)).problems == {"example.dev/v1": "websites are defined but not served yet"}


def test_a_group_that_is_out_of_date_is_in_doubt_and_others_are_not():
    found: dict[tuple[str, str], ServedKind] = {}
    problems: dict[str, str] = {}
    version = {"version": "v1", "freshness": "Stale", "resources": []}
    answer = {"items": [{"metadata": {"name": "metrics.example.dev"}, "versions": [version]}]}
    under_test._read_aggregated(answer, found, problems)
    served = Served((), problems)
    assert served.doubts("metrics.example.dev")
    assert not served.doubts("apps")


def test_a_kind_is_found_in_whatever_version_it_is_served():
    newer = KindName("apps", "v2", "Deployment", "deployments", True)
    served = Served((ServedKind(newer, frozenset()),))
    assert served.find("apps", "Deployment") == newer
    assert served.find("", "Deployment") is None
