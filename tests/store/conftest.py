"""Each store in turn, for the tests that all of them have to pass."""

from pathlib import Path

import pytest

from tests.store.backends import BACKENDS, Backend


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return Backend.make(request.param, tmp_path)
