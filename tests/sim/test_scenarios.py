"""Each scenario finds the bugs it is there for. (That it passes without one, test_runs.py sees for all of them.)

The numbers are those of the scenarios in the catalogue of things that a control plane must survive.
"""

from collections.abc import Callable, Sequence

import pytest

from mainstay.scenarios import SCENARIOS, weak_designs
from mainstay.sim.run.forks import run_many
from mainstay.sim.run.run import RunResult
from mainstay.sim.run.scenario import Scenario
from tests.sim.known_seeds import KNOWN_SEEDS
from tests.twins import (
    admission_policies,
    agents,
    autoscaling,
    backups,
    caches,
    catalogue,
    cleanup,
    database,
    encryption,
    evidence,
    explaining,
    faults,
    flow,
    found,
    freshness,
    holds,
    image_pulls,
    intents,
    jobs,
    joining,
    ledger,
    managed_fields,
    node_health,
    policies,
    policy_rollouts,
    queue,
    quotas,
    repair,
    scenarios,
    scheduling,
    services,
    sim,
    store,
    transactions,
    workloads,
    worlds,
)

pytestmark = pytest.mark.slow

Twin = Callable[[pytest.MonkeyPatch], None]

SEEDS_MAX = 40  # Enough to find each of them. Most are found with the first few.
FIRST_SEEDS = range(1, SEEDS_MAX + 1)

