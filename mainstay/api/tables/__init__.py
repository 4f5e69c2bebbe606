"""What `kubectl get` shows of each kind: the columns, and how they are filled.

`TABLES` has the kinds that are always there, by group and kind; a version does not matter. For any other kind use
`DEFAULT`. For a kind that a user has defined, make a table from its columns with `custom_table`; without columns that
is `CUSTOM_DEFAULT`.

How a table is declared is in table.py, how a cell is written in texts.py. A cell never raises: see fields.py.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mainstay.api.tables import (
    access,
    apps,
    batch,
    core,
    devices,
    event,
    extension,
    network,
    node,
    own,
    pod,
    policy,
    storage,
)
from mainstay.api.tables.custom import custom_table
from mainstay.api.tables.table import DEFAULT, Table

__all__ = ["CUSTOM_DEFAULT", "DEFAULT", "TABLES", "Table", "custom_table"]

CUSTOM_DEFAULT: Final = custom_table(())

TABLES: Final[Mapping[tuple[str, str], Table]] = MappingProxyType(
    core.TABLES
    | node.TABLES
    | pod.TABLES
    | event.TABLES
    | apps.TABLES
    | batch.TABLES
    | policy.TABLES
    | network.TABLES
    | storage.TABLES
    | access.TABLES
    | extension.TABLES
    | devices.TABLES
    | own.TABLES
)
