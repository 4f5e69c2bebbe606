"""The trace of a decision, as the standard of W3C names one. It follows from the decision's id alone, so everybody who
knows the decision knows the trace, and nothing has to be kept."""

import hashlib


def derive_trace_id(decision: str) -> str:
    """The trace id: 32 hexadecimal digits."""
    return hashlib.sha256(decision.encode()).hexdigest()[:32]


def derive_span_id(decision: str) -> str:
    """The id of the span that the decision is: 16 hexadecimal digits."""
    return hashlib.sha256(decision.encode()).hexdigest()[32:48]


def traceparent(decision: str) -> str:
    """What the requests of a decision carry as `traceparent`."""
    digest = hashlib.sha256(decision.encode()).hexdigest()
    return f"00-{digest[:32]}-{digest[32:48]}-01"
