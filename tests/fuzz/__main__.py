"""Run the fuzzer: see the package's docstring."""

import argparse
import sys
import time
from collections import Counter
from functools import partial
from multiprocessing import get_context

from tests.fuzz.episodes import PER_EPISODE, Episode, run_episode
from tests.fuzz.world import merge_counts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz the API server.")
    parser.add_argument("--requests", type=int, default=10_000, help="Number of requests")
    parser.add_argument("--seed", type=int, default=0, help="Seed")
    parser.add_argument("--jobs", type=int, default=1, help="Number of processes")
    parser.add_argument("--episode", type=int, help="Run this episode only")
    parser.add_argument("--first", type=int, default=0, help="Number of the first episode")
    parser.add_argument("--shown", type=int, default=20, help="Findings to print")
    given = parser.parse_args()
    began = time.monotonic()
    episodes: list[Episode] = []
    seen: Counter[str] = Counter()

    def take(episode: Episode) -> None:
        episodes.append(episode)
        if len(episodes) % 50 == 0:
            print(f"{len(episodes)} episodes, {len(seen)} different findings", flush=True)
        for finding in episode.findings:
            seen[finding.signature] += 1
        if any(seen[finding.signature] == 1 for finding in episode.findings) and len(seen) <= given.shown:
            print(episode.report(), flush=True)

    if given.episode is not None:
        take(run_episode(given.seed, given.episode))
    else:
        numbers = range(given.first, given.first + -(-given.requests // PER_EPISODE))
        # Not a ProcessPoolExecutor: of Python 3.11, one that replaces its processes can come to a stop without any.
        with get_context("spawn").Pool(given.jobs, maxtasksperchild=50) as pool:
            for episode in pool.imap_unordered(partial(run_episode, given.seed), numbers):
                take(episode)
    took = time.monotonic() - began
    requests = sum(each.requests for each in episodes)
    statuses = ", ".join(f"{status}: {n}" for status, n in sorted(merge_counts(e.statuses for e in episodes).items()))
    print(f"{requests} requests in {took:.0f} s, {requests / took:.0f}/s; {statuses}")
    for signature, count in seen.most_common():
        print(f"{count:6} x {signature}")
    return 1 if seen else 0


if __name__ == "__main__":
    sys.exit(main())
