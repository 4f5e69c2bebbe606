"""A journal on a disk that loses power: nothing that was reported durable is lost, and each planted bug is found."""

import pytest

from tests.journal import power_cut
from tests.twins import journal as twins

pytestmark = pytest.mark.slow

SEEDS = range(40)
KNOWN = {twins.believes_a_torn_frame: 53}  # The first seed that finds it.
FEW_AND_MORE = [range(10), pytest.param(range(10, 40), marks=pytest.mark.deep)]


@pytest.mark.parametrize("seeds", FEW_AND_MORE, ids=["few", "more"])
def test_nothing_that_was_reported_durable_is_lost_in_a_crash(seeds):
    for seed in seeds:
        power_cut.run(seed)


@pytest.mark.parametrize("seeds", FEW_AND_MORE, ids=["few", "more"])
def test_nothing_is_lost_either_when_the_disk_fails_now_and_then(seeds):
    for seed in seeds:
        power_cut.run(seed, error_probability=0.05)


@pytest.mark.parametrize("twin", twins.TWINS, ids=lambda twin: twin.__name__)
def test_a_journal_with_a_planted_bug_is_caught(twin, monkeypatch):
    twin(monkeypatch)

    with pytest.raises(power_cut.Broken):
        for seed in (KNOWN.get(twin, 0), *SEEDS):
            power_cut.run(seed)


def test_a_journal_that_believes_what_is_not_synced_is_caught(monkeypatch):
    twins.believes_what_is_not_synced_after_a_restart(monkeypatch)

    with pytest.raises(power_cut.Broken):
        for seed in (39, *range(400)):  # 39 is the first that finds it.
            power_cut.run(seed, error_probability=0.2)


def test_the_same_seed_gives_the_same_run():
    assert power_cut.run(7) == power_cut.run(7)
    assert power_cut.run(7) != power_cut.run(8)
