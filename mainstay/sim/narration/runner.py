"""Makes one run of a scenario that has a narration, with a journal, and puts it beside its text.

The run is made in a process of its own, so that a planted weak design stays there. Without a seed all its choices are
benign: then only what the scenario itself does goes wrong, which is what the text tells.
"""

import msgspec

from mainstay.env.processes import Send
from mainstay.sim.errors import SimulationError
from mainstay.sim.narration.facts import collect_facts
from mainstay.sim.narration.problem import word_problem
from mainstay.sim.narration.steps import NarratedRun, Narration, follow_steps
from mainstay.sim.run.choices import Tape
from mainstay.sim.run.forks import LostFork, from_booted
from mainstay.sim.run.patcher import AttributePatcher
from mainstay.sim.run.run import Booted
from mainstay.sim.run.scenario import BOOT_SEED, Scenario

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(NarratedRun).decode


class NotNarrated(SimulationError):
    """The scenario has no narration, or its run was lost. Says which."""


def narrate(scenario: Scenario, *, seed: int | None = None, is_weak: bool = False) -> NarratedRun:
    """Make the run of a seed, or the one that the narration says, and put it beside its text. Raises `NotNarrated`."""
    narration = scenario.narration
    if narration is None:
        raise NotNarrated(f"scenario {scenario.name} has no narration")
    told = narration.seed if seed is None else seed

    def work(booted: Booted, send: Send) -> None:
        send(_encode(_tell(booted, narration, told, is_weak=is_weak)))

    def patch() -> None:
        narration.weak_design(AttributePatcher())

    for sent in from_booted(scenario, work, patch if is_weak else None, journal=True):
        if isinstance(sent, LostFork):
            raise NotNarrated(f"the process of the run died: {sent.how}")
        return _decode(sent)
    raise NotNarrated("the process of the run sent nothing")


def _tell(booted: Booted, narration: Narration, seed: int | None, *, is_weak: bool) -> NarratedRun:
    result = booted.go(BOOT_SEED, Tape()) if seed is None else booted.go(seed)
    facts = collect_facts(booted.world.history.events, booted.world.journal, booted.began_ns)
    return NarratedRun(
        scenario=booted.scenario.name,
        title=narration.title,
        requirement=narration.requirement,
        seed=seed,
        weak_design=narration.weakness if is_weak else "",
        verdict=str(result.verdict),
        problem=word_problem(result.problem, facts, booted.began_ns),
        steps=follow_steps(narration.steps, facts, booted.began_ns),
    )
