"""One direction between two hosts: how long a segment takes, and whether anything gets through.

A connection uses two links, one for each direction, and shares them with all others between the same hosts. The ends
that send over a link are listed with it, so that a fault finds what it must fail.

Random loss is not there; it would be one more delay in `Link.delay_ns`, for TCP repeats what is lost.
"""

from typing import TYPE_CHECKING, Final

from mainstay.sim.hosts import Host

if TYPE_CHECKING:
    from mainstay.sim.loop import SimLoop
    from mainstay.sim.wire import End

LATENCY_NS_BETWEEN_HOSTS: Final = 200_000
LATENCY_NS_WITHIN_HOST: Final = 20_000
JITTER_STEPS: Final = 8  # How many different delays a jittering link can draw. Few, so that a tape stays readable.


class Link:
    """What carries segments from one host to another. Always there; `is_open` says whether they arrive."""

    __slots__ = ("_latency_label", "_loop", "ends", "is_cut", "is_open", "jitter_ns", "latency_ns", "source", "target")

    def __init__(self, loop: "SimLoop", source: Host, target: Host) -> None:
        self._loop = loop
        self.source = source
        self.target = target
        self._latency_label = f"net/{self}/latency"
        self.latency_ns = LATENCY_NS_WITHIN_HOST if source is target else LATENCY_NS_BETWEEN_HOSTS
        self.jitter_ns = 0
        self.is_cut = False
        self.is_open = source.is_up and target.is_up
        self.ends: dict[End, None] = {}  # Those that send over this link, in the order of their connections.

    def __str__(self) -> str:
        return f"{self.source.name}>{self.target.name}"

    def delay_ns(self) -> int:
        """How long the next segment takes. Drawn only if there is jitter, and then choice 0 is no jitter."""
        if not self.jitter_ns:
            return self.latency_ns
        step = self._loop.choices.choose(self._latency_label, JITTER_STEPS)
        return self.latency_ns + self.jitter_ns * step // (JITTER_STEPS - 1)

    def refresh(self) -> bool:
        """Work out anew whether anything gets through, after a cut or a host has changed. Says if that is news."""
        was_open = self.is_open
        self.is_open = self.source.is_up and self.target.is_up and not self.is_cut
        return self.is_open != was_open
