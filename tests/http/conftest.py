"""What the tests of HTTP share besides clients.py."""

import pytest


@pytest.fixture
def failures() -> list[BaseException]:
    """What the loop's exception handler hears of, after `hear`. Without this, a failure ends the test."""
    return []
