"""Planting one fault, asking `why` once, and judging the answer by what was planted."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from mainstay.client.errors import ApiError
from mainstay.explain.moment import Moment
from mainstay.explain.why.answer import WhyAnswer
from mainstay.explain.why.dispatch import why
from mainstay.registry import REGISTRY
from mainstay.sim.cluster.cluster import whole_cluster
from mainstay.sim.simulation import Simulation
from tests.faults.bed import Bed, NotPlanted
from tests.faults.bystanders import bystanders
from tests.faults.fault import Ask, Fault

LIMIT: Final = timedelta(hours=3)
"""Of virtual time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of one fault."""

    fault: Fault
    asked: str = ""
    code: str = ""
    sentence: str = ""
    verdict: str = ""
    missing: tuple[str, ...] = ()
    not_planted: str = ""
    error: str = ""
    """`why` itself failed."""
    took_ms: float = 0.0
    """How long the answer took; 0 in a simulation, where time stands still meanwhile."""

    @property
    def is_hit(self) -> bool:
        is_asked = bool(self.asked) and not self.not_planted and not self.error
        return is_asked and self.code in self.fault.codes and not self.missing

    @property
    def why_not(self) -> str:
        """Why it is no hit. Empty: it is one."""
        if self.not_planted:
            return f"not planted: {self.not_planted}"
        if self.error:
            return self.error
        if self.code not in self.fault.codes:
            return f"the cause is said to be {self.code}, not {' or '.join(self.fault.codes)}"
        return f"not named: {', '.join(self.missing)}" if self.missing else ""


def judged(fault: Fault, asked: str, code: str, sentence: str, verdict: str = "") -> Result:
    missing = fault.missing_in(sentence)
    return Result(fault=fault, asked=asked, code=code, sentence=sentence, verdict=verdict, missing=missing)


def tried(fault: Fault, seed: int = 0, *, is_busy: bool = False) -> Result:
    """Plant it in a simulation of its own, and ask. `is_busy`: among others, which have troubles of their own."""
    with Simulation(seed) as sim:
        found: list[Result] = []

        async def run() -> None:
            found.append(await _tried(fault, sim, is_busy=is_busy))

        sim.run(run(), limit=LIMIT)
        return found[0]


async def _tried(fault: Fault, sim: Simulation, *, is_busy: bool) -> Result:
    async with whole_cluster(sim, nodes=fault.nodes) as cluster, AsyncExitStack() as closing:
        bed = Bed(cluster, closing)
        await bed.until_all_is_well()
        if is_busy:
            await closing.enter_async_context(bystanders(bed.client))
            await bed.rest(20)
        try:
            asked = await fault.plant(bed)
            if not bed.made_sure:
                raise NotPlanted("the fault did not verify that it was planted")
        except (NotPlanted, ApiError) as error:
            return Result(fault=fault, not_planted=str(error))
        moment = await Moment.now(cluster.journal)
        try:
            answer = await _answer(moment, asked)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is no answer, and the others are to be asked
            return Result(fault=fault, asked=str(asked), error=f"{type(error).__name__}: {error}")
        return judged(fault, str(asked), str(answer.cause), answer.sentence, str(answer.verdict))


async def _answer(moment: Moment, asked: Ask) -> WhyAnswer:
    return await why(moment, REGISTRY, asked.kind, asked.name, asked.namespace, asked.generation)