# The scenario, the bug, and how the problem is said, or may be: whatever is seen first.
TWINS: list[tuple[str, Twin, str | tuple[str, ...]]] = [
    # T2, T9: a policy on several servers
    ("admission-policies", admission_policies.keeps_the_first_version_of_a_policy, "admission policies: "),
    ("admission-policies", admission_policies.never_binds_a_policy_again, "admission policies: "),
    ("admission-policies", admission_policies.says_that_it_has_seen_what_is_committed, "admission policies: "),
    ("admission-policies", admission_policies.remembers_which_policies_there_were, "admission policies: "),
    ("admission-policies", admission_policies.names_the_first_version_that_changed_a_write, "admission policies: "),
    ("admission-policies", admission_policies.validates_what_was_sent, "admission policies: "),
    ("admission-policies", admission_policies.runs_a_policy_again_for_its_own_change, "admission policies: "),
    # H7: two machines join as one node
    ("machines-join", joining.issues_whatever_became_of_the_record, "machines join: "),
    ("machines-join", joining.looks_only_whether_the_node_is_there, "machines join: "),
    ("machines-join", joining.replaces_a_machine_without_revoking_it, "machines join: "),
    ("machines-join", joining.hears_of_no_revocation, "machines join: "),
    ("machines-join", joining.forgets_revocations_when_it_restarts, "machines join: "),
    ("machines-join", joining.revokes_what_is_issued_later, "machines join: "),
    ("machines-join", joining.accepts_tokens_that_have_expired, "machines join: "),
    ("machines-join", joining.signs_for_tokens_that_are_gone, "machines join: "),
    # F4, T2: images that are slow to come
    ("image-pulls", image_pulls.pulls_again_without_backing_off, "image pulls: "),
    ("image-pulls", image_pulls.counts_a_failed_pull_as_a_crash, "image pulls: "),
    ("image-pulls", image_pulls.begins_a_container_after_the_first_failed_pull, "image pulls: "),
    # 2: a node goes unheard
    ("ghost-node", caches.keeps_what_is_missing_from_a_state, "placed: "),
    ("ghost-node", scenarios.knows_nothing_of_what_goes, "placed: "),
    ("ghost-node", scenarios.does_not_look_again_when_a_node_goes, "placed: "),
    # 4: a node goes before what was on it
    ("node-before-its-tasks", scenarios.expects_every_node_to_be_known, "placing cannot decide about "),
    # 7: a leader that was never told
    ("new-leader-knows", scenarios.tells_a_new_leader_only_what_is_new, "placed: "),
    ("new-leader-knows", scenarios.restarts_operation_ids_in_each_term, "placed: "),
    # 7, too: what the last leader did
    ("successor-looks-first", scenarios.leads_with_caches_from_before_its_time, "count: there are "),
    # 10: one's own writes, not seen yet
    ("one-pod-too-many", scenarios.decides_without_having_seen_its_own_writes, "count: there are "),
    ("one-pod-too-many", scenarios.waits_for_the_first_of_its_writes_only, "count: there are "),
    # 11: a name that comes again
    ("job-of-the-same-name", scenarios.waits_until_it_has_seen_each_child, "count: batch/jobs/default/job-"),
    # 12: the same with several keys
    ("twice-in-slices", scenarios.decides_without_having_seen_its_own_writes, "count: there are 2 of "),
    ("twice-in-slices", scenarios.waits_for_the_first_of_its_writes_only, "count: there are 2 of "),
    # 18: leaders and former leaders
    ("one-leader", sim.does_not_look_at_terms, "one acting leader: a write of term "),
    ("leaders-and-clocks", scenarios.trusts_the_times_in_the_lease, "leaders and clocks: "),
    ("leaders-and-clocks", scenarios.never_stops_leading_by_itself, "leaders and clocks: "),
    ("leaders-and-clocks", scenarios.counts_from_when_it_finds_its_renewal, "leaders and clocks: "),
    # 23: history that is forgotten
    ("compaction-in-the-gap", caches.keeps_what_is_missing_from_a_state, "following: "),
    ("compaction-in-the-gap", caches.lists_again_at_once, "following: "),
    ("compaction-in-the-gap", scenarios.does_not_say_that_history_is_lost, "watch contract: "),
    ("compaction-in-the-gap", scenarios.goes_on_one_change_too_late, "following: the cache of "),
    # 24: going back in time
    ("back-in-time", caches.applies_whatever_comes, "task 'informer of configmaps/default' failed: BrokenInvariant: "),
    (
        "back-in-time",
        scenarios.begins_a_watch_where_it_is_itself,
        "watch contract: a watch delivered a change from before",
    ),
    ("back-in-time", scenarios.says_how_far_it_is_itself, "watch contract: a bookmark went back in time "),
    ("back-in-time", faults.believes_whatever_state_it_is_shown, "following: "),
    # Watches that come back late, and lists that take their time
    ("watches-behind", scenarios.has_one_change_less_than_it_says, "watch contract: a watch skipped a commit"),
    ("watches-behind", scenarios.sends_bookmarks_while_it_catches_up, "watch contract: a bookmark is past a commit"),
    ("slow-lists", store.forgets_all_when_something_is_old_enough, "slow lists: "),
    # Fields that several managers own
    ("shared-fields", managed_fields.leaves_a_changed_field_to_those_who_share_it, "field owners: "),
    # Several schedulers at once
    ("racing-schedulers", ledger.forgets_to_check_the_room, "capacity: "),
    ("racing-schedulers", ledger.forgets_what_is_taken, "capacity: "),
    ("racing-schedulers", ledger.releases_twice, "capacity: "),
    ("racing-schedulers", ledger.charges_without_the_ledger_check, "capacity: "),
    ("stale-candidate", ledger.forgets_to_check_the_room, "capacity: "),
    # Devices, and schedulers whose watches are late
    ("exclusive-devices", ledger.is_strict_about_pods_only, "exclusive devices: "),
    ("exclusive-devices", scheduling.takes_the_revision_of_pods_for_that_of_nodes, "exclusive devices: "),
    ("exclusive-devices", scheduling.gives_devices_away_by_any_view, "exclusive devices: "),
    # W8, W9: a policy is rolled out
    ("stale-policy-canary", weak_designs.binds_from_the_cached_view, "capacity: "),
    ("stale-policy-canary", policy_rollouts.asks_only_whether_the_policy_was_seen, "policy rollout: "),
    ("stale-policy-canary", policy_rollouts.passes_when_signals_are_missing, "policy rollout: "),
    ("stale-policy-canary", policy_rollouts.compares_whatever_there_is, "policy rollout: "),
    ("stale-policy-canary", policy_rollouts.overlooks_regressions, "policy rollout: "),
    ("stale-policy-canary", policy_rollouts.deactivates_the_previous_policy_first, "policy rollout: "),
    ("stale-policy-canary", policy_rollouts.forgets_the_deadline, "policy rollout: "),
    ("stale-policy-canary", policy_rollouts.rolls_back_without_restoring, "policy rollout: "),
    ("stale-policy-canary", policy_rollouts.skips_a_stage, "policy rollout: "),
    ("policy-scopes", policies.keeps_the_first_policies_that_it_saw, "policies: "),
    ("policy-scopes", policies.goes_by_one_policy_for_all_pods_of_a_step, "policies: "),
    ("policy-scopes", policies.divides_workloads_by_pod, "policies: "),
    ("policy-scopes", policies.takes_each_revision_for_a_workload, "policies: "),
    ("policy-scopes", policies.does_not_look_at_limits, "policies: "),
    ("policy-scopes", policies.assumes_what_a_shadow_would_choose, ("scheduling: ", "policies: ")),
    ("policy-scopes", policies.goes_by_policies_in_shadow, "policies: "),
    ("policy-scopes", policies.forgets_the_bound_on_skews, "policies: "),
    ("policy-scopes", policies.does_not_wake_pods_when_policies_change, "policies: "),
    ("policy-scopes", policies.replays_without_assumed_pods, "policy replay: "),
    ("policy-scopes", policies.replays_changes_one_revision_early, "policy replay: "),
    ("racing-schedulers", scheduling.keeps_the_room_of_a_refused_binding, "scheduling: "),
    # 2, 3, 4, 7: room, nodes and leaders that come and go unheard
    ("room-comes-back", scheduling.does_not_hear_that_a_node_is_gone, "scheduling: "),
    ("room-comes-back", scheduling.loses_the_pods_of_a_node_that_goes, "scheduling: "),
    ("room-comes-back", scenarios.tells_a_new_leader_only_what_is_new, "scheduling: "),
    ("room-comes-back", caches.keeps_what_is_missing_from_a_state, "scheduling: "),
    ("room-comes-back", scenarios.knows_nothing_of_what_goes, "scheduling: "),
    # Room without a change that announces it
    ("removed-by-force", scheduling.never_asks_for_unconfirmed_charges, "removed by force: "),
    ("removed-by-force", scheduling.asks_for_unconfirmed_charges_once, "scheduling: "),
    # 5: a binding without an answer
    ("binding-during-node-failure", weak_designs.binds_again_after_a_timeout, "capacity: "),
    ("bind-without-answer", scenarios.binds_a_pod_wherever_it_is, "capacity: "),
    ("bind-without-answer", ledger.binds_to_nodes_that_are_closed, "capacity: "),
    ("bind-without-answer", scheduling.says_for_ever_that_it_tries_again, "bind without answer: "),
    ("bind-without-answer", scheduling.tells_without_looking, "bind without answer: "),
    # 6: a cure that comes before the waiting
    ("cure-meanwhile", scheduling.loses_what_comes_before_the_parking, "scheduling: "),
    # 8: another takes the room that was made, and the promise is late
    ("promised-room", catalogue.waits_for_the_room_it_was_promised, "making room: "),
    ("promised-room", catalogue.keeps_the_room_of_who_needs_it_no_more, "making room: "),
    ("promised-room", scenarios.decides_without_having_seen_its_own_writes, "promises: "),
    # 9: two schedulers, and whose room it is
    ("whose-room", catalogue.promises_room_that_others_may_take, "promises: "),
    # A reservation whose response is lost
    ("duplicate-reservation", weak_designs.names_reservations_after_the_attempt, "reserved: "),
    # Time passes between what a server reads and what it commits
    ("late-commits", transactions.refuses_a_write_for_what_it_has_done_itself, "late commits: "),
    ("late-commits", transactions.uses_a_reservation_whatever_has_become_of_it, "reserved: "),
    ("late-commits", transactions.remembers_only_deletions_that_are_over, "acknowledged writes: operation delete-"),
    ("late-commits", transactions.charges_a_pod_that_may_have_ended, "late commits: "),
    ("late-commits", transactions.ends_a_pod_that_may_be_charged_by_now, "late commits: "),
    # R3: a queue that is operated
    ("operated-queue", queue.treats_all_keys_alike, "operated queue: "),
    ("operated-queue", queue.keeps_the_settings_it_began_with, "operated queue: "),
    # W3: actions on views that are old
    ("scaled-up-meanwhile", freshness.does_not_read_before_it_acts, "scaled up meanwhile: "),
    ("eviction-and-budget", freshness.sends_no_version, "enough healthy: "),
    # F3: one intent, one operation
    ("late-create", intents.names_writes_after_their_decisions, "late create: "),
    ("late-create", intents.takes_what_was_made_before_for_what_is_there, "late create: "),
    # 1: an agent that restarts on an old list
    ("stale-agent", agents.starts_what_its_cache_shows, "at most one: "),
    ("stale-agent", agents.ends_what_an_old_list_does_not_have, "at most one: "),
    # Agents that crash, machines that reboot, names that come again, pods that are removed by force
    ("pods-come-and-go", agents.begins_what_it_has_not_begun_itself, "at most one: "),
    ("pods-come-and-go", agents.does_not_wait_for_a_predecessor, "at most one: "),
    ("pods-come-and-go", agents.believes_that_all_goes_on_after_a_reboot, "agents: there are pods "),
    ("pods-come-and-go", agents.removes_a_pod_before_it_has_ended, "at most one: "),
    ("pods-come-and-go", agents.leaves_strays_alone, ("agents: there are pods ", "at most one: ")),
    ("pods-come-and-go", agents.never_confirms_ended_pods, "agents: "),
    ("pods-come-and-go", agents.confirms_ended_pods_too_soon, "at most one: "),
    # Deadlines of pods, over restarts of their agents and in the scopes of quotas
    ("deadlines-hold", agents.counts_deadlines_from_its_own_start, "deadlines: "),
    ("deadlines-hold", quotas.judges_scopes_by_the_newest_state, "quotas: "),
    # A node that is cut off for longer than its lease
    ("fenced-before-replaced", agents.counts_from_the_acknowledgement, "at most one: "),
    ("fenced-before-replaced", agents.holds_for_longer_than_it_may, "at most one: "),
    ("fenced-before-replaced", agents.starts_again_what_it_had, "at most one: "),
    ("fenced-before-replaced", agents.takes_its_lease_back, "at most one: "),
    # 14, 15: owners and their dependents
    ("owners-and-dependents", cleanup.takes_what_is_not_in_the_graph_for_gone, "owned: "),
    ("owners-and-dependents", cleanup.finishes_with_half_a_graph, "owned: "),
    ("owners-and-dependents", cleanup.looks_only_at_what_changes, "owned: "),
    ("owners-and-dependents", cleanup.knows_owners_by_name, "owned: "),
    ("owners-and-dependents", cleanup.knows_owners_by_uid_alone, "owned: "),
    ("owners-and-dependents", cleanup.takes_one_wrong_reference_for_all, "owned: "),
    ("owners-and-dependents", cleanup.deletes_whatever_it_has_become, "owned: "),
    # A namespace and what is in it
    ("namespace-goes", cleanup.knows_no_custom_kinds, "namespaces: "),
    ("namespace-goes", cleanup.is_done_when_all_was_told_to_go, "namespaces: "),
    ("namespace-goes", cleanup.looks_once, "namespaces: "),
    ("namespace-goes", transactions.creates_whatever_has_become_of_the_namespace, "namespaces: "),
    # 16: nodes, zones or the control plane itself are cut off
    ("silent-nodes", node_health.trusts_the_times_in_leases, "patient: "),
    ("silent-nodes", node_health.does_not_restart_its_observation, "patient: "),
    ("silent-nodes", node_health.judges_as_soon_as_it_starts, "patient: "),
    ("silent-nodes", node_health.believes_that_all_nodes_are_dead, "patient: "),
    ("silent-nodes", node_health.releases_as_many_as_there_are, "patient: "),
    ("silent-nodes", node_health.never_forgets_that_a_taint_was_there, "patient: "),
    # 17: a crash between saying it of the node and of its pods
    ("half-said", node_health.says_it_of_pods_only_once, "half said: "),
    # At-most-one pods of nodes that are cut off
    ("replaced-once", node_health.removes_pods_of_nodes_that_are_late, "at most one: "),
    ("replaced-once", node_health.never_gives_the_lease_back, "health: "),
    # What is left over
    ("left-over", repair.believes_its_cache, "released: "),
    ("left-over", repair.leaves_reservations_alone, "left over: "),
    ("left-over", repair.trusts_the_ledgers, "left over: "),
    # 12, for real: Services, their pods and slices
    ("services-lead", services.makes_slices_under_new_names_on_what_it_has_seen, "once in slices: "),
    ("services-lead", services.puts_in_before_it_takes_out, "once in slices: "),
    ("services-lead", services.does_not_hear_that_a_pod_was_taken_out, "services: "),
    ("services-lead", services.looks_at_addresses_only, "services: "),
    ("services-lead", services.leaves_what_a_former_service_had, "services: "),
    ("services-lead", services.does_not_follow_slices, "services: "),
    # Two who write one status
    ("progress-told", services.writes_the_whole_status, "own fields only: "),
    ("progress-told", services.says_when_it_last_looked_at_an_error, "quiescence: "),
    ("progress-told", services.looks_at_its_pods_no_more_than_once, "progress: "),
    # An autoscaler whose target does not get what it asks for
    ("autoscaler-and-lag", weak_designs.scales_whatever_is_kept_back, "autoscaled: "),
    ("autoscaler-and-lag", autoscaling.adds_one_for_safety, "justified: "),
    # 10, 11: jobs, counted exactly
    ("each-pod-counted-once", jobs.lets_go_what_is_not_stored_as_listed, "job counts: "),
    ("each-pod-counted-once", jobs.ends_before_all_are_counted, "job counts: "),
    ("each-pod-counted-once", jobs.forgets_the_pods_of_a_job_that_is_gone, "job counts: "),
    ("each-pod-counted-once", jobs.withdraws_without_saying_so, "job counts: "),
    ("each-pod-counted-once", jobs.makes_another_pod_at_each_look, "job counts: "),
    # 19: ticks that were missed
    ("missed-ticks", catalogue.gives_up_after_a_hundred_missed_ticks, "missed ticks: "),
    ("missed-ticks", catalogue.makes_up_for_each_missed_tick, "once per tick: "),
    ("missed-ticks", catalogue.runs_whatever_is_not_the_last_tick, "once per tick: "),
    ("missed-ticks", catalogue.names_jobs_after_the_attempt, "once per tick: "),
    # 13: evictions, and the count of what is left
    ("eviction-and-budget", jobs.writes_a_status_over_whatever_is_there, "enough healthy: "),
    ("eviction-and-budget", jobs.believes_its_cache_about_evicted_pods, "enough healthy: "),
    # The worked example of the missing replica (SPEC R5)
    ("missing-replica", weak_designs.replaces_what_is_unknown_at_once, "one replacement: "),
    ("missing-replica", workloads.gives_up_every_pod_that_was_unknown_once, "health: "),
    # A retry storm, a hot key, a failure that is not followed up, one that is hidden in logs (SPEC F8, R6)
    ("refused-work", workloads.tries_again_at_once, "no storm: "),
    ("refused-work", workloads.serves_failing_keys_before_all_others, "prompt: "),
    ("refused-work", workloads.forgets_what_has_failed, "refused work: the quota was lifted"),
    ("refused-work", workloads.says_refusals_in_logs_only, "refused work: nothing in "),
    # 18, and duplicate ownership (SPEC F8): the leader is paused or late in mid-work
    ("two-controllers", sim.does_not_look_at_terms, "one acting leader: a write of term "),
    # 20: a template that cannot work, then one that can
    ("bad-rollout", workloads.waits_until_the_template_before_has_come_up, "bad rollout: "),
    # What signals may lead to (SPEC F1)
    ("rollout-and-evidence", evidence.goes_on_whatever_controllers_report, "no more than allowed: a rollout went on"),
    (
        "rollout-and-evidence",
        evidence.gives_up_the_pods_of_a_rollout_that_is_late,
        "no more than allowed: replicas were removed after the deadline",
    ),
    ("rollout-and-evidence", evidence.replaces_pods_whose_probes_fail, "no more than allowed: a pod was removed"),
    (
        "rollout-and-evidence",
        found.goes_by_what_a_set_has_said_of_its_past,
        "no more than allowed: an old set shrinks",
    ),
    ("objective-burns", evidence.goes_on_while_the_budget_burns, "true to the template: a rollout went on"),
    ("objective-burns", evidence.blames_a_template_for_the_one_before, "true to the template: an objective "),
    ("objective-burns", evidence.takes_what_was_not_measured_for_good, "true to the template: an objective is within"),
    ("ordered-rollback", catalogue.waits_for_the_broken_pod_to_become_ready, "ordered rollback: "),
    ("ordered-rollback", catalogue.goes_on_over_what_is_broken, "all but one: "),
    ("ordered-rollback", catalogue.takes_the_answer_to_a_delete_for_its_revision, "all but one: "),
    # T1: recovery capacity, by failure domain
    ("last-of-its-zone", workloads.takes_the_last_of_a_zone_for_a_rollout, "failure domains: "),
    ("last-of-its-zone", workloads.chooses_pods_without_regard_to_zones, "failure domains: "),
    # 21: pods that are rejected whatever one does
    ("always-rejected", workloads.replaces_whatever_has_failed_at_once, "not too often: "),
    ("one-on-each-node", catalogue.takes_a_list_of_nodes_that_has_not_come_for_an_empty_one, "one on each node: "),
    ("one-on-each-node", catalogue.counts_a_pod_once_it_is_bound, "one on each node: "),
    ("one-on-each-node", catalogue.replaces_a_rejected_pod_at_once, "one on each node: "),
    # A user floods the server
    ("flood", flow.lets_everybody_wait_in_one_line, "renewed in time: "),
    # 22: the store is put back to a backup
    ("restored-store", found.goes_on_from_revisions_that_never_were, "restored store: "),
    ("owners-restored", cleanup.believes_for_ever_that_an_owner_is_gone, "owners restored: "),
    ("put-back-again", caches.keeps_what_is_missing_from_a_state, "cache follows: "),
    ("backup-restored", backups.continues_where_the_backup_ends, "backup restored: "),
    ("backup-restored", backups.jumps_to_the_same_revision_each_time, "backup restored: "),
    # A store on a disk that loses power, is full, or fails
    ("power-fails", faults.does_not_sync, "a fault failed (power is back): Corrupt: the log ends at revision "),
    ("power-fails", faults.acknowledges_what_did_not_fit, "a fault failed (power is back): Corrupt: "),
    ("power-fails", faults.leaves_half_a_frame_behind, "a fault failed (power is back): Corrupt: "),
    # Encryption keys are rotated
    ("keys-rotate", encryption.writes_back_whatever_it_has_read, "keys rotate: sealing "),
    # A disk that damages what was written to it
    ("damaged-log", store.does_not_compare_with_the_mark, "acknowledged writes: the store reopened at revision "),
    ("damaged-log", store.acknowledges_before_the_mark, "acknowledged writes: the store reopened at revision "),
    # Connections that are dead without a word
    ("cache-follows", faults.takes_no_silent_watch_for_dead, "cache follows: "),
    # W2: an object that moves from one value of an index to the next
    (
        "cache-follows",
        caches.forgets_to_leave_an_index,
        ("cache follows: the index of ", "task 'informer of configmaps/default' failed: BrokenInvariant: "),
    ),
    # An upgrade that is rolled back
    ("two-builds", faults.counts_only_what_its_own_build_has_made, "count: there are "),
    # The worked example of the pending replicas (SPEC O8): what is said must be the cause
    ("pending-after-rollback", weak_designs.scales_whatever_is_kept_back, "autoscaled: "),
    ("pending-after-rollback", explaining.names_its_view_by_the_latest_cache, "pending after rollback: "),
    ("pending-after-rollback", explaining.takes_the_reason_for_the_cause, "pending after rollback: "),
    ("pending-after-rollback", explaining.compares_with_what_a_component_says_of_itself, "pending after rollback: "),
    # O1, O2, O4, O6, O7: what can be followed from the journal
    ("decision-paths", explaining.binds_without_naming_its_decision, "decision path: "),
    ("decision-paths", explaining.says_it_has_seen_what_it_wrote, "decision path: "),
    ("decision-paths", explaining.tells_events_without_their_decision, "identifiers: "),
    ("decision-paths", explaining.does_not_say_what_a_write_follows_from, "causes: "),
    ("decision-paths", explaining.declares_less_than_it_reads, "coupling: "),
    ("decision-paths", explaining.samples_what_no_node_takes, "sampling: "),
    # Break glass: what users hold, and when it ends
    ("held-controller", holds.goes_on_while_it_is_held, "controllers held: "),
    ("held-controller", holds.begins_before_it_knows_who_is_held, "controllers held: "),
    ("held-controller", holds.waits_for_another_process_to_end_it, "held controller: "),
    ("held-controller", holds.hears_nothing_while_it_is_held, "held controller: "),
    ("held-rollout", holds.does_not_scale_what_is_held, "held rollout: "),
    ("held-rollout", holds.fills_up_what_is_held, "rollouts held: "),
    ("held-rollout", holds.is_not_woken_when_the_time_is_over, "held rollout: "),
    ("frozen-evictions", holds.evicts_all_the_same, "evictions held: "),
    ("frozen-evictions", holds.releases_nodes_all_the_same, "evictions held: "),
    ("frozen-evictions", holds.freezes_until_it_is_released, "frozen evictions: "),
    # 25–31: operators of databases that crash between two writes, or see old states, or miss some
    ("volumes-grow", database.believes_that_a_member_has_the_volume_it_was_started_for, "databases: db-"),
    ("another-of-the-name", database.ends_members_by_their_names, "wanted: "),
    ("volumes-of-the-living", database.deletes_volumes_by_their_names, "wanted: "),
    ("shrunk-and-grown", database.shrinks_by_names_without_looking_again, "wanted: "),
    ("never-seen-size", database.removes_what_it_has_said_it_has, "databases: db-"),
    ("both-certificates", database.takes_one_certificate_for_both, "databases: db-"),
    ("settings-in-force", database.restarts_members_only_with_the_settings, "databases: db-"),
    ("members-can-leave", database.says_once_that_a_member_has_joined, "databases: db-"),
    ("volumes-go-too", database.removes_volumes_only_with_their_members, "databases: db-"),
    # Whole worlds: one at least for each of their checkers
    ("core-world", sim.forgets_deletes_when_a_watch_resumes, "watch contract: "),
    ("core-world", worlds.says_that_a_plan_is_gone, "acknowledged writes: "),
    ("core-world", worlds.leads_for_as_long_as_it_likes, "one acting leader: "),
    ("core-world", ledger.releases_twice, "capacity: "),
    ("core-world", agents.removes_a_pod_before_it_has_ended, "at most one: "),
    ("core-world", worlds.holds_nothing_for_a_reservation, "reserved: "),
    ("core-world", worlds.names_pods_after_the_attempt, "bounded: "),
    ("core-world", worlds.asks_no_budget, "budgets: "),
    ("core-world", worlds.counts_and_never_refuses, "quotas: "),
    ("core-world", worlds.mixes_up_what_it_has_observed, "observed generations: "),
    ("core-world", worlds.forgets_what_no_node_takes, "bound in time: "),
    ("core-world", worlds.gives_up_what_a_policy_denies, "world: web-"),
    ("core-world", repair.leaves_reservations_alone, "orphans: "),
    ("core-world", repair.believes_its_cache, "released: "),
    ("core-world", worlds.says_when_it_looked, "quiescence: "),
    ("disk-world", faults.does_not_sync, "a fault failed (power is back): Corrupt: the log ends at revision "),
    ("full-world", worlds.takes_the_old_away_at_once, "recovery: "),
    ("full-world", jobs.ends_before_all_are_counted, "job counts: "),
    ("full-world", worlds.leaves_what_has_no_owner, "owned: "),
    # 32: a name that only the server knows
    ("one-delivery", sim.does_an_operation_each_time_it_is_asked, "acknowledged writes: operation deliver."),
    ("one-delivery", scenarios.tells_a_repeat_that_the_name_is_taken, "one delivery: no client created "),
]


