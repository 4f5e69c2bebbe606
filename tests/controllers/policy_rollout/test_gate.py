"""What a gate says about what it waits for."""

import pytest

from mainstay.controllers.policy_rollout.freshness import StaleSignal
from mainstay.controllers.policy_rollout.gate import describe_stale


@pytest.mark.parametrize(
    ("stale", "text"),
    [
        (["scheduler"], "scheduler 0"),
        (["scheduler", "scheduler"], "scheduler 0 (and 1 more kind)"),
        (["apiserver"] * 13 + ["scheduler"] * 2, "apiserver 0 (and 12 more kinds); scheduler 13 (and 1 more kind)"),
        (["a", "b", "c", "d"], "a 0; b 1; c 2 (and 1 more component)"),
        (["", ""], " 0;  1"),
    ],
)
def test_what_is_stale_is_named_by_component_with_its_first_kind(stale, text):
    signals = tuple(StaleSignal(name, "", f"{name} {number}") for number, name in enumerate(stale))

    assert describe_stale(signals) == text
