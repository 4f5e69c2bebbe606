"""Feature gates: by name, known ones only, and told in each state and record."""

from pathlib import Path

import pytest

from mainstay.api.feature_gates import DEFAULT_GATES, GATES, SHADOW_PLACEMENT, BadGates, find_unknown, parse_gates


def test_a_gate_is_as_in_the_table_unless_it_is_given():
    gates = parse_gates("ShadowPlacement=false, RetryingCondition=true")

    assert SHADOW_PLACEMENT in DEFAULT_GATES
    assert SHADOW_PLACEMENT not in gates
    assert gates.changed == ("ShadowPlacement=false",)
    assert parse_gates("").changed == DEFAULT_GATES.changed == ()
    assert set(gates.all) == {f"{name}={'false' if name == 'ShadowPlacement' else 'true'}" for name in GATES}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Shadow=true", "unknown feature gate 'Shadow': the gates are AutoscalerReadsProgress, "),
        ("ShadowPlacement", "feature gate ShadowPlacement must be true or false, not ''"),
        ("ShadowPlacement=1", "feature gate ShadowPlacement must be true or false, not '1'"),
        ("ShadowPlacement=true,ShadowPlacement=false", "feature gate ShadowPlacement is given as true and as false"),
    ],
)
def test_what_is_no_gate_is_refused_with_those_there_are(text: str, problem: str):
    with pytest.raises(BadGates) as found:
        parse_gates(text)
    assert str(found.value).startswith(problem)


def test_a_gate_of_another_build_is_found_among_the_flags_of_a_record():
    assert find_unknown(("Gone=true", "ShadowPlacement=false", "controllersettings/default@7")) == ("Gone",)


def test_the_table_is_sorted_by_name():
    assert list(GATES) == sorted(GATES)


def test_the_page_has_the_table():
    page = (Path(__file__).parents[2] / "docs" / "feature-gates.md").read_text()
    rows = [
        f"| `{gate.name}` | {gate.stage} | {str(gate.is_on).lower()} | {gate.program} | {gate.text} |"
        for gate in GATES.values()
    ]

    assert [line for line in page.splitlines() if line.startswith("| `")] == rows
