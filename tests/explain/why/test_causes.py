"""The causes are a contract: each has a tier, a meaning, advice, an explainer that names it, and a line on the page."""

import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import mainstay
from mainstay.explain.why.causes import MEANINGS, Cause, Tier, gravity

ROOT = Path(__file__).parents[3]
TOOL = ROOT / "tools" / "make-reasons"


def test_each_cause_has_a_tier_a_meaning_and_advice():
    assert list(MEANINGS) != []
    assert set(MEANINGS) == set(Cause)
    for meaning in MEANINGS.values():
        assert meaning.text.endswith(".")
        assert meaning.advice.endswith((".", "`."))


def test_tiers_are_in_the_order_in_which_they_are_told():
    assert [str(tier) for tier in Tier] == [
        "misconfigured",
        "policy",
        "quota",
        "capacity",
        "topology",
        "health",
        "in progress",
        "satisfied",
        "unknown",
    ]
    assert gravity(Cause.IMAGE_UNAVAILABLE) < gravity(Cause.UNTOLERATED_TAINT) < gravity(Cause.QUOTA_EXCEEDED)
    assert gravity(Cause.QUOTA_EXCEEDED) < gravity(Cause.NODE_TOO_SMALL) < gravity(Cause.NODE_AFFINITY)
    assert gravity(Cause.NODE_AFFINITY) < gravity(Cause.CRASH_LOOP) < gravity(Cause.STARTING)


def test_each_cause_is_named_by_an_analyser():
    [root] = mainstay.__path__
    paths = [path for path in Path(root).rglob("*.py") if "why" in path.as_posix() and path.name != "causes.py"]
    sources = "".join(path.read_text() for path in sorted(paths))
    assert [cause.name for cause in Cause if f"Cause.{cause.name}" not in sources] == []


def test_the_page_of_reasons_is_true():
    loader = SourceFileLoader("make_reasons", str(TOOL))
    spec = spec_from_loader("make_reasons", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    assert (ROOT / "docs" / "reasons.md").read_text() == module.page(), "run tools/make-reasons"


def test_the_tool_says_whether_the_page_is_true():
    done = subprocess.run([sys.executable, str(TOOL), "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "true\n")
