"""A store on a disk that loses power: no promise is broken, and each planted bug is found."""

import pytest

from tests.store import power_cut
from tests.twins import store as twins

pytestmark = pytest.mark.slow

SEEDS = range(60)
FEW_AND_MORE = [range(12), pytest.param(range(12, 60), marks=pytest.mark.deep)]
SEEDS_OF_TWINS = range(150)
KNOWN = {twins.forgets_a_deletion_before_what_it_deleted: 68}  # The first seed that finds it.


@pytest.mark.parametrize("seeds", FEW_AND_MORE, ids=["few", "more"])
def test_nothing_acknowledged_is_lost_in_a_power_cut(seeds):
    for seed in seeds:
        power_cut.run(seed)


@pytest.mark.parametrize("seeds", FEW_AND_MORE, ids=["few", "more"])
def test_nothing_is_lost_either_when_the_disk_fails_now_and_then(seeds):
    for seed in seeds:
        power_cut.run(seed, error_probability=0.05)


def test_a_store_that_goes_on_writing_after_an_error_is_caught(monkeypatch):
    twins.goes_on_after_an_error(monkeypatch)

    with pytest.raises(power_cut.Broken):
        for seed in SEEDS:
            power_cut.run(seed, error_probability=0.05)


@pytest.mark.parametrize("twin", twins.TWINS, ids=lambda twin: twin.__name__)
def test_a_store_with_a_planted_bug_is_caught(twin, monkeypatch):
    twin(monkeypatch)

    with pytest.raises(power_cut.Broken):
        for seed in (KNOWN.get(twin, 0), *SEEDS_OF_TWINS):
            power_cut.run(seed)


def test_a_disk_that_lies_about_syncing_is_caught():
    with pytest.raises(power_cut.Broken):
        for seed in SEEDS:
            power_cut.run(seed, lost_sync_probability=0.3)


def test_the_same_seed_gives_the_same_run():
    assert power_cut.run(7) == power_cut.run(7)
    assert power_cut.run(7) != power_cut.run(8)
