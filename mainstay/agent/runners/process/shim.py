"""The program that every container has as its parent: `python -I -S shim.py container|beside|check ORDERS NAME`.

`-I` and `-S` keep the environment and the installed packages of the machine out, and make it start fast. The name is
for readers of the list of processes. What it does is in shim_loop.py, and in session_helper.py for commands
that run beside a container; check.py tries out what the machine allows.
"""

import os
import sys

if __name__ == "__main__":
    sys.path.append(__file__.rsplit("/", 5)[0])  # Where the package `mainstay` is.
    if sys.argv[1] == "container":
        from mainstay.agent.runners.process.shim_loop import Shim

        Shim(int(sys.argv[2])).run()
    elif sys.argv[1] == "check":
        from mainstay.agent.runners.process import check

        os._exit(check.run(int(sys.argv[2])))
    else:
        from mainstay.agent.runners.process import session_helper

        os._exit(session_helper.run(int(sys.argv[2])))
