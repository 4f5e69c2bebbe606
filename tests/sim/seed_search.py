"""Writes known_seeds.py: for each planted bug the first seed that finds it.

    python -m tests.sim.seed_search

Run it when scenarios, faults or what they disturb have changed so much that `make test` has become slow: a known seed
that no longer finds its bug is followed by a search. Takes minutes.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from mainstay.scenarios import SCENARIOS
from tests.sim.test_scenarios import FIRST_SEEDS, TWINS, Twin, first_found

FILE = Path(__file__).parent / "known_seeds.py"


def table(seeds: Mapping[tuple[str, Twin], int]) -> str:
    """The source of known_seeds.py."""
    rows = sorted(
        [(name, twin.__module__.rpartition(".")[2], twin.__name__, seeds[name, twin]) for name, twin in seeds]
    )
    modules = sorted({module for _, module, _, _ in rows})
    return "\n".join(
        [
            '"""Seeds that find a planted bug at once, where that is not 1. Written by tests/sim/seed_search.py."""',
            "",
            "from collections.abc import Callable",
            "from typing import Final",
            "",
            "import pytest",
            "",
            "from tests.twins import (",
            *[f"    {module}," for module in modules],
            ")",
            "",
            "KNOWN_SEEDS: Final[dict[tuple[str, Callable[[pytest.MonkeyPatch], None]], int]] = {",
            *[f'    ("{name}", {module}.{function}): {seed},' for name, module, function, seed in rows],
            "}",
            "",
        ]
    )


def main() -> int:
    seeds: dict[tuple[str, Twin], int] = {}
    missing = 0
    for name, twin, problem in TWINS:
        result = first_found(SCENARIOS[name], twin, FIRST_SEEDS)
        if result is None or not result.problem.startswith(problem):
            sys.stdout.write(f"{name} does not find {twin.__name__}: {result}\n")
            missing += 1
        elif result.seed != 1:
            seeds[name, twin] = result.seed
    FILE.write_text(table(seeds))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
