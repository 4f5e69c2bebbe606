"""Reading a log again while it is in use: is what was written still there?

The rows of an open log are known by their checksums (log_chain.py). An audit reads them from the disk, some at a time,
between the writes of others, and compares. Rows that compaction removes or rewrites meanwhile are no fault: they are
compared with what is known at that moment. Plain functions; who reads is the log.
"""

from collections.abc import Mapping, Sequence

from mainstay.store.errors import StoreError
from mainstay.store.log import AuditedRows, LogRow, checksum, decode_row
from mainstay.store.sealer import Sealer


def audit_rows(
    revisions: Sequence[int], known: Mapping[int, int | None], found: Mapping[int, object], sealer: Sealer
) -> AuditedRows:
    """Compare what was found of these rows with the checksums that are known of them. None: it is gone by now."""
    rows: list[LogRow] = []
    faults: list[str] = []
    for revision in revisions:
        expected = known[revision]
        if expected is None:
            continue
        data = found.get(revision)
        if data is None:
            faults.append(f"the row of revision {revision} is missing")
        elif not isinstance(data, bytes) or checksum(revision, data) != expected:
            faults.append(f"the row of revision {revision} does not match its checksum")
        else:
            try:
                rows.append(decode_row(revision, data, sealer))
            except StoreError as error:
                faults.append(f"the row of revision {revision}: {error}")
    return AuditedRows(rows, faults)
