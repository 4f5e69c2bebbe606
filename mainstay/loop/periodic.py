"""A loop that is no controller of one kind: what it looks after has no key to put into a queue.

The owner clean-up follows the owners of everything there is; such a loop is made for each term and runs under the same
lease as the controllers. What it writes carries the term: `WriteOptions(term=around.term.text)`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from mainstay.client.client import Client
from mainstay.client.informer import Informers
from mainstay.env import Env
from mainstay.loop.controller_loop import Recorder
from mainstay.loop.events import Events
from mainstay.loop.holds import Holding
from mainstay.loop.term import Term


@dataclass(frozen=True, slots=True)
class Around:
    """What such a loop is given."""

    client: Client
    informers: Informers
    """Shared with the controllers: one for each kind."""
    env: Env
    term: Term | None = None
    """None: nobody was elected, and all act."""
    recorder: Recorder | None = None
    build: str = ""
    events: Events | None = None
    """None: nobody is told of anything."""
    holding: Holding | None = None
    """Who is held: `with gate_of(around.holding, NAME, around.term) as gate` (loop/holds.py)."""


class Runs(Protocol):
    async def run(self) -> None:
        """Until cancelled. Raises `Deposed` when the term is over, `Stopped` when a cache is not fed any more."""


@dataclass(frozen=True, slots=True)
class OwnLoop:
    name: str
    """For `--only` and `--without`, as a controller's name."""
    make: Callable[[Around], Runs]
