"""All scenarios, by name. One file for each; add yours to the list."""

from typing import Final

from mainstay.scenarios.admission_policies import SCENARIO as ADMISSION_POLICIES
from mainstay.scenarios.always_rejected import SCENARIO as ALWAYS_REJECTED
from mainstay.scenarios.autoscaler_and_lag import SCENARIO as AUTOSCALER_AND_LAG
from mainstay.scenarios.back_in_time import SCENARIO as BACK_IN_TIME
from mainstay.scenarios.backup_restored import SCENARIO as BACKUP_RESTORED
from mainstay.scenarios.bad_rollout import SCENARIO as BAD_ROLLOUT
from mainstay.scenarios.bind_without_answer import SCENARIO as BIND_WITHOUT_ANSWER
from mainstay.scenarios.binding_during_node_failure import SCENARIO as BINDING_DURING_NODE_FAILURE
from mainstay.scenarios.cache_follows import SCENARIO as CACHE_FOLLOWS
from mainstay.scenarios.compaction_in_the_gap import SCENARIO as COMPACTION_IN_THE_GAP
from mainstay.scenarios.core_world import SCENARIO as CORE_WORLD
from mainstay.scenarios.cure_meanwhile import SCENARIO as CURE_MEANWHILE
from mainstay.scenarios.damaged_log import SCENARIO as DAMAGED_LOG
from mainstay.scenarios.databases import SCENARIOS as DATABASES
from mainstay.scenarios.deadlines_hold import SCENARIO as DEADLINES_HOLD
from mainstay.scenarios.decision_paths import SCENARIO as DECISION_PATHS
from mainstay.scenarios.disk_world import SCENARIO as DISK_WORLD
from mainstay.scenarios.duplicate_reservation import SCENARIO as DUPLICATE_RESERVATION
from mainstay.scenarios.each_pod_counted_once import SCENARIO as EACH_POD_COUNTED_ONCE
from mainstay.scenarios.eviction_and_budget import SCENARIO as EVICTION_AND_BUDGET
from mainstay.scenarios.exclusive_devices import SCENARIO as EXCLUSIVE_DEVICES
from mainstay.scenarios.fenced_before_replaced import SCENARIO as FENCED_BEFORE_REPLACED
from mainstay.scenarios.flood import SCENARIO as FLOOD
from mainstay.scenarios.frozen_evictions import SCENARIO as FROZEN_EVICTIONS
from mainstay.scenarios.full_world import SCENARIO as FULL_WORLD
from mainstay.scenarios.ghost_node import SCENARIO as GHOST_NODE
from mainstay.scenarios.half_said import SCENARIO as HALF_SAID
from mainstay.scenarios.held_controller import SCENARIO as HELD_CONTROLLER
from mainstay.scenarios.held_rollout import SCENARIO as HELD_ROLLOUT
from mainstay.scenarios.image_pulls import SCENARIO as IMAGE_PULLS
from mainstay.scenarios.job_of_the_same_name import SCENARIO as JOB_OF_THE_SAME_NAME
from mainstay.scenarios.keys_rotate import SCENARIO as KEYS_ROTATE
from mainstay.scenarios.last_of_its_zone import SCENARIO as LAST_OF_ITS_ZONE
from mainstay.scenarios.late_commits import SCENARIO as LATE_COMMITS
from mainstay.scenarios.late_create import SCENARIO as LATE_CREATE
from mainstay.scenarios.leaders_and_clocks import SCENARIO as LEADERS_AND_CLOCKS
from mainstay.scenarios.left_over import SCENARIO as LEFT_OVER
from mainstay.scenarios.machines_join import SCENARIO as MACHINES_JOIN
from mainstay.scenarios.missed_ticks import SCENARIO as MISSED_TICKS
from mainstay.scenarios.missing_replica import SCENARIO as MISSING_REPLICA
from mainstay.scenarios.namespace_goes import SCENARIO as NAMESPACE_GOES
from mainstay.scenarios.new_leader_knows import SCENARIO as NEW_LEADER_KNOWS
from mainstay.scenarios.node_before_its_tasks import SCENARIO as NODE_BEFORE_ITS_TASKS
from mainstay.scenarios.objective_burns import SCENARIO as OBJECTIVE_BURNS
from mainstay.scenarios.one_delivery import SCENARIO as ONE_DELIVERY
from mainstay.scenarios.one_leader import SCENARIO as ONE_LEADER
from mainstay.scenarios.one_on_each_node import SCENARIO as ONE_ON_EACH_NODE
from mainstay.scenarios.one_pod_too_many import SCENARIO as ONE_POD_TOO_MANY
from mainstay.scenarios.operated_queue import SCENARIO as OPERATED_QUEUE
from mainstay.scenarios.ordered_rollback import SCENARIO as ORDERED_ROLLBACK
from mainstay.scenarios.owners_and_dependents import SCENARIO as OWNERS_AND_DEPENDENTS
from mainstay.scenarios.owners_restored import SCENARIO as OWNERS_RESTORED
from mainstay.scenarios.pending_after_rollback import SCENARIO as PENDING_AFTER_ROLLBACK
from mainstay.scenarios.pods_come_and_go import SCENARIO as PODS_COME_AND_GO
from mainstay.scenarios.policy_scopes import SCENARIO as POLICY_SCOPES
from mainstay.scenarios.power_fails import SCENARIO as POWER_FAILS
from mainstay.scenarios.progress_told import SCENARIO as PROGRESS_TOLD
from mainstay.scenarios.promised_room import SCENARIO as PROMISED_ROOM
from mainstay.scenarios.put_back_again import SCENARIO as PUT_BACK_AGAIN
from mainstay.scenarios.racing_schedulers import SCENARIO as RACING_SCHEDULERS
from mainstay.scenarios.refused_work import SCENARIO as REFUSED_WORK
from mainstay.scenarios.removed_by_force import SCENARIO as REMOVED_BY_FORCE
from mainstay.scenarios.replaced_once import SCENARIO as REPLACED_ONCE
from mainstay.scenarios.restored_store import SCENARIO as RESTORED_STORE
from mainstay.scenarios.rollout_and_evidence import SCENARIO as ROLLOUT_AND_EVIDENCE
from mainstay.scenarios.room_comes_back import SCENARIO as ROOM_COMES_BACK
from mainstay.scenarios.scaled_up_meanwhile import SCENARIO as SCALED_UP_MEANWHILE
from mainstay.scenarios.services_lead import SCENARIO as SERVICES_LEAD
from mainstay.scenarios.shared_fields import SCENARIO as SHARED_FIELDS
from mainstay.scenarios.silent_nodes import SCENARIO as SILENT_NODES
from mainstay.scenarios.slow_lists import SCENARIO as SLOW_LISTS
from mainstay.scenarios.stale_agent import SCENARIO as STALE_AGENT
from mainstay.scenarios.stale_candidate import SCENARIO as STALE_CANDIDATE
from mainstay.scenarios.stale_policy_canary import SCENARIO as STALE_POLICY_CANARY
from mainstay.scenarios.successor_looks_first import SCENARIO as SUCCESSOR_LOOKS_FIRST
from mainstay.scenarios.twice_in_slices import SCENARIO as TWICE_IN_SLICES
from mainstay.scenarios.two_builds import SCENARIO as TWO_BUILDS
from mainstay.scenarios.two_controllers import SCENARIO as TWO_CONTROLLERS
from mainstay.scenarios.watches_behind import SCENARIO as WATCHES_BEHIND
from mainstay.scenarios.whose_room import SCENARIO as WHOSE_ROOM
from mainstay.sim.run.scenario import Scenario

