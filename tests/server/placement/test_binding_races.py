"""Clients that race for the same nodes: no node is given away twice, and each planted bug is found."""

import pytest

from tests.server.placement import binding_races
from tests.server.placement.ledger_cases import Broken
from tests.twins import ledger as twins

pytestmark = pytest.mark.slow

SEEDS = range(12)
SEEDS_OF_TWINS = range(40)


@pytest.mark.parametrize("backend", binding_races.BACKENDS)
def test_no_node_is_given_away_twice_and_every_ledger_is_the_sum_of_its_charges(backend: str):
    assert sum(binding_races.run(seed, backend) for seed in SEEDS) > len(SEEDS)


@pytest.mark.parametrize("backend", binding_races.BACKENDS)
@pytest.mark.parametrize("twin", twins.TWINS, ids=lambda twin: twin.__name__)
def test_a_planted_bug_is_found(twin: twins.Twin, backend: str, monkeypatch: pytest.MonkeyPatch):
    twin(monkeypatch)

    with pytest.raises(Broken):
        for seed in SEEDS_OF_TWINS:
            binding_races.run(seed, backend)
