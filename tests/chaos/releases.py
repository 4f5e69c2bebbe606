"""The last release, to run beside this one: taken from the history of the repository.

Its processes run with the libraries that are installed here. A checkout without that history has no earlier release.
"""

import subprocess
import tarfile
import tempfile
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Final

LAST: Final = "0.2.0"
_COMMITS: Final = {"0.2.0": "05d953059717801c6fad083cfe4cdf2159131090"}
_ROOT: Final = Path(__file__).parents[2]


@cache
def extract(version: str) -> Path:
    """The directory with the package of a release: the PYTHONPATH of its processes."""
    archive = subprocess.run(
        ["git", "archive", _COMMITS[version], "mainstay"], cwd=_ROOT, capture_output=True, check=True
    )
    directory = Path(tempfile.mkdtemp(prefix=f"mainstay-{version}-"))
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as found:
        found.extractall(directory, filter="data")
    return directory
