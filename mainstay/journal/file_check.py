"""Whether the closed files of a journal are as they were written: read once after each start, in the background.

A reader notices damage to what it reads, and leaves out the rest. This reads everything, so that damage is known before
anybody needs what is gone. Only checksums are compared: that costs a tenth of unpacking, and finds the same.
"""

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from mainstay.env import frames, tasks
from mainstay.env.disk import Disk
from mainstay.journal.files import MAGIC, CorruptFile, Series, Suffix, index_in, parsed_name
from mainstay.journal.manifest import find_missing

PAUSE: Final = timedelta(milliseconds=20)  # After each file: others want the disk too.

_log = logging.getLogger(__name__)


async def check_journal(disk: Disk, note: Callable[[str], None]) -> None:
    """Read every closed file once, and `note` what is damaged or missing."""
    worker = tasks.Worker("journal check")

    def tell(damage: str) -> None:
        _log.error("the journal is damaged: %s", damage)
        note(damage)

    try:
        for series in (Series.HISTORY, Series.DECISIONS):
            for missing in await worker.run(find_missing, disk, series):
                tell(f"{missing} is missing")
        for name in await worker.run(disk.names):
            parsed = parsed_name(name)
            if parsed is not None and parsed.suffix is Suffix.CLOSED:
                damage = await worker.run(find_damage, disk, name)
                if damage:
                    tell(f"{name}: {damage}")
                await tasks.sleep(PAUSE)
    finally:
        worker.close()


def find_damage(disk: Disk, name: str) -> str:
    """What is wrong with a closed file. Empty: nothing, or it was forgotten meanwhile. Blocks."""
    try:
        data = disk.read(name)
        if not data.startswith(MAGIC):
            return "not a segment of a journal"
        for _ in frames.read(data, len(MAGIC)):
            pass
        index_in(data)
    except (frames.Damaged, CorruptFile) as error:
        return str(error)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return ""
