"""One direction between two hosts: how long a segment takes, and whether anything gets through.

A connection uses two links, one for each direction, and shares them with all others between the same hosts. The ends
that send over a link are listed with it, so that a fault finds what it must fail.

A segment that is lost by chance is one that comes later, for TCP repeats it, waiting twice as long each time; so loss
is one more delay in `Link.delay_ns`. Only the first packet of a connection is lost as such (network.py).
"""

from typing import TYPE_CHECKING, Final

from mainstay.sim.hosts import Host

if TYPE_CHECKING:
    from mainstay.sim.loop import SimLoop
    from mainstay.sim.wire import End

LATENCY_NS_BETWEEN_HOSTS: Final = 200_000
LATENCY_NS_WITHIN_HOST: Final = 20_000
# How long Linux waits before it repeats a segment, again and again. The last repetition gets through.
REPEATS_NS: Final = tuple(200_000_000 << n for n in range(6))
JITTER_STEPS: Final = 8  # How many different delays a jittering link can draw. Few, so that a tape stays readable.


class Link:
    """What carries segments from one host to another. Always there; `is_open` says whether they arrive."""

    __slots__ = (
        "_latency_label",
        "_loop",
        "_loss_label",
        "ends",
        "is_cut",
        "is_open",
        "jitter_ns",
        "latency_ns",
        "loss",
        "source",
        "target",
    )

    def __init__(self, loop: "SimLoop", source: Host, target: Host) -> None:
        self._loop = loop
        self.source = source
        self.target = target
        self._latency_label = f"net/{self}/latency"
        self.latency_ns = LATENCY_NS_WITHIN_HOST if source is target else LATENCY_NS_BETWEEN_HOSTS
        self.jitter_ns = 0
        self._loss_label = f"net/{self}/loss"
        self.loss = 0.0  # How likely a packet is lost.
        self.is_cut = False
        self.is_open = source.is_up and target.is_up
        self.ends: dict[End, None] = {}  # Those that send over this link, in the order of their connections.

    def __str__(self) -> str:
        return f"{self.source.name}>{self.target.name}"

    def delay_ns(self) -> int:
        """How long it takes until the next segment is there, with repetitions."""
        if not self.loss:
            return self.transit_ns()
        waited = 0
        for wait in REPEATS_NS:
            if not self.loses():
                break
            waited += wait
        return waited + self.transit_ns()

    def loses(self) -> bool:
        """Whether the next packet is lost."""
        return self.loss > 0 and self._loop.choices.occurs(self._loss_label, self.loss)

    def transit_ns(self) -> int:
        """How long a packet takes that is not lost. Drawn only if there is jitter, and then choice 0 is no jitter."""
        if not self.jitter_ns:
            return self.latency_ns
        step = self._loop.choices.choose(self._latency_label, JITTER_STEPS)
        return self.latency_ns + self.jitter_ns * step // (JITTER_STEPS - 1)

    def refresh(self) -> bool:
        """Work out anew whether anything gets through, after a cut or a host has changed. Says if that is news."""
        was_open = self.is_open
        self.is_open = self.source.is_up and self.target.is_up and not self.is_cut
        return self.is_open != was_open
