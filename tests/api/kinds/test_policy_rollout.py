"""What a PolicyRollout may say: stages in their order, a gate with sensible numbers, and what cannot change later."""

from typing import Any

import pytest

from mainstay.api.kind import Object
from tests.api.kinds.steps import kind_of, problems

SHADOW = {"name": "shadow", "shadowPercent": 5}
SCOPED = {"name": "scoped", "scope": {"namespaces": ["risk-staging"]}}
CANARY = {"name": "canary", "percent": 10}
ALL = {"name": "all", "percent": 100}
ONE = "must have one of shadowPercent, percent and scope"


def a_rollout(**spec: Any) -> Object:
    return {"metadata": {"name": "x"}, "spec": {"policy": "v6", **spec}}


def wrong(old: Object | None = None, **spec: Any) -> list[str]:
    return problems(kind_of("mainstay.dev/v1", "PolicyRollout"), a_rollout(**spec), old)


@pytest.mark.parametrize("stages", [[CANARY, ALL], [SHADOW, CANARY, ALL], [SHADOW, SCOPED, ALL], [SCOPED, CANARY, ALL]])
def test_stages_are_shadow_then_a_scope_then_rising_shares_up_to_all(stages):
    assert wrong() == wrong(stages=stages) == []


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        ([SHADOW, CANARY], "spec.stages: Invalid value: 2: the last stage must have percent 100"),
        ([SHADOW, ALL], "spec.stages: Invalid value: 2: a stage of less than 100 percent must come first"),
        ([CANARY, SHADOW, ALL], "spec.stages[1].shadowPercent: Forbidden: shadow stages come first"),
        ([CANARY, SCOPED, ALL], "spec.stages[1].scope: Forbidden: stages by scope come before stages by percent"),
        ([CANARY, {"name": "b", "percent": 10}, ALL], "spec.stages[1].percent: Invalid value: 10: must be greater"),
        ([CANARY, {**CANARY, "percent": 20}, ALL], 'spec.stages[1].name: Invalid value: "canary": must be unique'),
        ([{"name": "a"}, ALL], f'spec.stages[0]: Invalid value: "": {ONE}'),
        ([{**CANARY, "shadowPercent": 1}, ALL], f'spec.stages[0]: Invalid value: "shadowPercent, percent": {ONE}'),
        ([{"percent": 10}, ALL], "spec.stages[0].name: Required value"),
        ([{**CANARY, "percent": 0}, ALL], "spec.stages[0].percent: Invalid value: 0"),
        ([{**CANARY, "percent": 101}, ALL], "spec.stages[0].percent: Invalid value: 101"),
        ([{**CANARY, "percent": "10%"}, ALL], "spec.stages[0].percent: Invalid value"),
        ([{**CANARY, "holdSeconds": 3600}, ALL], "spec.stages[0].holdSeconds: Invalid value: 3600: must be less than"),
        ([{**CANARY, "holdSeconds": -1}, ALL], "spec.stages[0].holdSeconds: Invalid value: -1"),
        ([{**CANARY, "hold": 5}, ALL], "spec.stages[0].hold: Forbidden: unknown field"),
        ([{"name": "a", "scope": {"teams": ["x"]}}, ALL], "spec.stages[0].scope.teams: Forbidden: unknown field"),
        (
            [{"name": "a", "scope": {"zones": []}}, ALL],
            "spec.stages[0].scope.zones: Invalid value: []: must not be empty",
        ),
        ("all", "spec.stages: Invalid value"),
    ],
)
def test_stages_that_cannot_work_are_refused_with_their_path(stages, said):
    found = wrong(stages=stages)

    assert [each for each in found if each.startswith(said)], found


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"policy": ""}, "spec.policy: "),
        ({"previous": "v6"}, 'spec.previous: Invalid value: "v6": must differ from spec.policy'),
        ({"freshnessSeconds": 89}, "spec.freshnessSeconds: Invalid value: 89"),
        ({"deadlineSeconds": 0}, "spec.deadlineSeconds: Invalid value: 0"),
        ({"deadlineSeconds": 300}, "spec.stages[0].holdSeconds: Invalid value: 300: must be less than"),
        ({"paused": "yes"}, "spec.paused: Invalid value"),
        ({"gate": {"minSamples": 0}}, "spec.gate.minSamples: Invalid value: 0"),
        ({"gate": {"significancePercent": 101}}, "spec.gate.significancePercent: Invalid value: 101"),
        ({"gate": {"maxErrors": 1}}, "spec.gate.maxErrors: Forbidden: unknown field"),
        ({"steps": [10, 50]}, "spec.steps: Forbidden: unknown field"),
    ],
)
def test_values_out_of_their_range_and_unknown_fields_are_refused(spec, said):
    found = wrong(**spec)

    assert [each for each in found if each.startswith(said)], found


@pytest.mark.parametrize(
    "change", [{"policy": "v7"}, {"previous": "v5"}, {"stages": [CANARY, ALL]}], ids=lambda change: next(iter(change))
)
def test_what_a_rollout_began_with_cannot_change_later(change):
    old = a_rollout(stages=[SHADOW, CANARY, ALL])

    found = wrong(old, **{**old["spec"], **change})

    assert found == [f"spec.{next(iter(change))}: Forbidden: field is immutable; create another PolicyRollout"]
    assert wrong(old, **old["spec"], paused=True, aborted=True, gate={"minSamples": 3}) == []