def name_of(scenario: str, twin: Twin) -> str:
    return f"{scenario}-{twin.__name__}"


def first_found(scenario: Scenario, twin: Twin, seeds: Sequence[int]) -> RunResult | None:
    """The first run with a planted bug that does not pass. The bug is planted in forks, and nowhere else."""
    results = run_many(scenario, seeds, patch=lambda: twin(pytest.MonkeyPatch()))
    return next((result for result in results if not result.is_passed), None)


FIRST_TWINS = {name: twin for name, twin, _ in reversed(TWINS)}
"""One of each scenario, which `make test` plants. The others are for `make test-deep`."""


@pytest.mark.parametrize(
    ("name", "twin", "problem"),
    [
        pytest.param(
            *case,
            id=name_of(*case[:2]),
            marks=() if FIRST_TWINS[case[0]] is case[1] else pytest.mark.deep,
        )
        for case in TWINS
    ],
)
def test_a_scenario_finds(name: str, twin: Twin, problem: str | tuple[str, ...]):
    # A scenario that has changed since may need another seed than the known one.
    known = KNOWN_SEEDS.get((name, twin), 1)
    result = first_found(SCENARIOS[name], twin, [known, *FIRST_SEEDS])

    assert result is not None
    assert result.problem.startswith(problem)


