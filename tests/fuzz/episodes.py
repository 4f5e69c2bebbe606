"""Episodes: some hundred requests to a server of their own, as a function of a seed and a number."""

import traceback
from dataclasses import dataclass
from random import Random
from typing import Final

from mainstay.sim.simulation import Simulation
from tests.fuzz.requests import RequestSource
from tests.fuzz.world import Finding, a_fuzz_world

PER_EPISODE: Final = 2000
_RESTORED_EVERY: Final = 100


@dataclass(frozen=True)
class Episode:
    seed: int
    number: int
    requests: int
    findings: tuple[Finding, ...]
    statuses: dict[int, int]

    def report(self) -> str:
        lines = []
        for finding in self.findings:
            lines.append(f"{finding.what}: python -m tests.fuzz --seed {self.seed} --episode {self.number}")
            if finding.request is not None:
                lines.append(str(finding.request))
            lines += [finding.detail, ""]
        return "\n".join(lines)


def run_episode(seed: int, number: int, requests: int = PER_EPISODE) -> Episode:
    chance = Random(f"{seed}/{number}")

    async def run() -> Episode:
        async with a_fuzz_world(sim) as world:
            source = RequestSource(chance, world.find, world.learned)
            left = requests
            while left:
                count = min(left, chance.randint(2, 6)) if chance.random() < 0.05 else 1
                await world.ask(*(source.next(world.kinds()) for _ in range(count)))
                left -= count
                if left // _RESTORED_EVERY != (left + count) // _RESTORED_EVERY:
                    await world.restore()
            await world.finish()
            return Episode(seed, number, requests, tuple(world.findings), world.statuses)

    try:
        with Simulation(seed=number) as sim:
            return sim.run(run())
    except Exception:  # noqa: BLE001 - a task in the background has failed
        found = Finding("exception", None, traceback.format_exc())
        return Episode(seed, number, requests, (found,), {})
