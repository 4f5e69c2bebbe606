"""A test that fails on a real cluster leaves an incident bundle of it (incident.py)."""

import re
from collections.abc import Generator

import pytest

from tests.chaos.cluster import Cluster
from tests.chaos.incident import describe_bundle


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and report.failed:
        for cluster in [each for each in item.funcargs.values() if isinstance(each, Cluster)]:
            name = re.sub(r"[^\w.-]+", "-", item.name)
            report.sections.append(("incident bundle", describe_bundle(cluster, name)))
    return report
