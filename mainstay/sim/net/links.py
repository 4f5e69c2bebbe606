"""One direction between two hosts: how long a segment takes, and whether anything gets through.

A connection uses two links, one for each direction, and shares them with all others between the same hosts. The ends
that send over a link are listed with it, so that a fault finds what it must fail.

A segment that is lost by chance is one that comes later, for TCP repeats it, waiting twice as long each time; so loss
is one more delay in `NetworkLink.delay_ns`. Only the first packet of a connection is lost as such (network.py).

What goes wrong with a link is wanted by faults, and these overlap (sim/active_faults.py): it is cut for as long as
any fault wants that, and of delays and losses the worst counts.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mainstay.sim.active_faults import ActiveFaults
from mainstay.sim.net.hosts import Host

if TYPE_CHECKING:
    from mainstay.sim.loop.loop import SimLoop
    from mainstay.sim.net.wire import TcpEnd

LATENCY_NS_BETWEEN_HOSTS: Final = 200_000
LATENCY_NS_WITHIN_HOST: Final = 20_000
# How long Linux waits before it repeats a segment, again and again. The last repetition gets through.
REPEATS_NS: Final = tuple(200_000_000 << n for n in range(6))
JITTER_STEPS: Final = 8  # How many different delays a jittering link can draw. Few, so that a tape stays readable.


class NetworkLink:
    """What carries segments from one host to another. Always there; `is_open` says whether they arrive."""

    __slots__ = (
        "_latency_label",
        "_loop",
        "_loss_label",
        "_slowed_jitter_ns",
        "_slowed_ns",
        "cuts",
        "delays",
        "ends",
        "is_cut",
        "is_open",
        "jitter_ns",
        "latency_ns",
        "loss",
        "losses",
        "source",
        "target",
    )

    def __init__(
        self, loop: "SimLoop", source: Host, target: Host, cuts_changed: "Callable[[NetworkLink], None]"
    ) -> None:
        self._loop = loop
        self.source = source
        self.target = target
        self._latency_label = f"net/{self}/latency"
        # Of the link itself, when nothing goes wrong.
        self.latency_ns = LATENCY_NS_WITHIN_HOST if source is target else LATENCY_NS_BETWEEN_HOSTS
        self.jitter_ns = 0
        self._loss_label = f"net/{self}/loss"
        self.loss = 0.0  # How likely a packet is lost.
        self.losses: ActiveFaults[float] = ActiveFaults(self._losses_changed)
        self.delays: ActiveFaults[tuple[int, int]] = ActiveFaults(
            self._delays_changed
        )  # Latency and jitter, in nanoseconds.
        self._slowed_ns = self._slowed_jitter_ns = 0
        self.cuts: ActiveFaults[None] = ActiveFaults(lambda: cuts_changed(self))
        self.is_cut = False
        self.is_open = source.is_up and target.is_up
        self.ends: dict[TcpEnd, None] = {}  # Those that send over this link, in the order of their connections.

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
        jitter_ns = max(self.jitter_ns, self._slowed_jitter_ns)
        if not jitter_ns:
            return self.transit_ns_min
        step = self._loop.choices.choose(self._latency_label, JITTER_STEPS)
        return self.transit_ns_min + jitter_ns * step // (JITTER_STEPS - 1)

    @property
    def transit_ns_min(self) -> int:
        """How long a packet takes at least."""
        return max(self.latency_ns, self._slowed_ns)

    def refresh(self) -> bool:
        """Work out again whether anything gets through, after a cut or a host has changed. Says if that is news."""
        was_open = self.is_open
        self.is_open = self.source.is_up and self.target.is_up and not self.is_cut
        return self.is_open != was_open

    def _losses_changed(self) -> None:
        self.loss = max(self.losses, default=0.0)

    def _delays_changed(self) -> None:
        self._slowed_ns = max((latency_ns for latency_ns, _ in self.delays), default=0)
        self._slowed_jitter_ns = max((jitter_ns for _, jitter_ns in self.delays), default=0)
