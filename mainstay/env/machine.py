"""This machine, and this process on it."""

import os
import socket


def hostname() -> str:
    """The machine's own name."""
    return socket.gethostname()


def keep_files_private() -> None:
    """Let what this process makes from now on be read by its owner alone, also by libraries that do not ask."""
    os.umask(0o077)
