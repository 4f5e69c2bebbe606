"""A build is told apart from another by its source."""

import re
import subprocess
import sys

from mainstay.env.build import build


def test_it_is_the_version_and_a_digest():
    assert re.fullmatch(r"\d+\.\d+\S*\+[0-9a-f]{8}", build())


def test_another_process_with_the_same_source_is_the_same_build():
    command = "from mainstay.env.build import build; print(build())"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == build()
