"""Images that are only pretended, on one machine: which are there, and how a pull of the others turns out.

Without a registry every image is there, and nothing is ever pulled. With one, an image that it knows has to be pulled
by the rules of `imagePullPolicy`: it takes as long as the registry says, and fails if the registry says so. What was
pulled stays on the machine.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from mainstay.agent.runner import CannotPull, Pull
from mainstay.env import tasks


@dataclass(frozen=True, slots=True)
class PullOutcome:
    """How a pull turns out."""

    takes: timedelta = timedelta()
    problem: str = ""
    """Why it fails; empty: it succeeds."""


Registry = Callable[[str], PullOutcome | None]
"""How a pull of an image turns out that begins now. None: such an image is on every machine."""


class PretendImages:
    def __init__(self, registry: Registry | None = None) -> None:
        self.registry = registry
        self._present: dict[str, None] = {}

    def pull(self, image: str, policy: str) -> Pull | None:
        """See `Runner`."""
        if self.registry is None or (policy != "Always" and image in self._present):
            return None
        outcome = self.registry(image)
        if outcome is None:
            return None
        if policy == "Never":
            text = f'Container image "{image}" is not present with pull policy of Never'
            raise CannotPull("ErrImageNeverPull", text)
        return partial(self._pull, image, outcome)

    async def _pull(self, image: str, outcome: PullOutcome) -> None:
        await tasks.sleep(outcome.takes)
        if outcome.problem:
            raise CannotPull("ErrImagePull", outcome.problem)
        self._present[image] = None

    def has(self, image: str) -> bool:
        """Whether it was pulled."""
        return image in self._present

    def wipe(self) -> None:
        """The machine has lost its disk."""
        self._present.clear()
