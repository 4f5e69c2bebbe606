"""Each action declares whether it may act on a view that is old, and the runtime enforces it."""

import ast
from pathlib import Path
from typing import Any

import pytest

import mainstay
from mainstay.api.kind_names import CONFIG_MAPS, DEPLOYMENTS, PODS
from mainstay.api.object_key import ObjectKey
from mainstay.client.call import WriteOptions, writing
from mainstay.controllers.node_health import plan
from mainstay.controllers.node_health.loop import NodeHealth
from mainstay.controllers.pod_gc.loop import PodGarbage
from mainstay.controllers.repair import decide as repair
from mainstay.controllers.repair.loop import RepairLoop
from mainstay.loop.controller_loop import ControllerLoop
from mainstay.loop.decision import Create, Decision, Delete, Patch
from mainstay.loop.freshness import Freshness
from mainstay.loop.record import Acted

ROOT = Path(__file__).parents[2]
KEY = ObjectKey("default", "web")
WORDS = {f"Freshness.{each.name}": f"`{each}`" for each in Freshness}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Patch(PODS, KEY, "uid", {}, freshness=Freshness.SEEN_VERSION),
        lambda: Delete(PODS, KEY, "uid", freshness=Freshness.SEEN_VERSION),
        lambda: Delete(PODS, KEY, "uid", resource_version="7", freshness=Freshness.MAY_BE_STALE),
        lambda: Create(PODS, {"metadata": {"name": "web"}}, freshness=Freshness.SEEN_VERSION),
    ],
    ids=[
        "patch without a version",
        "delete without a version",
        "a version that does not count",
        "a version of nothing",
    ],
)
def test_an_action_that_does_not_say_what_it_declares_cannot_be_made(make: Any):
    with pytest.raises(ValueError, match="version"):
        make()


def test_a_request_without_a_version_is_not_sent_for_a_decision_about_one():
    write = WriteOptions(must_be_conditional=True)

    with pytest.raises(AssertionError, match="names no version"):
        writing("PATCH", "/api/v1/namespaces/default/pods/web", [], {}, write)
    writing("PATCH", "/api/v1/namespaces/default/pods/web", [], {}, write, is_conditional=True)


class Seen:
    """A loop as far as it matters here: one watch, and a server that has this object."""

    _require_fresh = ControllerLoop._require_fresh
    _read = ControllerLoop._read

    def __init__(self, there: Any, *, last_error: str = "") -> None:
        self._informers = {DEPLOYMENTS: self}
        self.last_error = last_error
        self.collection = self.controller = self.kernel = self.counters = self._client = self
        self.kind = DEPLOYMENTS
        self.failures = 0
        self._there = there

    async def get(self, *_: Any) -> Any:
        return self._there


def a_subject(uid: str = "u1", generation: int = 3) -> Any:
    return {"metadata": {"uid": uid, "generation": generation, "resourceVersion": "9"}}


GONE = Delete(CONFIG_MAPS, KEY, "uid", freshness=Freshness.FRESH_READ)
LATE = Delete(CONFIG_MAPS, KEY, "uid", freshness=Freshness.MAY_BE_STALE)


@pytest.mark.parametrize(
    ("loop", "action", "is_dropped"),
    [
        (Seen(a_subject()), GONE, False),
        (Seen(a_subject(generation=4)), GONE, True),
        (Seen(a_subject(uid="u2")), GONE, True),
        (Seen(a_subject(), last_error="no server"), GONE, True),
        (Seen(a_subject(generation=4), last_error="no server"), LATE, False),
    ],
    ids=["as seen", "another spec", "another object", "a broken watch", "may be stale"],
)
async def test_what_follows_from_the_server_is_done_only_if_the_server_agrees(loop: Any, action: Any, is_dropped: bool):
    acted = Acted()

    await loop._require_fresh(Decision((action,)), KEY, a_subject(), acted)

    assert (acted.error is not None) is is_dropped


@pytest.mark.parametrize(
    ("loop", "steps"),
    [(NodeHealth, plan.Step), (RepairLoop, repair.Step)],
    ids=["node health", "repair"],
)
def test_each_step_of_a_periodic_loop_is_declared(loop: Any, steps: Any):
    assert set(loop.freshness) == set(steps.__args__)
    assert set(PodGarbage.freshness.values()) == {Freshness.MAY_BE_STALE}


def declared() -> list[str]:
    """For each module with actions: `module` | verb | what it declares."""
    found = set()
    package = Path(mainstay.__file__).parent  # Where it is installed, which need not be beside the tests.
    for path in sorted((package / "controllers").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Patch", "Delete"):
                given = {each.arg: ast.unparse(each.value) for each in node.keywords}
                if "freshness" not in given:
                    continue  # Another class of this name: the actions cannot be made without.
                said = WORDS.get(given["freshness"], "either")
                found.add(f"| `{path.relative_to(package.parent)}` | {node.func.id} | {said} |")
    return sorted(found)


def test_the_page_lists_what_each_controller_declares():
    page = (ROOT / "docs" / "freshness.md").read_text().splitlines()

    assert [line.rpartition(" | ")[0] + " |" for line in page if line.startswith("| `mainstay/")] == declared()
