"""What a health check has found."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CheckResult:
    name: str
    problem: str
    """Empty: it is healthy."""
