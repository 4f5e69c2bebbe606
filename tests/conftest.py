"""Rules for all tests. See tests/requirements.py for what they are."""

from hypothesis import settings

from tests.requirements import pytest_make_collect_report, pytest_runtest_makereport

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]

pytest_plugins = ["pytester"]

# The same examples each time, so that a red run means a change; and no time limit on a shared machine.
settings.register_profile("mainstay", derandomize=True, deadline=None, database=None)
settings.load_profile("mainstay")
