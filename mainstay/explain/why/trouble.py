"""What is wrong with a node, as those ask who have pods on it."""

from dataclasses import dataclass
from datetime import datetime

from mainstay.explain.why.answer import AnswerSource, ChainLink
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.found import broken, listed


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with a node."""

    cause: Cause
    text: str
    """About the node, without a full stop: `node-a has sent no heartbeat since …`."""
    since: datetime | None
    evidence: tuple[AnswerSource, ...]
    is_silent: bool = False
    """Nothing is heard of it."""
    because: tuple[str, ...] = ()
    """What node-health has concluded that from."""

    @property
    def link(self) -> ChainLink:
        why = f" ({listed(self.because)})" if self.because else ""
        return broken("node", f"{self.text}{why}", *self.evidence)
