"""The paths of a server's pages about its store, as server and command line both know them (server/backup/pages.py)."""

from typing import Final

PREFIX: Final = "/mainstay/"
BACKUP_PATH: Final = f"{PREFIX}backup"
VERIFY_PATH: Final = f"{PREFIX}verify"
BACKUP_TYPE: Final = "application/vnd.mainstay.backup"
