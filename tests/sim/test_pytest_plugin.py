"""The pytest plugin, as another project sees it."""

import hypothesis  # noqa: F401 - see below
import pytest

import mainstay.env.tasks
import mainstay.sim.simulation  # noqa: F401 - what the inner pytest imports first it forgets again, and that takes seconds

pytestmark = pytest.mark.slow

# The inner pytest runs in this process, where Mainstay is imported already: that is no fault of the project.
INI = """
[pytest]
addopts = --strict-markers -p no:cacheprovider
filterwarnings =
    error
    ignore:Module already imported
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini(INI)
    return pytester


def outcomes(project: pytest.Pytester, source: str, *options: str) -> dict[str, int]:
    project.makepyfile(source)
    return project.runpytest_inprocess(*options).parseoutcomes()


def test_a_coroutine_test_runs_in_the_simulator_when_it_says_so(project: pytest.Pytester):
    assert outcomes(
        project,
        """
        import asyncio, pytest

        @pytest.mark.sim
        async def test_by_mark():
            await asyncio.sleep(1_000_000)
            assert asyncio.get_running_loop().time() == 1_000_000

        async def test_by_fixture(sim):
            await asyncio.sleep(1_000_000)
            assert sim.loop is asyncio.get_running_loop()

        class TestInClass:
            async def test_by_fixture(self, sim):
                await asyncio.sleep(1_000_000)

        def test_plain(sim):
            sim.run(asyncio.sleep(1_000_000))
        """,
    ) == {"passed": 4}


def test_other_coroutine_tests_are_left_to_others(project: pytest.Pytester):
    project.makepyfile("async def test_unmarked(): ...")

    result = project.runpytest_inprocess()

    result.stdout.fnmatch_lines(["*async def functions are not natively supported*"])


def test_a_project_may_have_all_its_coroutine_tests_simulated(project: pytest.Pytester):
    project.makeini(INI + "mainstay_async_tests = sim")

    assert outcomes(
        project,
        """
        import asyncio

        async def test_unmarked():
            await asyncio.sleep(1_000_000)
        """,
    ) == {"passed": 1}


def test_an_unknown_setting_is_refused(project: pytest.Pytester):
    project.makeini(INI + "mainstay_async_tests = trio")

    result = project.runpytest_inprocess()

    result.stderr.fnmatch_lines(["*mainstay_async_tests can only be*"])


def test_a_test_marked_real_loop_runs_on_the_production_loop(project: pytest.Pytester):
    project.makeini(INI + "mainstay_async_tests = sim")

    assert outcomes(
        project,
        """
        import asyncio, pytest

        @pytest.mark.real_loop
        async def test_by_mark():
            await asyncio.sleep(0)
            assert type(asyncio.get_running_loop()).__module__ == "uvloop"

        @pytest.mark.sim
        @pytest.mark.parametrize(
            "expected", ["mainstay.sim.loop.loop", pytest.param("uvloop", marks=pytest.mark.real_loop)]
        )
        async def test_by_parameter(expected):
            assert type(asyncio.get_running_loop()).__module__ == expected
        """,
    ) == {"passed": 3}


SEEDED = """
    import pytest

    async def test_default(sim):
        assert sim.seed == {}

    @pytest.mark.sim(seed=7)
    async def test_own(sim):
        assert sim.seed == 7

    @pytest.mark.sim
    @pytest.mark.parametrize("seed", [pytest.param(n, marks=pytest.mark.sim(seed=n)) for n in (1, 2)])
    async def test_by_parameter(sim, seed):
        assert sim.seed == seed
