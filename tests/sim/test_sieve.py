"""Sieve's patterns: a controller that sees less, or older, than what is true must end where it would have anyway."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mainstay.cli.exits import Exit
from mainstay.cli.main import run
from mainstay.client.client import Client
from mainstay.scenarios import SCENARIOS
from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.differences import StateDifference, find_differences, without
from mainstay.sim.cluster.final_state import final_objects
from mainstay.sim.failure.rerun import replay
from mainstay.sim.failure.shrinker import shrink
from mainstay.sim.run.bundle import RunBundle
from mainstay.sim.run.lookup import find_patch
from mainstay.sim.run.plans import DeliverySeen, InjectionPoint, WriteSeen
from mainstay.sim.run.run import RunVerdict
from mainstay.sim.sieve import SievePattern, SieveReport, sieve
from mainstay.sim.sieve.patterns import ReferenceRun, make_plans
from mainstay.store.interface import Entry
from tests.sim.orders import CLERK, ORDERS, THINGS, Orders

pytestmark = pytest.mark.slow

LASTS = timedelta(seconds=4)
TORN = "tests.sim.orders:marks_it_done_before_it_ships"


class Unchecked(Orders):
    """Besides orders there are colours, of the run's choice; and no check looks at the end state."""

    async def turn(self, client: Client) -> None:
        await super().turn(client)
        colour = self.world.sim.choices.choose("work/colour", 100)
        metadata = {"name": f"colour-{self._made}", "namespace": "default"}
        await client.create(THINGS, {"metadata": metadata, "data": {"state": "done", "colour": str(colour)}})

    async def check(self) -> None:
        pass


UNCHECKED = replace(ORDERS, make=Unchecked)


class Hasty(Orders):
    """A clerk to whom the way is long is too slow."""

    async def check(self) -> None:
        if any(self.world.sim.network.link(CLERK, server).latency_ns > 5_000_000 for server in self.world.servers):
            raise Violated("haste", "the clerk is too slow")


HASTY = replace(ORDERS, make=Hasty)


def entry(key: str, **fields: Any) -> Entry:
    namespace, name = key.split("/")[-2:]
    metadata = {"name": name, "namespace": namespace, "uid": f"uid of {key}"}
    value = json.dumps({"metadata": metadata, **fields}).encode()
    return Entry(key, value, created=1, revision=1, version=1)


def compared(wanted: list[Entry], found: list[Entry]) -> list[str]:
    return [str(each) for each in find_differences(final_objects(wanted), final_objects(found))]


def test_a_field_that_differs_is_named_with_its_object():
    db = "apps/statefulsets/default/db"

    found = compared([entry(db, spec={"replicas": 2})], [entry(db, spec={"replicas": 1})])

    assert found == ["apps/statefulsets/default/db: spec.replicas 2 ≠ 1"]


def test_conditions_and_containers_are_named_by_what_they_are_called():
    web = "core/pods/default/web"
    ready, late = [{"type": "Ready", "status": "True"}], [{"type": "Ready", "status": "False"}]

    found = compared([entry(web, status={"conditions": ready})], [entry(web, status={"conditions": late})])

    assert found == ['core/pods/default/web: status.conditions[Ready].status "True" ≠ "False"']


def test_an_object_too_many_or_too_few_is_named():
    a, b = entry("core/secrets/default/a"), entry("core/secrets/default/b")

    assert compared([a], [a, b]) == ["core/secrets/default/b: missing ≠ there"]
    assert compared([a, b], [b]) == ["core/secrets/default/a: there ≠ missing"]


def test_what_differs_anyway_is_not_told():
    noise = [StateDifference("a", "data.node", "1", "2")]

    found = without([StateDifference("a", "data.node", "1", "3"), StateDifference("a", "data.uid", "1", "2")], noise)

    assert found == [StateDifference("a", "data.uid", "1", "2")]


# Which plans there are


def a_telling(key: str, revision: int, number: int) -> DeliverySeen:
    return DeliverySeen(CLERK, key, revision, InjectionPoint(CLERK, False, f"{key}, change {revision}", 1), number)


def a_deed(number: int) -> WriteSeen:
    return WriteSeen(
        number, InjectionPoint(CLERK, True, f"POST /things/{number}", 1), is_heartbeat=False, number=number
    )


@pytest.mark.parametrize(
    ("pattern", "faults"), [(SievePattern.UNOBSERVED, ["unseen"]), (SievePattern.STALE, ["old-state"])]
)
def test_hiding_what_no_decision_has_looked_at_cannot_matter(pattern: SievePattern, faults: list[str]):
    tellings = [a_telling("x", 1, 1), a_telling("x", 2, 3), a_telling("y", 3, 5)]
    reference = ReferenceRun([a_deed(2), a_deed(4)], tellings, {"x": 2, "y": 3}, reads=[("x", 1), ("y", 3)])

    plans, idle = make_plans(pattern, reference, CLERK)

    assert [plan.aim.fault for plan in plans] == faults
    assert idle == (0 if pattern is SievePattern.UNOBSERVED else 1)


