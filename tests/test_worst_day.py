"""The guide about the worst day is true: what it shows is run here, and comes out as it says."""

import gc
import re
import shutil
import sys
import warnings
from collections.abc import Iterator

import kopf  # noqa: F401 - see below
import pytest

import mainstay.sim.testing.stage
import mainstay.sim.testing.survival  # noqa: F401 - what the inner pytest imports first it forgets again
from mainstay.cli.exits import Exit
from mainstay.cli.main import run
from mainstay.sim.run.forks import run_many
from mainstay.sim.run.run import RunVerdict
from tests.test_examples import EXAMPLES

pytestmark = pytest.mark.slow

GUIDE = (EXAMPLES.parent / "docs/guides/worst-day.md").read_text()
FILES = dict(re.findall(r"```python\n# ([\w.]+(?:, right)?)\n(.*?)```", GUIDE, re.DOTALL))
LINES_MAX = 15
COMMAND = re.compile(r"^\$ mainstay (sim (?:sweep|sieve|lineage) .*)\n((?:[^$].*\n)*)", re.MULTILINE)
COMMANDS = [
    (command.split(), shown.splitlines())
    for block in re.findall(r"```console\n(.*?)```", GUIDE, re.DOTALL)
    for command, shown in COMMAND.findall(block)
]
"""Of part 6, in order: the first is about the controller with the bug. What each is shown to print."""
INI = "[pytest]\naddopts = -p no:cacheprovider\nfilterwarnings =\n    ignore:Module already imported\n"


@pytest.fixture
def shop(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.Pytester]:
    """A directory with all that the guide has written by its end, but for what it puts right."""
    pytester.makeini(INI)
    shutil.copy(EXAMPLES / "01_website.py", pytester.path / "website.py")
    shutil.copy(EXAMPLES / "01_website.yaml", pytester.path / "website.yaml")
    for name, text in FILES.items():
        if not name.endswith("right"):
            (pytester.path / name).write_text(text)
    monkeypatch.syspath_prepend(str(pytester.path))
    yield pytester
    for name in ("shop", "certificates", "website"):
        sys.modules.pop(name, None)
    # An operator ends with its simulation, in the middle of its work. What it leaves open goes now, and not in whatever
    # test comes next.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def put_right(shop: pytest.Pytester) -> None:
    (shop.path / "certificates.py").write_text(FILES["certificates.py, right"])


def test_a_cluster_a_controller_and_a_fault_take_fifteen_lines():
    lines = [line for line in FILES["test_website.py"].splitlines() if line.strip()]

    assert len(lines) <= LINES_MAX


@pytest.mark.deep
def test_the_tests_of_the_guide_find_its_bug_and_say_how_to_see_it_again(shop: pytest.Pytester):
    result = shop.runpytest_inprocess("test_website.py", "test_certificates.py", "-q")

    outcomes = result.parseoutcomes()
    assert outcomes["failed"] > 1
    assert outcomes["passed"] + outcomes["failed"] == 22
    result.stdout.no_fnmatch_line("FAILED test_website.py*")
    result.stdout.fnmatch_lines(
        [
            "*the simulation*",
            "repeat with: pytest test_certificates.py::test_one_certificate_although_the_answer_is_lost --sim-seed 0",
            "*fault: the response to request #* of issue is lost",
            "*issue/0: *certificates.py:*",
        ]
    )


@pytest.mark.deep
def test_what_is_put_right_survives_all_of_it(shop: pytest.Pytester):
    put_right(shop)

    result = shop.runpytest_inprocess(
        "test_certificates.py", "test_shop.py", "test_announcing.py", "-q", "--sim-seed", "2"
    )

    result.assert_outcomes(passed=4)


def test_the_scenario_of_the_guide_finds_the_bug_with_its_first_seeds(shop: pytest.Pytester):
    from shop import CERTIFICATES  # type: ignore[import-not-found]

    results = list(run_many(CERTIFICATES, range(1, 41), jobs=2))
    bad = [result for result in results if not result.is_passed]

    assert bad
    assert {result.verdict for result in bad} == {RunVerdict.VIOLATED}
    assert bad[0].problem.startswith("one certificate: there are blog-")


def told(text: str) -> str:
    """Without how long it took, and what names are drawn."""
    return re.sub(r"; [\d.]+ s$", "", re.sub(r"-[a-z\d]{5}\b", "-?", text))


def test_what_looks_for_more_finds_the_bug_as_the_guide_shows(
    shop: pytest.Pytester, capsys: pytest.CaptureFixture[str]
):
    command, shown = COMMANDS[0]

    assert run([*command, "--jobs", "2"]) == Exit.VIOLATED

    said = list(map(told, capsys.readouterr().out.splitlines()))
    dots = shown.index("...")
    assert said[:dots] == list(map(told, shown[:dots]))
    assert said[-1] == told(shown[-1])


@pytest.mark.deep
@pytest.mark.parametrize(("command", "shown"), COMMANDS[1:])
def test_of_what_is_put_right_the_guide_claims_what_is_claimed(
    command: list[str], shown: list[str], shop: pytest.Pytester, capsys: pytest.CaptureFixture[str]
):
    put_right(shop)

    assert run([*command, "--jobs", "2"]) == Exit.SATISFIED

    assert list(map(told, capsys.readouterr().out.splitlines())) == list(map(told, shown))
