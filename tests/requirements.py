"""Tests that need a real component, such as an etcd server, and what happens when it is not there.

On a developer's machine such a test is skipped and says why. With `MAINSTAY_REQUIRE_ALL=1` every skip is a failure,
whatever its reason: a check that is quietly not made must not look like one that passed. CI runs that way.
"""

import os
import shutil
from typing import Final

import pytest

# The program that has to be on PATH for each component. `make components` installs them (tools/components).
_PROGRAMS: Final = {"etcd": "etcd", "ip": "ip", "kubectl": "kubectl"}


def needs(component: str) -> pytest.MarkDecorator:
    """Mark a test, or with `pytestmark` a module, that needs a real component: `@needs("etcd")`."""
    program = _PROGRAMS[component]
    return pytest.mark.skipif(
        shutil.which(program) is None,
        reason=f"needs {component}: there is no program {program!r} on PATH (`make components` installs it)",
    )


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it makes network namespaces")
"""Mark a test that only root can run."""


# Hooks, which tests/conftest.py passes on to pytest.


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    # An expected failure is also reported as "skipped", but it did run.
    if report.skipped and not hasattr(report, "wasxfail"):
        _fail_if_all_is_required(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    if report.skipped:  # A module that skips itself while it is imported.
        _fail_if_all_is_required(report)
    return report


def _fail_if_all_is_required(report: pytest.TestReport | pytest.CollectReport) -> None:
    if os.environ.get("MAINSTAY_REQUIRE_ALL") != "1":
        return
    # A skip keeps its place and its reason in a tuple.
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = f"skipped, but MAINSTAY_REQUIRE_ALL=1 requires every test to run.\n{reason}"
