"""Some of the faults that are planted on real processes, as a user plants and asks. All ten: `bench.faults --real`."""

import pytest

from tests.faults.catalogue import FAULTS
from tests.faults.real import tried_for_real
from tests.requirements import needs

pytestmark = [pytest.mark.deep, needs("kubectl")]

QUICK = ("taint", "resource-quota", "missing-config-map")


def test_why_names_what_was_planted_on_real_processes():
    results = list(tried_for_real([fault for fault in FAULTS if fault.name in QUICK]))

    assert {each.fault.name: each.why_not for each in results} == dict.fromkeys(QUICK, "")
