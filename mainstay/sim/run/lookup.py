"""Scenarios, and bugs to plant, by name: those that come with Mainstay, and those of users by module and attribute.

find_scenario("racing-schedulers")
find_scenario("shop.tests.scenarios:CHECKOUT")
planted("shop.tests.bugs:forgets_the_basket")       a patch, to be applied in the process that runs
"""

import os
import pkgutil
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from mainstay.sim.run.patcher import AttributePatcher
from mainstay.sim.run.scenario import Scenario

CATALOGUE: Final = "mainstay.scenarios:SCENARIOS"


class UnknownScenario(LookupError):
    """There is nothing of this name. Says what to do."""


def find_scenario(name: str) -> Scenario:
    if ":" not in name:
        scenarios = _catalogue()
        if name not in scenarios:
            raise UnknownScenario(f"unknown scenario {name!r}; `mainstay sim list` shows all names.")
        return scenarios[name]
    found = _find_attribute(name, "a scenario")
    if not isinstance(found, Scenario):
        raise UnknownScenario(f"{name} is a {type(found).__name__}, not a mainstay.sim.run.scenario.Scenario.")
    return found


def name_scenario(scenario: Scenario) -> str:
    """What `find_scenario` finds this one by. Raises `UnknownScenario` for one that is no module's attribute."""
    if _catalogue().get(scenario.name) is scenario:
        return scenario.name
    # First where its parts were made, which is mostly where it was: others, like a test, may have imported it, and may
    # not be there for a process that goes by the name.
    parts = [getattr(part, "__module__", "") for part in (scenario.make, scenario.checkers)]
    for name in [*(name for name in parts if name in sys.modules), *sys.modules]:
        for attribute, value in list(getattr(sys.modules[name], "__dict__", {}).items()):
            if value is scenario:
                return f"{name}:{attribute}"
    raise UnknownScenario(f"the scenario {scenario.name!r} is not an attribute of a module, so it has no name.")


def find_patch(name: str) -> Callable[[], object]:
    """A patch of the code under test: `name` is that of a function that is given a `pytest.MonkeyPatch`, or where
    pytest is not installed, an `AttributePatcher`, which is enough for the weak designs of Mainstay's scenarios."""
    plant = _find_attribute(name, "a bug to plant")
    if not callable(plant):
        raise UnknownScenario(f"{name} is a {type(plant).__name__}, not a function that plants a bug.")

    def patch() -> object:
        try:
            import pytest  # Needed only to plant bugs.
        except ImportError:
            return plant(AttributePatcher())
        return plant(pytest.MonkeyPatch())

    return patch


def _catalogue() -> Mapping[str, Scenario]:
    # By name, as those of users are: the simulator is a library, and knows no scenario.
    found: Mapping[str, Scenario] = _find_attribute(CATALOGUE, "the catalogue of scenarios")
    return found


def _find_attribute(name: str, what: str) -> Any:
    if not all(name.partition(":")):
        raise UnknownScenario(f"{name!r} does not name {what}; write module:attribute.")
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)  # As `python -m` does. The script `mainstay` begins with its own directory instead.
    try:
        return pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UnknownScenario(f"{what} {name!r} not found: {error}") from error
