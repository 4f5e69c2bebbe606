"""Which node a pod goes to: decided from columns kept in memory, made true by the server's commit.

Deciding, which only computes:

    columns = NodeColumns()                          cache/columns.py: nodes as arrays, from nodes, pods, reservations
    columns.node_changed(node, name)                 each returns which cures (reasons.Cure) the change may be
    columns.pod_changed(old, new)
    pod = pod_to_place(obj)                          pod_class.py: what matters of a pod; equal pods share a class
    policy = policies.choose(pod).policy             active_policies.py: the PlacementPolicy with the narrowest scope
    vectors = Vectors(columns)                       cache/vectors.py: what is kept between decisions, for each class
    decision = decide(vectors, pod, policy, seed)    decide.py: Placed(node, score) or Unschedulable(refusals)
    columns.assume(pod, decision.node)               it counts there from now on, until `forget` or the bound pod comes

Running, which reads and writes:

    Scheduler(client, env, settings=…).run()         component.py: caches, lease or sharing, ComponentState
    Cycle                                            cycle.py: take pods, decide, assume them on their nodes
    ClusterState                                     cluster_state.py: what it knows; the states of a pod are in queue/
    Bindings, Reporter, RecordWriter                 bindings.py, report.py, record_writer.py: what it writes

`filters/` has one file per reason to refuse a node, `scores/` one per reason to prefer it. `what_if.py` decides on
given objects. What is cached between decisions (scheduler/cache/class_vectors.py) never changes an outcome: tests hold
every decision against freshly built columns, and against a plain implementation that goes over nodes one by one.
"""
