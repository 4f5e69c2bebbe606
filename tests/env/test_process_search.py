"""Processes are found by a mark in their environment, with the identity by which they can be known later."""

import os
import signal
import sys

from mainstay.env import commands
from mainstay.env.process_search import Marked, marked
from tests.processes import eventually

MARK = f"MAINSTAY_TEST_MARK_{os.getpid()}"


def test_a_marked_process_is_found_while_it_lives():
    argv = [sys.executable, "-c", "import time; time.sleep(60)"]
    started = commands.start(argv, env={**os.environ, MARK: "here"})
    try:
        assert marked(MARK) == [Marked(started, tuple(argv), "here")]
    finally:
        commands.send(started, signal.SIGKILL)

    eventually(lambda: not marked(MARK))