SEARCHED_ONE_IN = 8
SEARCHED = [case for case in TWINS if case[:2] in KNOWN_SEEDS][::SEARCHED_ONE_IN]
"""A sample of those that seed 1 does not find. `bench.twins` searches for all of them."""


@pytest.mark.deep
@pytest.mark.parametrize(("name", "twin", "problem"), SEARCHED, ids=[name_of(name, twin) for name, twin, _ in SEARCHED])
def test_a_scenario_finds_with_one_of_its_first_seeds(name: str, twin: Twin, problem: str | tuple[str, ...]):
    result = first_found(SCENARIOS[name], twin, FIRST_SEEDS)

    assert result is not None
    assert result.problem.startswith(problem)


def test_each_known_seed_is_of_a_twin():
    assert KNOWN_SEEDS.keys() <= {case[:2] for case in TWINS}


def test_every_scenario_has_a_twin():
    # Those without are in test_runs.py.
    assert sorted({name for name, *_ in TWINS} | {"cache-follows"}) == sorted(SCENARIOS)


def test_the_seed_of_the_worked_example_finds_the_second_reservation():
    twin = weak_designs.names_reservations_after_the_attempt

    (result,) = run_many(SCENARIOS["duplicate-reservation"], [82219], patch=lambda: twin(pytest.MonkeyPatch()))

    assert result.problem.startswith("reserved: risk-api-")
    assert "has a second reservation for replica-" in result.problem
