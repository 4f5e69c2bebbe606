"""Places known to break a limit of tests/tidy_tree.py. Nothing may be added; what is paid is removed."""

from typing import Final

# Modules whose name is a noun of the domain and ends in -ing.
ING_MODULES: Final = (
    "mainstay/api/kinds/autoscaling.py",
    "mainstay/api/kinds/networking.py",
    "mainstay/api/kinds/sampling.py",
    "mainstay/api/kinds/scheduling.py",
    "mainstay/cli/coupling.py",
    "mainstay/controllers/deployment/rolling.py",
    "mainstay/controllers/endpoints/packing.py",
    "mainstay/controllers/endpoints/serving.py",
    "mainstay/explain/coupling.py",
    "mainstay/http/outgoing.py",
    "mainstay/journal/sampling.py",
    "mainstay/loop/fencing.py",
    "mainstay/scheduler/cache/ring.py",
    "mainstay/server/placement/batch_binding.py",
    "mainstay/server/placement/binding.py",
)

# Modules that bring many others together. The catalogue and the table of faults are lists, and nothing else.
WIDE_MODULES: Final = (
    "mainstay/scenarios/__init__.py",
    "mainstay/scenarios/pending_after_rollback.py",
    "mainstay/sim/cluster/world.py",
    "mainstay/sim/faults/table.py",
)

# Functions with too many parameters. asyncio prescribes those of sim/net.
LONG_SIGNATURES: Final = (
    "mainstay/agent/pod/status_report.py __init__",
    "mainstay/client/client.py watch",
    "mainstay/controllers/component.py __init__",
    "mainstay/controllers/deployment/status.py said",
    "mainstay/explain/debug/conclusion.py concluded",
    "mainstay/sim/net/network.py create_connection",
    "mainstay/sim/net/network.py create_server",
)

# Functions that begin with a verb and end in `_of` all the same. Users of `mainstay.sim` know those of sim/testing.
OF_FUNCTIONS: Final = (
    "mainstay/api/kinds/checks.py check_one_of",
    "mainstay/api/structural.py _check_all_of",
    "mainstay/api/structural.py _check_any_of",
    "mainstay/api/structural.py _check_one_of",
    "mainstay/explain/coupling.py is_any_of",
    "mainstay/explain/coupling.py is_one_of",
    "mainstay/sim/testing/trouble.py lose_answer_of",
    "mainstay/sim/testing/trouble.py lose_request_of",
)
