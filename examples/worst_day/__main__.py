"""Run both operators through their worst days, and say which promises they break where.

python -m examples.worst_day
"""

import sys
import time

from examples.worst_day.stage import BUGGY, FIXED, OPERATOR, the_story
from examples.worst_day.trying import CRASH, CUT, HANG, Tried, tries

DAYS = (("it changes", 1, CRASH), ("it changes", 1, CUT), ("it comes again", 2, HANG))
JOBS = 2


def main() -> None:
    began = time.monotonic()
    for module in (BUGGY, FIXED):
        print(f"\n{module}")
        found: dict[str, list[Tried]] = {}
        runs = 0
        for story, instances, fault in DAYS:
            for tried in tries(the_story(story, module, instances), OPERATOR, fault, jobs=JOBS):
                if tried.aim is None:
                    print(f"  {story}; {instances} running; {fault} at each of {tried.of} places ", end="", flush=True)
                runs += 1
                print("x" if tried.broken else ".", end="", flush=True)
                if tried.broken:
                    found.setdefault(tried.broken, []).append(tried)
            print()
        for promise, broken in found.items():
            print(f"\n  {promise}: broken in {len(broken)} of {runs} runs, first with\n    {broken[0].aim}")
            print(f"    {broken[0].problem}")
        if not found:
            print(f"  keeps all its promises in {runs} runs, each with one fault")
    print(f"\n{time.monotonic() - began:.0f} s")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
