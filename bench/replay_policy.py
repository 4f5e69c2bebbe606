"""How long does `mainstay replay --policy` take for 100,000 decisions?

That is: open the bundle, check its integrity, decide each by the candidate, and run both policies forward.

The bundle is made by _policy_bundle.py, which takes some minutes; it is kept in the directory for temporary files and
used again until a source changes. The candidate bounds skews more tightly and packs nodes, for one of three namespaces.
"""

import hashlib
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import mainstay
from bench import _policy_bundle
from bench._policy_bundle import make_bundle
from bench.measure import Figure, Stopwatch, main
from mainstay.env import tasks
from mainstay.journal.bundle import open_bundle
from mainstay.scheduler.comparison.comparison import PolicyComparison, compare_policy, find_placements

CANDIDATE: Final[dict[str, Any]] = {
    "metadata": {"name": "shop-v2"},
    "spec": {
        "policyVersion": "2",
        "scope": {"namespaces": ["shop"]},
        "scores": {"MostAllocated": 5},
        "maxZoneSkew": 1,
    },
}


def measure(quick: bool) -> Iterable[Figure]:
    decisions = 1_000 if quick else 100_000
    content = _bundle(decisions)
    with Stopwatch() as watch:
        found = tasks.run(_compare(content))
    count = found.integrity.replayed
    if found.integrity.differences or found.integrity.cannot:
        raise AssertionError(f"{found.integrity}")
    name = f"replay --policy: {count:,} decisions"
    yield Figure(f"{name}, wall time", watch.wall_s, "s", watch.cpu_s / count * 1e6, "" if quick else "≤ 60")
    yield Figure(f"{name}, CPU time", watch.cpu_s, "s", watch.cpu_s / count * 1e6, "" if quick else "≤ 60")
    yield Figure(f"{name}: of them, the candidate decides differently", found.different, "decisions")


def _bundle(decisions: int) -> bytes:
    path = Path(tempfile.gettempdir()) / f"mainstay-bench-{decisions}-{_hash_sources()}.bundle"
    if not path.exists():
        path.write_bytes(make_bundle(decisions))
    return path.read_bytes()


def _hash_sources() -> str:
    """What the bundle depends on: the program that makes it, and everything that it runs."""
    found = hashlib.blake2b(digest_size=8)
    for path in (Path(_policy_bundle.__file__), *sorted(Path(mainstay.__file__).parent.rglob("*.py"))):
        found.update(path.read_bytes())
    return found.hexdigest()


async def _compare(content: bytes) -> PolicyComparison:
    journal = open_bundle(content).journal
    wanted = find_placements((await journal.decisions(limit=1 << 40)).records)
    return await compare_policy(journal, {each.id for each in wanted}, CANDIDATE)


if __name__ == "__main__":
    main(measure)
