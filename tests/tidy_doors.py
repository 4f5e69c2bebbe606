"""The map of the house: what each room lets others import. Everything else in a room is internal to it.

A room is a package of the second level (`server/watch`), or what lies directly in one of the first (`store`). Its
`__init__` is always a door, and so is what lies directly in `env`, `api`, `journal`, `client` and `loop`.
`DOORS` are open to every package that may import the room's package at all; `INNER_DOORS` only to the other rooms of
the same package. The comment is the first line of the room's docstring.

Written by `python -m tests.tidy_map`; see there before you open a door.
"""

from typing import Final

DOORS: Final = {
    # Mainstay: a scheduler and control plane that explains every decision and can run any incident again.
    "": "registry",
    # What runs on a node and speaks for it: registers the node, keeps it alive, runs the pods that are bound to it.
    "agent": "agent credential_file credential_rotation fleet join runner settings",
    # The node itself: its Node object and Lease, the addresses of its pods, and all its pod workers.
    "agent/node": "node",
    # One pod on its node: lifecycle, containers, probes, volumes, and the status that is reported.
    "agent/pod": "why.containers",
    # What runs containers: real processes, or nothing at all.
    "agent/runners": (
        "pretend pretend_containers pretend_images process.cgroups process.cleanup process.isolation "
        "process.pod_network process.runner process.shutdown "
    ),
    # What an agent serves to the API server: logs, exec, ports, and resource usage.
    "agent/serve": "server",
    # The kinds that are always there, each declared in the module of its theme.
    "api/kinds": (
        "admission apiextensions certificates checks controller_settings credentials decisions flowcontrol "
        "mainstay metrics objectives pods policy rbac sampling "
    ),
    # What `kubectl get` shows of each kind: the columns, and how they are filled.
    "api/tables": "jsonpath texts",
    # One package per workload or concern: each compares desired with observed state and corrects the difference.
    "controllers": "component metrics registry",
    # HorizontalPodAutoscalers: scale a target by what its pods use, and by how far it has come.
    "controllers/autoscaler": "debug loop",
    # PodDisruptionBudgets: keep their status, from which evictions are allowed or refused.
    "controllers/budget": "controller why",
    # Deployments: move pods from one template to the next, a few at a time, and keep their number.
    "controllers/deployment": "controller debug revisions",
    # Endpoints and EndpointSlices of Services, and the Serving condition of pods.
    "controllers/endpoints": "endpoints serving slices",
    # What has lost its owners goes; what is told to wait for its dependents, or to let them go, does so.
    "controllers/garbage": "loop",
    # Jobs: run pods until enough of them have succeeded, and count each exactly once.
    "controllers/job": "controller",
    # Namespace deletion: delete everything in a terminating namespace, then release its finalizer.
    "controllers/namespace": "loop",
    # Node health: observe heartbeats, judge the evidence, taint nodes, and evict or replace their pods.
    "controllers/node_health": "loop why",
    # ServiceLevelObjectives: measure how quickly pods come and how many stay, and how fast the error budget burns.
    "controllers/objectives": "controller",
    # What all workload controllers do with their pods: adopt them, name them, choose which to delete first.
    "controllers/pods": "slots",
    # PolicyRollouts: a new placement policy takes over stage by stage, and each stage passes a gate or is rolled back.
    "controllers/policy_rollout": "controller switch",
    # The progress record of each workload: how far it has come, and what limits it (SPEC F5).
    "controllers/progress": "controller",
    # Repair: find state that has lost its owner, and correct it where that is safe.
    "controllers/repair": "debug loop",
    # ReplicaSets: keep the number of pods equal to spec.replicas.
    "controllers/replicaset": "controller replacement",
    # Why: the cluster's decisions put into words.
    "explain": (
        "blame blame_text coupling coupling_text declared diff fields moment placements rebuild registry "
        "replay writers "
    ),
    # What would let a pod run: the smallest changes, each of them verified.
    "explain/cures": "owner values",
    # All that is said of a workload, joined around one object and one generation, and what follows from it.
    "explain/debug": "builder text view",
    # What would happen if this were applied: the controllers and the scheduler decide, in memory.
    "explain/plan": "admission planner text values",
    # What happened to an object, line by line, across all controllers, with what led to what.
    "explain/story": "lines render scope text timeline",
    # `mainstay why`: why an object is not healthy, or what became of it.
    "explain/why": (
        "answer case causes components control dispatch found pods refusals removal resource_quotas text "
        "trouble workload "
    ),
    # HTTP/1.1 and WebSocket for the API server: bytes in, requests to a handler, answers out in order.
    "http": "certificates health_pages messages outgoing server streams websocket",
    # The work queue: deduplicates keys, orders them fairly, and delays retries. work_queue.py is what loops use.
    "loop/queue": "items",
    # Which node a pod goes to: decided from columns kept in memory, made true by the server's commit.
    "scheduler": "bind component metrics report settings",
    # What the scheduler knows of nodes and pods: columns, assumed pods, and vectors per class of pods.
    "scheduler/cache": "charge",
    # Another placement policy on recorded decisions: does the record hold, what would differ, and with what effect.
    "scheduler/comparison": "comparison fold forward history",
    # The scheduling queue: pods that wait for a node, ordered by priority, backoff and what may cure them.
    "scheduler/queue": "scheduling_queue",
    # What the scheduler tells `why`, `timeline`, `debug` and `plan`: replayed decisions, and cures.
    "scheduler/why": "debug placement plan pods relevance zone_quota",
    # The API server: what speaks Kubernetes to the outside, over the store.
    "server": "data_dir_check process store_choice store_damage",
    # Authentication, authorization, and the certificates and tokens they rest on.
    "server/auth": (
        "authentication authorization bootstrap_tokens certificates identities jwt kubeconfig node_claims "
        "request_signer tokens"
    ),
    # Backups: all of a store at one revision in a file, and a store made from such a file.
    "server/backup": "contents data_dir directory_restore errors etcd_restore facts verification",
    # CustomResourceDefinitions: serve the kinds they define, keep their status, clean up after them.
    "server/crd": "definitions",
    # The journal of the cluster: collect decisions, serve them, and expose them as objects, spans and counts.
    "server/decisions": "history_source journal",
    # Where placement becomes true: binding, reservations, the ledger of each node, eviction.
    "server/placement": "ledger.charge ledger.ledger ledger.recount ledger.room",
    # ResourceQuotas and ZoneQuotas: charged in the transaction of the write that uses them.
    "server/quota": "recount",
    # The request chain: from HTTP to a verb on a kind, and from its outcome back to an answer.
    "server/request": "app context metrics pipeline served_kinds target",
    # Objects in the store: reads, writes, admission, and what is committed together with a write.
    "server/storage": "compaction key_rotation keyspace stored",
    # Watches: one feed from the store, windows per kind, and a session per client.
    "server/watch": "session",
    # Runs Mainstay, or any asyncio program, in virtual time with seeded chance: the same seed gives the same run.
    "sim": "active_faults errors",
    # What must hold in every run, whatever goes wrong in it: one checker for each promise.
    "sim/checkers": (
        "acknowledged_writes at_most_one autoscaled bound_in_time bounded budgets capacity count deadlines "
        "decoded failure_domains held job_counts namespaces observed_generations one_acting_leader orphans "
        "owned patient placed policy_rollouts quotas recovery released reserved told watch_contract "
    ),
    # A simulated cluster: servers over one store, programs, machines, and the history of all that happened.
    "sim/cluster": "authority history program_lifecycle recorded_cluster server_proxy world",
    # What a failing run gives: all of it made from its bundle (run_bundle.py), by making the run again.
    "sim/failure": "divergence frozen_server nearest_pass report rerun shrinker",
    # What can go wrong in a simulated cluster: one file for each fault.
    "sim/faults": "schedule",
    # Lineage-driven fault injection: only faults that could keep something good from happening, found from what has.
    "sim/lineage": "injection",
    # A run beside the timeline that a text tells: which step happened when, to which object, by which view and reason.
    "sim/narration": "facts matchers runner steps text",
    # The simulated network: hosts, links, names, sockets and TCP.
    "sim/net": "links",
    # Runs of a scenario: from a seed, in forks, repeated, swept, and kept as bundles.
    "sim/run": "bundle determinism_guard forks lookup repeat_process run scenario sweep",
    # How a run is made to go wrong: one file for each way of choosing among the faults that a scenario allows.
    "sim/strategies": "table",
    # Revisions over bytes. Knows nothing of pods.
    "store": (
        "backup_format disk_log epoch_jump errors high_water interface local local_watch log salvage sealer "
        "sqlite_image sqlite_log "
    ),
    # A store over etcd: any number of processes share one history.
    "store/etcd": "access store",
    # Keep the processes of a cluster on one machine running: start, adopt, restart and stop them.
    "supervisor": "decide machine records supervisor",
}

