"""Feature gates: what a process can be started with and without, by name, as in Kubernetes.

    gates = parse_gates("ShadowPlacement=false")
    if SHADOW_PLACEMENT in gates: …

The table here is all there is; a name that is not in it is refused. A gate is added with a feature that operators may
have to switch off, and deleted when none do any more. A process has its gates for its whole life. It publishes them
in its ComponentState, and each record of a decision has those that are not as in its build (`changed`): so what a
decision was made with is known from build and record. What a decision itself depends on is also part of its recorded
input: a replay goes by that, not by the gates of the process that replays.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class GateStage(StrEnum):
    """As Kubernetes names them."""

    ALPHA = "Alpha"
    BETA = "Beta"


@dataclass(frozen=True, slots=True)
class FeatureGate:
    name: str
    stage: GateStage
    is_on: bool
    """Unless a process is started otherwise."""
    program: str
    """Which acts on it."""
    text: str


AUTOSCALER_READS_PROGRESS: Final = FeatureGate(
    "AutoscalerReadsProgress",
    GateStage.BETA,
    True,
    "controllers",
    "the autoscaler does not raise replicas while those that were asked for already cannot run",
)
SHADOW_PLACEMENT: Final = FeatureGate(
    "ShadowPlacement", GateStage.BETA, True, "scheduler", "the scheduler also decides by policies that are in shadow"
)
RETRYING_CONDITION: Final = FeatureGate(
    "RetryingCondition",
    GateStage.BETA,
    True,
    "controllers",
    "an object whose controller keeps failing has the condition Retrying",
)

GATES: Final[Mapping[str, FeatureGate]] = {
    gate.name: gate for gate in (AUTOSCALER_READS_PROGRESS, RETRYING_CONDITION, SHADOW_PLACEMENT)
}
"""By name, sorted."""


class BadGates(ValueError):
    """The text is not one of feature gates: says what is wrong, and which gates there are."""


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """What one process was started with."""

    given: Mapping[str, bool] = field(default_factory=dict)
    """By name; those that are not here are as in the table."""

    def __contains__(self, gate: FeatureGate) -> bool:
        return self.given.get(gate.name, gate.is_on)

    @property
    def all(self) -> tuple[str, ...]:
        """`ShadowPlacement=true`, for each gate there is."""
        return tuple(_word(gate, gate in self) for gate in GATES.values())

    @property
    def changed(self) -> tuple[str, ...]:
        """The same, of those that are not as in the table."""
        return tuple(_word(gate, gate in self) for gate in GATES.values() if (gate in self) is not gate.is_on)


DEFAULT_GATES: Final = FeatureGates()


def parse_gates(text: str) -> FeatureGates:
    """Of `NAME=true,NAME=false`. Raises `BadGates`."""
    given: dict[str, bool] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, _, value = part.partition("=")
        if name not in GATES:
            raise BadGates(f"unknown feature gate {name!r}: the gates are {', '.join(GATES)}")
        if value.lower() not in ("true", "false"):
            raise BadGates(f"feature gate {name} must be true or false, not {value!r}")
        if given.setdefault(name, value.lower() == "true") is not (value.lower() == "true"):
            raise BadGates(f"feature gate {name} is given as true and as false")
    return FeatureGates(given)


def find_unknown(flags: Iterable[str]) -> tuple[str, ...]:
    """The gates among the flags of a record that this build does not have."""
    names = [name for name, is_gate, _ in (flag.partition("=") for flag in flags) if is_gate]
    return tuple(name for name in names if name not in GATES)


def _word(gate: FeatureGate, is_on: bool) -> str:
    return f"{gate.name}={'true' if is_on else 'false'}"