"""


def test_a_test_runs_with_its_own_seed_or_that_of_the_command_line(project: pytest.Pytester):
    assert outcomes(project, SEEDED.format(0)) == {"passed": 4}
    assert outcomes(project, SEEDED.format(42), "--sim-seed", "42") == {"passed": 4}


def test_a_failing_test_says_its_seed(project: pytest.Pytester):
    project.makepyfile(
        """
        async def test_wrong(sim):
            assert 1 == 2
        """
    )

    result = project.runpytest_inprocess("--sim-seed", "42")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*simulated with seed 42*"])


def test_what_fails_unseen_fails_the_test(project: pytest.Pytester):
    assert outcomes(
        project,
        """
        import asyncio

        async def fail():
            try:
                await asyncio.sleep(10)
            finally:
                raise ValueError("unseen")

        async def test_while_it_runs(sim):
            sim.loop.create_task(fail())
            await asyncio.sleep(60)

        async def test_at_its_end(sim):
            sim.loop.create_task(fail())
            await asyncio.sleep(1)
        """,
    ) == {"failed": 2}


def test_a_deadlock_fails_the_test_at_once(project: pytest.Pytester):
    project.makepyfile(
        """
        import asyncio

        async def test_waits(sim):
            await asyncio.Event().wait()
        """
    )

    result = project.runpytest_inprocess()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Deadlock: at 0.0 s*", "*main: *test_waits*"])


def test_a_test_that_waits_for_ever_beside_a_heartbeat_fails_at_its_limit(project: pytest.Pytester):
    project.makepyfile(
        """
        import asyncio, pytest
        from datetime import timedelta

        async def beat(period):
            while True:
                await asyncio.sleep(period)

        @pytest.mark.sim(limit=timedelta(minutes=1))
        async def test_own_limit():
            heart = asyncio.create_task(beat(1))
            await asyncio.Event().wait()

        @pytest.mark.sim
        async def test_default_limit():
            heart = asyncio.create_task(beat(3600))
            await asyncio.Event().wait()

        @pytest.mark.sim(limit=None)
        async def test_no_limit():
            await asyncio.sleep(10_000_000)
        """
    )

    result = project.runpytest_inprocess()

    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines(["*TooLong: at 60.0 s*", "*main: *test_own_limit*"])
    result.stdout.fnmatch_lines(["*TooLong: at 2592000.0 s*", "*main: *test_default_limit*"])


def test_skipping_and_expected_failures_work_inside(project: pytest.Pytester):
    assert outcomes(
        project,
        """
        import pytest

        async def test_skips(sim):
            pytest.skip("not today")

        @pytest.mark.xfail(strict=True)
        async def test_is_expected_to_fail(sim):
            assert False

        async def test_fails(sim):
            pytest.fail("on purpose")
        """,
    ) == {"skipped": 1, "xfailed": 1, "failed": 1}


def test_each_example_of_hypothesis_is_a_run_of_its_own(project: pytest.Pytester):
    assert outcomes(
        project,
        """
        import asyncio, pytest
        from hypothesis import HealthCheck, given, settings, strategies as st

        runs = []

        @pytest.mark.sim
        @given(st.integers(1, 100))
        @settings(max_examples=20, database=None)
        async def test_examples(seconds):
            await asyncio.sleep(seconds)
            assert asyncio.get_running_loop().time() == seconds
            runs.append(seconds)

        @given(number=st.integers(1, 100))
        @settings(max_examples=20, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
        async def test_examples_with_fixture(sim, number):
            assert sim.loop is asyncio.get_running_loop()
            await asyncio.sleep(number)
            assert sim.loop.time() == number

        @pytest.mark.sim
        @pytest.mark.parametrize("twice", [1, 2])
        @given(data=st.data())
        @settings(max_examples=5, database=None)
        async def test_draws_inside(twice, data):
            await asyncio.sleep(data.draw(st.integers(1, 5)))

        def test_all_ran():
            assert len(runs) == 20
        """,
    ) == {"passed": 5}


def test_a_hypothesis_test_that_fails_shows_its_example_and_its_seed(project: pytest.Pytester):
    project.makepyfile(
        """
        import asyncio, pytest
        from hypothesis import given, settings, strategies as st

        @pytest.mark.sim
        @given(st.integers())
        @settings(database=None)
        async def test_wrong(number):
            await asyncio.sleep(1)
            assert number < 100
        """
    )

    result = project.runpytest_inprocess()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*simulated with seed 0*", "*test_wrong(*", "*number=100*"])


# Several seeds


MANY = """
    import pytest

    seen = []

    @pytest.mark.sim(seeds=4)
    async def test_each(sim, tmp_path):
        seen.append(sim.seed)
        assert list(tmp_path.iterdir()) == []
        (tmp_path / "file").touch()

    @pytest.mark.sim(seeds=[7, 9])
    async def test_these():
        seen.append("these")

    def test_plain(sim):
        assert sim.seed in (0, 1, 2, 42)

    @pytest.mark.sim(seed=3)
    async def test_own(sim):
        assert sim.seed == 3

    def test_no_simulation():
        assert seen == {}
"""


def test_a_test_may_have_several_seeds_each_with_fixtures_of_its_own(project: pytest.Pytester):
    assert outcomes(project, MANY.format([0, 1, 2, 3, "these", "these"])) == {"passed": 9}


def test_one_seed_of_the_command_line_is_that_of_tests_with_several(project: pytest.Pytester):
    assert outcomes(project, MANY.format([42, "these"]), "--sim-seed", "42") == {"passed": 5}


def test_all_tests_that_name_no_seeds_can_be_given_several(project: pytest.Pytester):
    assert outcomes(project, MANY.format([0, 1, 2, 3, "these", "these"]), "--sim-seeds", "3") == {"passed": 11}


def test_a_failing_test_tells_how_to_run_it_again_what_went_wrong_and_who_waits(project: pytest.Pytester):
    project.makepyfile(
        test_shop="""
        import asyncio, pytest

        async def customer():
            await asyncio.Event().wait()

        @pytest.mark.sim(seeds=5)
        async def test_sells(sim):
            sim.tellers.append(lambda: ["the till is cut off"])
            waiting = asyncio.create_task(customer(), name="customer")
            await asyncio.sleep(1.5)
            assert sim.seed != 3
        """
    )

    result = project.runpytest_inprocess()

    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*test_sells?seed-3?*",
            "*the simulation*",
            "seed 3, 1.500 s of virtual time",
            "repeat with: pytest test_shop.py::test_sells --sim-seed 3",
            "injected faults:",
            "  the till is cut off",
            "waiting tasks, besides * of the cluster:",
            "  customer: *customer*",
        ]
    )
    again = project.runpytest_inprocess("test_shop.py::test_sells", "--sim-seed", "3")
    again.assert_outcomes(failed=1)
