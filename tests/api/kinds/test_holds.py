"""The kind Hold: what it must say, what may change of it, and what a table shows."""

from datetime import timedelta
from typing import Any

import pytest

from mainstay.api.holds import (
    HoldScope,
    build_hold_name,
    freezing,
    holding_controller,
    holding_rollout,
    in_force,
    parse_hold,
)
from mainstay.api.kind import Kind
from mainstay.api.kind_names import HOLDS
from mainstay.api.kinds import BUILTIN
from mainstay.api.tables import TABLES
from tests.controllers.objects import NOON, a_hold, at

(HOLD,) = [kind for kind in BUILTIN if kind.reference == HOLDS]
WEB = {"kind": "Deployment", "namespace": "shop", "name": "web"}


def problems(hold: dict[str, Any], old: dict[str, Any] | None = None, kind: Kind = HOLD) -> dict[str, str]:
    kind.defaults(hold)
    return {cause.field: cause.message for cause in kind.validate(hold, old)}


@pytest.mark.parametrize(
    ("what", "target"),
    [
        (HoldScope.CONTROLLER, {"name": "deployment"}),
        (HoldScope.EVICTIONS, {}),
        (HoldScope.EVICTIONS, {"namespace": "shop"}),
        (HoldScope.ROLLOUT, WEB),
    ],
)
def test_one_of_each_is_fine(what, target):
    assert problems(a_hold(what, target)) == {}


def test_a_hold_says_what_it_holds_who_answers_for_it_why_and_until_when():
    assert problems({"metadata": {"name": "h"}, "spec": {}}) == {
        "spec.what": "Required value",
        "spec.owner": "Required value: must name who is responsible for the Hold",
        "spec.reason": "Required value: must say why",
        "spec.expiresAt": "Required value: a Hold must expire",
    }
    assert problems({"metadata": {"name": "h"}}) == {"spec": "Required value"}


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        (
            "what",
            "Everything",
            'Unsupported value: "Everything": supported values: "Controller", "Evictions", "Rollout"',
        ),
        ("expiresAt", "tomorrow", 'Invalid value: "tomorrow": parsing time "tomorrow"'),
        ("reason", " ", 'Invalid value: " ": must say why'),
        ("reason", "one\ntwo", "must be one line of text"),
        ("owner", "x" * 501, "Too long: may not be more than 500 characters"),
        ("owner", 7, "Invalid value: 7: must name who is responsible for the Hold"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_would(field, value, problem):
    hold = a_hold(HoldScope.EVICTIONS)
    hold["spec"][field] = value
    found = problems(hold)

    assert list(found) == [f"spec.{field}"]
    assert problem in found[f"spec.{field}"]


@pytest.mark.parametrize(
    ("what", "target", "problem"),
    [
        (HoldScope.CONTROLLER, {}, ("spec.target.name", "Required value")),
        (
            HoldScope.CONTROLLER,
            {"name": "job", "namespace": "a"},
            ("spec.target.namespace", "Forbidden: not supported for Controller"),
        ),
        (HoldScope.EVICTIONS, {"name": "web"}, ("spec.target.name", "Forbidden: not supported for Evictions")),
        (HoldScope.ROLLOUT, {"name": "web"}, ("spec.target.namespace", "Required value")),
        (
            HoldScope.ROLLOUT,
            {**WEB, "kind": "Job"},
            ("spec.target.kind", 'Unsupported value: "Job": supported values: "Deployment"'),
        ),
    ],
)
def test_a_target_is_that_of_what_is_held(what, target, problem):
    assert problems(a_hold(what, target)) == dict([problem])


def test_names_in_a_target_are_names():
    assert list(problems(a_hold(HoldScope.ROLLOUT, {**WEB, "namespace": "a.b", "name": "A"}))) == [
        "spec.target.namespace",
        "spec.target.name",
    ]


def test_what_is_held_stays_the_same_and_the_rest_may_change():
    before = a_hold(HoldScope.CONTROLLER, {"name": "job"})
    longer = a_hold(HoldScope.CONTROLLER, {"name": "job"}, ends=7200, owner="ben", reason="still looking")
    other = a_hold(HoldScope.CONTROLLER, {"name": "deployment"})

    assert problems(longer, before) == {}
    assert problems(other, before) == {"spec.target": "Forbidden: field is immutable; create another Hold"}


def test_what_was_left_out_is_filled_in():
    rollout = a_hold(HoldScope.ROLLOUT, {"namespace": "shop", "name": "web"}, expiresAt="2026-03-01T13:00:00.5+00:00")
    evictions = a_hold(HoldScope.EVICTIONS)
    del evictions["spec"]["target"]

    assert problems(rollout) == problems(evictions) == {}
    assert rollout["spec"]["target"]["kind"] == "Deployment"
    assert rollout["spec"]["expiresAt"] == "2026-03-01T13:00:00Z"
    assert evictions["spec"]["target"] == {}


def test_a_table_says_for_how_long_it_still_holds_and_that_it_does_no_more():
    hold = a_hold(HoldScope.ROLLOUT, WEB)
    table = TABLES[(HOLDS.group, HOLDS.kind)]

    assert [column.name for column in table.columns] == ["Name", "What", "Target", "Owner", "Left", "Reason", "Age"]
    assert table.cells(hold, NOON)[:6] == ["hold", "Rollout", "shop/web", "anna", "60m", "a look"]
    assert table.cells(hold, NOON + timedelta(hours=1))[4] == "Expired"
    assert table.cells(a_hold(HoldScope.EVICTIONS), NOON)[2] == "every namespace"


# What holds whom.


def test_one_is_in_force_until_its_time_is_over_or_it_is_deleted():
    leaving = a_hold(HoldScope.EVICTIONS, name="leaving")
    leaving["metadata"]["deletionTimestamp"] = at(0)
    holds = [a_hold(HoldScope.EVICTIONS, name="short", ends=60), a_hold(HoldScope.EVICTIONS, name="long"), leaving]

    assert [held.name for held in in_force(holds, NOON)] == ["long", "short"]
    assert [held.name for held in in_force(holds, NOON + timedelta(seconds=60))] == ["long"]
    assert parse_hold({"metadata": {"name": "h"}, "spec": {"what": "Nothing", "expiresAt": at(0)}}) is None


def test_each_concerns_what_it_names_and_nothing_else():
    holds = in_force(
        [
            a_hold(HoldScope.CONTROLLER, {"name": "job"}, name="controller"),
            a_hold(HoldScope.EVICTIONS, {"namespace": "shop"}, name="shop"),
            a_hold(HoldScope.ROLLOUT, WEB, name="web"),
        ],
        NOON,
    )

    assert [holding_controller(holds, name) is not None for name in ("job", "web")] == [True, False]
    assert [freezing(holds, namespace) is not None for namespace in ("shop", "bank", "")] == [True, False, False]
    assert [holding_rollout(holds, "shop", name) is not None for name in ("web", "api")] == [True, False]
    everywhere = in_force([a_hold(HoldScope.EVICTIONS)], NOON)
    assert [freezing(everywhere, namespace) is not None for namespace in ("shop", "bank", "")] == [True] * 3


def test_those_who_hold_the_same_meet_at_its_name():
    assert build_hold_name(HoldScope.CONTROLLER, "node-health") == "controller.node-health"
    assert (build_hold_name(HoldScope.EVICTIONS), build_hold_name(HoldScope.EVICTIONS, "", "shop")) == (
        "evictions",
        "evictions.shop",
    )
    assert build_hold_name(HoldScope.ROLLOUT, "web", "shop") == "rollout.shop.web"
