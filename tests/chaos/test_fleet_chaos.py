"""A short life of a fleet: see fleet_chaos.py."""

import asyncio

import pytest

from tests.chaos.fleet import Fleet
from tests.chaos.fleet_chaos import run
from tests.requirements import needs, needs_root

pytestmark = [pytest.mark.slow, pytest.mark.deep, needs("kubectl"), needs("etcd"), needs("ip"), needs_root]


def test_a_fleet_that_is_hurt_for_a_minute_loses_nothing_and_is_well_again():
    with Fleet() as fleet:
        load, chaos, wrong = asyncio.run(run(fleet, minutes=1.0, seed=3))
    assert (wrong, load.ledger.wrong) == ([], [])
    assert load.ledger.writes > 100
    assert len(chaos.history) > 5
