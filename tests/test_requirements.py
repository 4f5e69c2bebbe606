"""A missing component skips a test, and fails it where everything is required."""

import pytest

from tests.requirements import needs

pytestmark = pytest.mark.slow

HOOKS = "from tests.requirements import pytest_make_collect_report, pytest_runtest_makereport"


def run(pytester: pytest.Pytester, source: str) -> pytest.RunResult:
    pytester.makeconftest(HOOKS)
    pytester.makepyfile(source)
    return pytester.runpytest_inprocess("-p", "no:cacheprovider")


@pytest.fixture(autouse=True)
def nothing_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAINSTAY_REQUIRE_ALL", raising=False)


@pytest.fixture
def all_is_required(nothing_is_required: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSTAY_REQUIRE_ALL", "1")


ONE_PASSES_ONE_SKIPS = """
    import pytest

    def test_passes():
        pass

    def test_skips():
        pytest.skip("the moon is not full")
"""


def test_a_skip_is_only_a_skip_on_a_developers_machine(pytester: pytest.Pytester):
    result = run(pytester, ONE_PASSES_ONE_SKIPS)

    result.assert_outcomes(passed=1, skipped=1)
    assert result.ret == pytest.ExitCode.OK


@pytest.mark.usefixtures("all_is_required")
def test_a_skip_fails_with_its_reason_where_all_is_required(pytester: pytest.Pytester):
    result = run(pytester, ONE_PASSES_ONE_SKIPS)

    result.assert_outcomes(passed=1, failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*the moon is not full*"])


@pytest.mark.usefixtures("all_is_required")
@pytest.mark.parametrize(
    "source",
    [
        "import pytest\n@pytest.mark.skip\ndef test(): pass",
        "import pytest\n@pytest.mark.skipif(True, reason='so')\ndef test(): pass",
        "import unittest\nclass Test(unittest.TestCase):\n    @unittest.skip('so')\n    def test(self): pass",
        "import pytest\n@pytest.fixture\ndef given(): pytest.skip('so')\ndef test(given): pass",
    ],
)
def test_every_way_to_skip_a_test_fails_where_all_is_required(pytester: pytest.Pytester, source: str):
    result = run(pytester, source)

    outcomes = result.parseoutcomes()
    assert outcomes.get("skipped", 0) == 0
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.usefixtures("all_is_required")
def test_a_module_that_skips_itself_fails_where_all_is_required(pytester: pytest.Pytester):
    result = run(pytester, "import pytest\npytest.skip('not here', allow_module_level=True)")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*not here*"])


@pytest.mark.usefixtures("all_is_required")
def test_an_expected_failure_is_not_a_skip(pytester: pytest.Pytester):
    result = run(pytester, "import pytest\n@pytest.mark.xfail(reason='known')\ndef test(): assert False")

    result.assert_outcomes(xfailed=1)
    assert result.ret == pytest.ExitCode.OK


def test_a_test_that_needs_a_missing_component_says_what_and_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nowhere")

    mark = needs("etcd")

    assert mark.args == (True,)
    assert mark.kwargs["reason"] == "needs etcd: there is no program 'etcd' on PATH (`make components` installs it)"


def test_a_test_that_needs_a_component_that_is_there_runs(monkeypatch: pytest.MonkeyPatch, tmp_path):
    (tmp_path / "etcd").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert needs("etcd").args == (False,)
