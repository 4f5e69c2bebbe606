"""What tests of the outside share."""

import pytest


@pytest.fixture(
    params=[pytest.param("simulated", marks=pytest.mark.sim), pytest.param("real", marks=pytest.mark.real_loop)]
)
def either_loop(request: pytest.FixtureRequest) -> str:
    """Runs a test twice, in virtual time and on the production loop: what env promises must hold on both."""
    kind: str = request.param
    return kind