SCENARIOS: Final[dict[str, Scenario]] = {
    scenario.name: scenario
    for scenario in (
        CACHE_FOLLOWS,
        ONE_LEADER,
        ADMISSION_POLICIES,
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
        WATCHES_BEHIND,
        SLOW_LISTS,
        SHARED_FIELDS,
        ONE_DELIVERY,
        RACING_SCHEDULERS,
        ROOM_COMES_BACK,
        REMOVED_BY_FORCE,
        CURE_MEANWHILE,
        PROMISED_ROOM,
        WHOSE_ROOM,
        STALE_CANDIDATE,
        EXCLUSIVE_DEVICES,
        STALE_POLICY_CANARY,
        POLICY_SCOPES,
        BIND_WITHOUT_ANSWER,
        BINDING_DURING_NODE_FAILURE,
        DUPLICATE_RESERVATION,
        IMAGE_PULLS,
        LATE_COMMITS,
        LATE_CREATE,
        SCALED_UP_MEANWHILE,
        PODS_COME_AND_GO,
        STALE_AGENT,
        DEADLINES_HOLD,
        FENCED_BEFORE_REPLACED,
        EACH_POD_COUNTED_ONCE,
        MISSED_TICKS,
        EVICTION_AND_BUDGET,
        SILENT_NODES,
        HALF_SAID,
        REPLACED_ONCE,
        LEFT_OVER,
        MACHINES_JOIN,
        OWNERS_AND_DEPENDENTS,
        OWNERS_RESTORED,
        NAMESPACE_GOES,
        SERVICES_LEAD,
        PROGRESS_TOLD,
        AUTOSCALER_AND_LAG,
        MISSING_REPLICA,
        REFUSED_WORK,
        BAD_ROLLOUT,
        ROLLOUT_AND_EVIDENCE,
        OBJECTIVE_BURNS,
        ORDERED_ROLLBACK,
        LAST_OF_ITS_ZONE,
        ALWAYS_REJECTED,
        FLOOD,
        OPERATED_QUEUE,
        ONE_ON_EACH_NODE,
        TWO_CONTROLLERS,
        RESTORED_STORE,
        PUT_BACK_AGAIN,
        BACKUP_RESTORED,
        POWER_FAILS,
        KEYS_ROTATE,
        DAMAGED_LOG,
        TWO_BUILDS,
        PENDING_AFTER_ROLLBACK,
        DECISION_PATHS,
        HELD_CONTROLLER,
        HELD_ROLLOUT,
        FROZEN_EVICTIONS,
        CORE_WORLD,
        DISK_WORLD,
        FULL_WORLD,
        *DATABASES,
    )
}
