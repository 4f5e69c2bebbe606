"""Which build of Mainstay this is: its version, and a digest of its source.

Decisions are recorded with it, because a decision can be replayed exactly by the same code and by no other. Two trees
that differ in one line are two builds, whatever their version says; so a tree that is being worked on is told apart
from what was installed. To read all of the source takes a few hundredths of a second: once for each process.
"""

from functools import cache
from pathlib import Path
from zlib import crc32

import mainstay


@cache
def build() -> str:
    """For example `0.2.0+5f0c2a91`."""
    root = Path(__file__).parent.parent
    digest = 0
    for path in sorted(root.rglob("*.py")):
        digest = crc32(str(path.relative_to(root)).encode(), digest)
        digest = crc32(path.read_bytes(), digest)
    return f"{mainstay.__version__}+{digest:08x}"
