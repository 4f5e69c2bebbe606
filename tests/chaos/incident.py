"""What a failed chaos run leaves: an incident bundle, and how to open it.

    chaos-failures/chaos-seed-7.bundle      for `mainstay replay FILE`, and for `why`, `timeline` … with --bundle FILE

It has the journal of the whole run: the cluster's state, every change, every decision. The server is asked for it; if
it does not answer, which may be what has failed, the bundle is made from the journal on its disk.
"""

import subprocess
import sys
from pathlib import Path

from mainstay.cli.exits import Exit
from tests.chaos.cluster import Cluster

DIRECTORY = Path("chaos-failures")
WHOLE_RUN = "24h"
LIMIT_S = 300


class NoBundle(Exception):
    """Neither the server nor its disk gives a journal. Says what both answered."""


def leave_bundle(cluster: Cluster, name: str, directory: Path = DIRECTORY) -> Path:
    """Write the bundle of a cluster to a file of that name. Raises `NoBundle`."""
    directory.mkdir(parents=True, exist_ok=True)
    path = (directory / f"{name}.bundle").absolute()
    answers = []
    for source in ((), (f"--journal={cluster.data_dir}",)):
        command = [sys.executable, "-m", "mainstay.cli.main", "record", f"--since={WHOLE_RUN}", *source]
        done = subprocess.run(command, env=cluster.environment, capture_output=True, timeout=LIMIT_S)
        if done.returncode in (Exit.SATISFIED, Exit.INCOMPLETE) and done.stdout:
            path.write_bytes(done.stdout)
            return path
        answers.append(f"{command} ended with {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
    raise NoBundle("\n".join(answers))


def describe_bundle(cluster: Cluster, name: str) -> str:
    """Leave the bundle, and say where it is and what to do with it; or why there is none."""
    try:
        path = leave_bundle(cluster, name)
    except NoBundle as error:
        return f"no incident bundle: {error}"
    return f"incident bundle: {path}\nopen it with: mainstay replay {path}"
