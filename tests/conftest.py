"""Rules for all tests. See tests/requirements.py for what they are."""

import gc
import os
import signal
import sys

from hypothesis import settings

from tests.requirements import pytest_make_collect_report, pytest_runtest_makereport

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]

pytest_plugins = ["pytester"]

# The same examples each time, so that a red run means a change; and no time limit on a shared machine.
settings.register_profile("mainstay", derandomize=True, deadline=None, database=None)
settings.load_profile("mainstay")

# A shell lets what it starts in the background ignore Ctrl-C, and all that is started from there would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests start hundreds of processes. If none of them may keep its bytecode, each compiles all of Mainstay again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_collection_finish() -> None:
    # Each simulation ends with a look for garbage. What is here now stays, so it need not be looked through each time.
    gc.collect()
    gc.freeze()