def test_what_a_program_without_records_has_read_is_unknown():
    tellings = [a_telling("x", 1, 1), a_telling("x", 2, 3), a_telling("x", 4, 5)]
    reference = ReferenceRun([], tellings, {"x": 4}, reads=None)

    plans, idle = make_plans(SievePattern.UNOBSERVED, reference, CLERK)

    assert [plan.aim.place.what for plan in plans] == ["x, change 1", "x, change 2"]
    assert idle == 0


# Each pattern finds what it is there for


def test_a_controller_that_bears_all_of_it_ends_the_same():
    found = sieve(ORDERS, CLERK, lasts=LASTS, one_in=3)

    assert found.bad == (), str(found)
    assert found.runs >= 4
    assert str(found).startswith(f"orders: clerk passes all {found.runs} fault plans")


def the_broken(report: SieveReport) -> list[str]:
    """Plans with which something that is checked in any run is violated."""
    return [str(each.plan) for each in report.bad if not each.result.problem.startswith("final state: ")]


def test_a_crash_between_two_writes_is_found():
    patch = find_patch("tests.sim.orders:marks_it_done_before_it_ships")

    found = sieve(ORDERS, CLERK, [SievePattern.INTERMEDIATE], lasts=LASTS, patch=patch)

    assert the_broken(found) == [
        "intermediate: crash-after at write 1 of clerk (PATCH /api/v1/namespaces/default/configmaps/order-5)"
    ]
    assert "clerk fails 1 of " in str(found)


def test_a_state_that_was_never_seen_is_found():
    patch = find_patch("tests.twins.caches:keeps_what_is_missing_from_a_state")

    found = sieve(
        SCENARIOS["ghost-node"], "placer", [SievePattern.UNOBSERVED], lasts=timedelta(seconds=15), patch=patch
    )

    assert "unobserved: unseen at delivery 1 to placer (core/nodes/node-2, change 3)" in the_broken(found)


def test_a_start_on_the_past_is_found():
    patch = find_patch("tests.sim.orders:names_shipments_after_the_time")

    found = sieve(ORDERS, CLERK, [SievePattern.STALE], lasts=LASTS, patch=patch)

    assert the_broken(found) == [
        "stale: old-state (1 changes back) at delivery 1 to clerk (core/configmaps/default/order-5, change 2)"
    ]


def test_a_run_that_ends_otherwise_violates_and_does_so_again_when_it_is_replayed_and_when_it_is_shrunk():
    found = sieve(UNCHECKED, CLERK, [SievePattern.INTERMEDIATE], lasts=LASTS, jobs=2, patch=find_patch(TORN))

    (bad,) = found.bad
    assert bad.result.verdict is RunVerdict.VIOLATED
    assert bad.result.problem == (
        "final state: the final state differs from that of the run without the fault:\n"
        "  core/configmaps/default/shipment-of-order-5: there ≠ missing"
    )

    scenario = f"{__name__}:UNCHECKED"
    bundle = RunBundle.of(bad.result, scenario=scenario, planted=TORN, has_journal=True, lasts=LASTS)
    again = replay(bundle)
    assert again.is_same
    assert again.result.problem == bad.result.problem

    small = shrink(bundle, jobs=2)
    assert small.bundle.result.problem == bad.result.problem
    assert [unit.group for unit in small.units if unit.is_strike] == ["fault/crash-after"]
    # With other colours it would end otherwise without any fault.
    assert [unit.group for unit in small.units if not unit.is_strike].count("work/colour") > 1


def test_without_two_runs_that_pass_nothing_is_compared():
    found = sieve(HASTY, CLERK, lasts=LASTS)

    (bad,) = found.bad
    assert bad.is_slower
    assert found.runs == 0
    assert str(found).splitlines() == [
        "orders: it fails even without faults:",
        "  without faults, a little slower",
        "    violated: haste: the clerk is too slow",
    ]


def test_what_no_tape_makes_again_has_no_bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    bundles = tmp_path / "bundles"
    command = ["sim", "sieve", f"{__name__}:HASTY", "--program", CLERK, "--for", "4s", "--bundles", str(bundles)]

    assert run([*command, "--jobs", "1"]) == Exit.VIOLATED

    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["without faults, a little slower: violated", "  haste: the clerk is too slow"]
    assert said[2].startswith(f"{__name__}:HASTY: fails without any fault; ")
    assert not bundles.exists()


def test_a_program_that_is_not_there_is_said():
    with pytest.raises(ValueError, match="orders has no program 'missing'; it has clerk"):
        sieve(ORDERS, "missing")
