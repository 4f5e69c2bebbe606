"""bench/RESULTS.md: a part for each benchmark, as of when it was last measured, and on which machine.

A benchmark that is run again replaces its own part and leaves the others: all of them together take the better part of
an hour.
"""

import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench.measure import HEADINGS, Figure, Load, row

_HEAD: Final = """# Measured

Written by `python -m bench --write`, each part when it was last measured; do not edit. Goals are what we aim for; a
busy machine misses them.
"""
_PART: Final = re.compile(r"^## bench\.(\w+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def write_part(file: Path, name: str, figures: Sequence[Figure], load: Load, known: Iterable[str]) -> None:
    """Replace the part of one benchmark. Parts of those that are not known any more go."""
    parts = parts_of(file.read_text()) if file.exists() else {}
    parts[name] = _part(figures, load)
    file.write_text(page_of({each: parts[each] for each in sorted(known) if each in parts}))


def parts_of(page: str) -> dict[str, str]:
    """What a page says, by benchmark."""
    return {name: text.strip() for name, text in _PART.findall(page)}


def page_of(parts: Mapping[str, str]) -> str:
    return "\n".join([_HEAD, *(f"## bench.{name}\n\n{text}\n" for name, text in parts.items())])


def _part(figures: Sequence[Figure], load: Load) -> str:
    rows = [HEADINGS, ("---", "---:", "---", "---:", "---", "---"), *map(row, figures)]
    machine = f"{cpu_model()}, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    when = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    return "\n".join([f"{when}, {load}; {machine}.", "", *(f"| {' | '.join(cells)} |" for cells in rows)])


def cpu_model() -> str:
    """What the processor calls itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or "unknown processor")
