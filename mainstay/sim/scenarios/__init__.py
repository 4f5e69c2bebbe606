"""All scenarios, by name. One file for each; add yours to the list."""

from typing import Final

from mainstay.sim.scenario import Scenario
from mainstay.sim.scenarios.back_in_time import SCENARIO as BACK_IN_TIME
from mainstay.sim.scenarios.bind_without_answer import SCENARIO as BIND_WITHOUT_ANSWER
from mainstay.sim.scenarios.cache_follows import SCENARIO as CACHE_FOLLOWS
from mainstay.sim.scenarios.compaction_in_the_gap import SCENARIO as COMPACTION_IN_THE_GAP
from mainstay.sim.scenarios.duplicate_reservation import SCENARIO as DUPLICATE_RESERVATION
from mainstay.sim.scenarios.ghost_node import SCENARIO as GHOST_NODE
from mainstay.sim.scenarios.job_of_the_same_name import SCENARIO as JOB_OF_THE_SAME_NAME
from mainstay.sim.scenarios.leaders_and_clocks import SCENARIO as LEADERS_AND_CLOCKS
from mainstay.sim.scenarios.new_leader_knows import SCENARIO as NEW_LEADER_KNOWS
from mainstay.sim.scenarios.node_before_its_tasks import SCENARIO as NODE_BEFORE_ITS_TASKS
from mainstay.sim.scenarios.one_delivery import SCENARIO as ONE_DELIVERY
from mainstay.sim.scenarios.one_leader import SCENARIO as ONE_LEADER
from mainstay.sim.scenarios.one_pod_too_many import SCENARIO as ONE_POD_TOO_MANY
from mainstay.sim.scenarios.racing_schedulers import SCENARIO as RACING_SCHEDULERS
from mainstay.sim.scenarios.room_comes_back import SCENARIO as ROOM_COMES_BACK
from mainstay.sim.scenarios.stale_candidate import SCENARIO as STALE_CANDIDATE
from mainstay.sim.scenarios.successor_looks_first import SCENARIO as SUCCESSOR_LOOKS_FIRST
from mainstay.sim.scenarios.twice_in_slices import SCENARIO as TWICE_IN_SLICES

SCENARIOS: Final[dict[str, Scenario]] = {
    scenario.name: scenario
    for scenario in (
        CACHE_FOLLOWS,
        ONE_LEADER,
        GHOST_NODE,
        NODE_BEFORE_ITS_TASKS,
        NEW_LEADER_KNOWS,
        SUCCESSOR_LOOKS_FIRST,
        ONE_POD_TOO_MANY,
        JOB_OF_THE_SAME_NAME,
        TWICE_IN_SLICES,
        LEADERS_AND_CLOCKS,
        COMPACTION_IN_THE_GAP,
        BACK_IN_TIME,
        ONE_DELIVERY,
        RACING_SCHEDULERS,
        ROOM_COMES_BACK,
        STALE_CANDIDATE,
        BIND_WITHOUT_ANSWER,
        DUPLICATE_RESERVATION,
    )
}
