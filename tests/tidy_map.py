"""Write tests/tidy_doors.py, the map of the house, from the imports of today: `python -m tests.tidy_map`.

Look at the difference before you commit it. A door that has gone is good news; a new one lets other rooms lean on a
module, so ask first whether one of the room's doors could do.
"""

import ast
import shutil
import subprocess
import textwrap
from collections.abc import Mapping
from pathlib import Path

from tests.tidy_tree import Tree, find_used_doors

ROOT = Path(__file__).parent.parent
_HEADER = '''"""The map of the house: what each room lets others import. Everything else in a room is internal to it.

A room is a package of the second level (`server/watch`), or what lies directly in one of the first (`store`). Its
`__init__` is always a door, and so is what lies directly in `env`, `api`, `journal`, `client` and `loop`.
`DOORS` are open to every package that may import the room's package at all; `INNER_DOORS` only to the other rooms of
the same package. The comment is the first line of the room's docstring.

Written by `python -m tests.tidy_map`; see there before you open a door.
"""

from typing import Final
'''


def write_map(root: Path) -> str:
    """The text of tests/tidy_doors.py for the tree under `root`."""
    tree = Tree.read(root)
    used = find_used_doors(tree)
    rooms = {tree.room(name): source for name, source in tree.sources.items() if not tree.name_in_room(name)}
    purposes = {room: (ast.get_docstring(source) or "").split("\n")[0] for room, source in rooms.items()}
    return _HEADER + _write_table("DOORS", used.outer, purposes) + _write_table("INNER_DOORS", used.inner, purposes)


def _write_table(name: str, rooms: Mapping[str, set[str]], purposes: Mapping[str, str]) -> str:
    lines = [f"{name}: Final = {{"]
    for room, names in sorted(rooms.items()):
        if names:
            lines += [f"    # {purposes[room]}", f'    "{room}": {_quote(sorted(names))},']
    return "\n".join(["", *lines, "}", ""])


def _quote(names: list[str]) -> str:
    lines = textwrap.wrap(" ".join(names), 100)
    return f'"{lines[0]}"' if len(lines) == 1 else "(" + " ".join(f'"{line} "' for line in lines) + ")"


if __name__ == "__main__":
    target = ROOT / "tests/tidy_doors.py"
    target.write_text(write_map(ROOT))
    subprocess.run([shutil.which("ruff") or ".venv/bin/ruff", "format", "-q", str(target)], check=True)
