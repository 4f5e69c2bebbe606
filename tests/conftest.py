"""Rules for all tests. See tests/requirements.py for what they are."""

from tests.requirements import pytest_make_collect_report, pytest_runtest_makereport

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]

pytest_plugins = ["pytester"]
