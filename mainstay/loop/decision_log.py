"""A line of the log for each decision that did or refused something, under the names that all signals share.

    decided object=pods/default/web-1 uid=… generation=0 decision=scheduler-… trace=… component=scheduler outcome=Done

What was given up is a warning; other decisions are shown with `-v`. Those that found all as it should be say nothing.
Logs are for those who have nothing but logs: the journal has all of it, and keeps it in order.
"""

import logging

from mainstay.journal.record import DecisionRecord, Ending
from mainstay.journal.trace_id import derive_trace_id

_logger = logging.getLogger("mainstay.decisions")


def log_decision(record: DecisionRecord) -> None:
    outcome, subject = record.outcome, record.subject
    is_failed = outcome.ending in (Ending.GIVE_UP, Ending.REFUSED)
    level = logging.WARNING if is_failed else logging.INFO
    if not _logger.isEnabledFor(level) or not (is_failed or record.actions or outcome.ending is Ending.RETRY):
        return
    at = f"{subject.namespace}/{subject.name}" if subject.namespace else subject.name
    fields: dict[str, object] = {
        "object": f"{subject.kind}/{at}",
        "uid": subject.uid,
        "generation": subject.generation,
        "decision": record.id,
        "trace": record.trace or derive_trace_id(record.id),
        "component": record.component,
        "outcome": str(outcome.ending),
    }
    if outcome.reason:
        fields["reason"] = outcome.reason
    if record.audits:
        fields["audit"] = ",".join(record.audits)
    revisions = [write.revision for write in record.writes if write.revision]
    if revisions:
        fields["revisions"] = ",".join(map(str, revisions))
    _logger.log(level, outcome.message or "decided", extra=fields)