INNER_DOORS: Final = {
    # The node itself: its Node object and Lease, the addresses of its pods, and all its pod workers.
    "agent/node": "addresses peer_routes pods",
    # One pod on its node: lifecycle, containers, probes, volumes, and the status that is reported.
    "agent/pod": "admit events preparation record status_report worker",
    # What `kubectl get` shows of each kind: the columns, and how they are filled.
    "api/tables": "own",
    # Deployments: move pods from one template to the next, a few at a time, and keep their number.
    "controllers/deployment": "rolling status",
    # Endpoints and EndpointSlices of Services, and the Serving condition of pods.
    "controllers/endpoints": "selectors",
    # Holds: keep their status, and delete those that have expired.
    "controllers/holds": "controller",
    # Node health: observe heartbeats, judge the evidence, taint nodes, and evict or replace their pods.
    "controllers/node_health": "actions heartbeats observer plan snapshot",
    # ServiceLevelObjectives: measure how quickly pods come and how many stay, and how fast the error budget burns.
    "controllers/objectives": "targets",
    # Pod garbage collection: delete finished pods beyond a threshold, and deleted pods that never had a node.
    "controllers/pod_gc": "loop",
    # What all workload controllers do with their pods: adopt them, name them, choose which to delete first.
    "controllers/pods": "adoption events stage_durations urgency",
    # Repair: find state that has lost its owner, and correct it where that is safe.
    "controllers/repair": "snapshot",
    # The default service account and the root CA ConfigMap of each namespace.
    "controllers/service_account": "controller",
    # What would let a pod run: the smallest changes, each of them verified.
    "explain/cures": "quota",
    # What would happen if this were applied: the controllers and the scheduler decide, in memory.
    "explain/plan": "quotas",
    # The work queue: deduplicates keys, orders them fairly, and delays retries. work_queue.py is what loops use.
    "loop/queue": "work_queue",
    # The timelines of the five worked examples, each as steps that are looked for in a run. One file for each.
    "scenarios/narrations": (
        "binding_during_node_failure duplicate_reservation missing_replica pending_after_rollback stale_policy_canary "
    ),
    # What the scheduler knows of nodes and pods: columns, assumed pods, and vectors per class of pods.
    "scheduler/cache": "arrays columns domains feed label_column ring unconfirmed vectors",
    # Reasons to refuse a node, one file each. See ../filtering.py for how they are put together.
    "scheduler/filters": "host_ports node_affinity resources table taints zone_quota",
    # The scheduling queue: pods that wait for a node, ordered by priority, backoff and what may cure them.
    "scheduler/queue": "pending_pods pod_states",
    # Reasons to prefer a node, one file each. All give whole numbers from 0 to 100, in the end.
    "scheduler/scores": "allocation balance node_affinity parts room taints topology_spread",
    # Authentication, authorization, and the certificates and tokens they rest on.
    "server/auth": (
        "authorizers cleanup_restriction credential_service handlers issuer node_authorizer node_index "
        "node_restriction shared_keys signing_point "
    ),
    # Backups: all of a store at one revision in a file, and a store made from such a file.
    "server/backup": "pages unfinished",
    # The journal of the cluster: collect decisions, serve them, and expose them as objects, spans and counts.
    "server/decisions": "otlp refusals service write_notes",
    # Flow control: which request is handled next when there are too many.
    "server/flow": "configuration control scheduler schemas",
    # Requests that only a node's agent can answer: logs, exec, ports, resource usage.
    "server/node_proxy": "agents handlers",
    # Where placement becomes true: binding, reservations, the ledger of each node, eviction.
    "server/placement": "handlers ledger.history ledger.refusals placement",
    # Admission policies: rules in CEL that users write, followed by every API server and evaluated with each write.
    "server/policies": "admission_policies match_rules mutating_policies policy_review policy_set published_state",
    # ResourceQuotas and ZoneQuotas: charged in the transaction of the write that uses them.
    "server/quota": "quota_sums resource_quota status zone_quota",
    # Roles and who has them: evaluated, guarded against escalation, and the ones that every cluster begins with.
    "server/rbac": "access_control",
    # The request chain: from HTTP to a verb on a kind, and from its outcome back to an answer.
    "server/request": "answers audit bodies handlers options patch representation router",
    # Services: the allocation of their addresses and ports.
    "server/services": "addresses api_service",
    # Objects in the store: reads, writes, admission, and what is committed together with a write.
    "server/storage": (
        "account_admission commit_points committer default_objects epochs first_namespaces "
        "metadata namespace_contents object_storage operations read_handlers reads selection shared_writes "
        "store_errors strategies sums terms transact write_context writes "
    ),
    # Watches: one feed from the store, windows per kind, and a session per client.
    "server/watch": "feed follower websocket",
    # What must hold in every run, whatever goes wrong in it: one checker for each promise.
    "sim/checkers": "always quiescence run_checkers",
    # A simulated cluster: servers over one store, programs, machines, and the history of all that happened.
    "sim/cluster": "cluster differences expected_state final_state requests store_proxy watch_lines",
    # What a failing run gives: all of it made from its bundle (run_bundle.py), by making the run again.
    "sim/failure": "subjects",
    # What can go wrong in a simulated cluster: one file for each fault.
    "sim/faults": "odds old_state table",
    # What code that is not ours finds during a run: time, chance, sockets and order, all from the seed.
    "sim/foreign": "context fences patches",
    # Lineage-driven fault injection: only faults that could keep something good from happening, found from what has.
    "sim/lineage": "provenance",
    # The asyncio event loop in virtual time: tasks, timers, the trace of a run, and what fails in it.
    "sim/loop": "clock hashes loop task_stack tasks trace traced_stacks",
    # The simulated network: hosts, links, names, sockets and TCP.
    "sim/net": "hosts names network sockets wire",
    # Runs of a scenario: from a seed, in forks, repeated, swept, and kept as bundles.
    "sim/run": "choices patcher plans",
    # For tests of one's own controllers: what `mainstay.sim` gives, besides the cluster itself (cluster.py).
    "sim/testing": "manifests programs stage survival trouble",
}
