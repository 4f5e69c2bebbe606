"""The seeds that find planted bugs at once: known_seeds.toml, which test_scenarios.py begins with.

    python -m tests.sim.known_seeds     writes the file again: for each bug the first seed that finds it

Run it when scenarios, faults or what they disturb have changed so much that `make test` has become slow: a seed that no
longer finds its bug is followed by a search.
"""

import sys
from pathlib import Path

from mainstay.scenarios import SCENARIOS
from tests.sim.test_scenarios import TWINS, first_found, first_seeds, name_of

FILE = Path(__file__).parent / "known_seeds.toml"
HEAD = "# Seeds that find a planted bug at once, where that is not 1. Written by `python -m tests.sim.known_seeds`.\n"


def main() -> int:
    lines, missing = [], 0
    for name, twin, problem in TWINS:
        result = first_found(SCENARIOS[name], twin, first_seeds(twin))
        if result is None or not result.problem.startswith(problem):
            sys.stdout.write(f"{name_of(name, twin)} is not found: {result}\n")
            missing += 1
        elif result.seed != 1:
            lines.append(f"{name_of(name, twin)} = {result.seed}\n")
    FILE.write_text(HEAD + "".join(sorted(lines)))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
