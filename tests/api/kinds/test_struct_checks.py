"""Specs that are declared as structs are refused in the words of other kinds: the field, its value, what it must be."""

from typing import Any

import pytest

from tests.api.kinds.steps import kind_of, problems

OBJECTIVE = {"type": "TimeToBound", "withinSeconds": 3, "percent": 90}
TARGET = {"kind": "Deployment", "name": "web"}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (1, 'spec: Invalid value: "integer": spec in body must be of type object: "integer"'),
        ({}, "spec.target: Required value"),
        ({"target": TARGET, "objectives": []}, "spec.objectives: Invalid value: []: must not be empty"),
        ({"target": {**TARGET, "name": ""}}, 'spec.target.name: Invalid value: "": must not be empty'),
        (
            {"target": {**TARGET, "kind": "Pod"}},
            'spec.target.kind: Unsupported value: "Pod": supported values: "Deployment", "ReplicaSet"',
        ),
        (
            {"target": {**TARGET, "namespace": "x"}},
            "spec.target.namespace: Forbidden: unknown field; known fields: kind, name",
        ),
        ({"target": TARGET, "objectives": [{"percent": 1}]}, "spec.objectives[0].type: Required value"),
        (
            {"target": TARGET, "objectives": [{**OBJECTIVE, "percent": 100}]},
            "spec.objectives[0].percent: Invalid value: 100: must be less than or equal to 99",
        ),
        (
            {"target": TARGET, "objectives": [{**OBJECTIVE, "percent": "all"}]},
            r'spec.objectives[0].percent: Invalid value: "all": must match ^[1-9][0-9]?\.[0-9]{1,3}$',
        ),
        (
            {"target": TARGET, "objectives": [{**OBJECTIVE, "percent": 99.9}]},
            'spec.objectives[0].percent: Invalid value: "number": spec.objectives[0].percent in body must be of type'
            ' integer or string: "number"',
        ),
    ],
)
def test_a_service_level_objective_is_refused_with_the_field_and_its_value(spec: Any, said: str):
    found = problems(
        kind_of("mainstay.dev/v1", "ServiceLevelObjective"),
        {"metadata": {"name": "x", "namespace": "d"}, "spec": spec},
    )

    assert found == [said]


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        ([], 'spec.queue: Invalid value: "array": spec.queue in body must be of type object: "array"'),
        (
            {"attemptsMax": "x"},
            'spec.queue.attemptsMax: Invalid value: "string": spec.queue.attemptsMax in body must be of type integer:'
            ' "string"',
        ),
        (
            {"tenantWeights": {"a": 0}},
            'spec.queue.tenantWeights: Invalid value: {"a":0}: each value must be greater than or equal to 1',
        ),
        (
            {"tenantWeights": {"a": "x"}},
            'spec.queue.tenantWeights: Invalid value: {"a":"x"}: each value must be of type integer',
        ),
    ],
)
def test_controller_settings_are_refused_with_the_field_and_its_value(queue: Any, said: str):
    found = problems(
        kind_of("mainstay.dev/v1", "ControllerSettings"), {"metadata": {"name": "x"}, "spec": {"queue": queue}}
    )

    assert found == [said]
