"""A workload of which there must never be two at a time, and which tells on them if there are. Run by its path.

python exclusive.py DIRECTORY IDENTITY

It holds a lock for as long as it lives. A process that finds the lock held has found a second instance, and records it
in `violations`; the kernel lets go of a lock only when its holder is dead. Meanwhile it writes the time (of the clock
that all processes of the machine share) twenty times a second, and counts aloud.
"""

import fcntl
import os
import sys
import time
from pathlib import Path

EVERY_S = 0.05


def main() -> None:
    os.umask(0)  # Each pod is another user of the machine, and the next one has to open these files, too.
    directory, identity = Path(sys.argv[1]), sys.argv[2]
    directory.mkdir(parents=True, exist_ok=True)
    lock = os.open(directory / f"{identity}.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _append(directory / "violations", f"{identity}: two at a time, at {time.clock_gettime(time.CLOCK_BOOTTIME)}")
        sys.exit(1)
    _append(directory / f"{identity}.starts", os.environ.get("POD_NAME", ""))
    number = 0
    while True:
        (directory / f"{identity}.beat").write_text(repr(time.clock_gettime(time.CLOCK_BOOTTIME)))
        sys.stdout.write(f"{identity} {number}\n")
        sys.stdout.flush()
        number += 1
        time.sleep(EVERY_S)


def _append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


if __name__ == "__main__":
    main()
