"""The explaining commands as kubectl plugins: `kubectl why pod/web` runs the program `kubectl-why`.

Each is the command of the same name, with the same options and exit codes. kubectl passes on what follows the name of
the plugin, so `-n`, `--context` and `--kubeconfig` go there. `debug` and `diff` are missing: kubectl has its own
commands of these names, and a plugin cannot replace them.
"""

import sys
from typing import NoReturn

from mainstay.cli.main import run


def why() -> NoReturn:
    _run("why")


def timeline() -> NoReturn:
    _run("timeline")


def blame() -> NoReturn:
    _run("blame")


def coupling() -> NoReturn:
    _run("coupling")


def plan() -> NoReturn:
    _run("plan")


def replay() -> NoReturn:
    _run("replay")


def _run(command: str) -> NoReturn:
    sys.exit(run([command, *sys.argv[1:]]))
