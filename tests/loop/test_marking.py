"""What a record says of its subject, for the rules of sampling."""

from typing import Any

import pytest

from mainstay.loop.record_marks import Marks, read_marks


def an_object(generation: int = 1, status: Any = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "generation": generation}, "spec": spec, "status": status}


TEMPLATE = {"template": {"spec": {"priorityClassName": "high"}}}


@pytest.mark.parametrize(
    ("subject", "marks"),
    [
        (None, Marks()),
        ({"metadata": {"name": "a"}}, Marks()),
        (an_object(priority=1_000, priorityClassName="high"), Marks(1_000, "high")),
        (an_object(2, {"observedGeneration": 2}, replicas=3, **TEMPLATE), Marks(0, "high")),
        (an_object(2, {"observedGeneration": 1}, replicas=3, **TEMPLATE), Marks(0, "high", is_rolling_out=True)),
        (an_object(1, None, replicas=3, **TEMPLATE), Marks(0, "high", is_rolling_out=True)),
        (
            an_object(2, {"observedGeneration": 2, "updatedReplicas": 1}, replicas=3, **TEMPLATE),
            Marks(0, "high", is_rolling_out=True),
        ),
        (an_object(2, {"observedGeneration": 2, "updatedReplicas": 3}, replicas=3, **TEMPLATE), Marks(0, "high")),
        (an_object(2, {}, nodeName="n"), Marks()),
    ],
)
def test_priority_and_rollout_are_read_from_the_object(subject: Any, marks: Marks):
    assert read_marks(subject) == marks
