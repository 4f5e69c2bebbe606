"""One file for each kind of repair: what is wanted is compared with what is there, and what is missing is done.

    replicaset.py     as many pods as a ReplicaSet wants          slots.py, surplus.py, claiming.py
    deployment.py     from one template to the next               rolling.py, revisions.py, rollout_status.py
    endpoint_slice.py where the traffic of a Service goes         routes.py, slice_packing.py, selecting.py
    endpoints.py      the same for old clients
    serving.py        whether traffic is sent to a pod
    progress.py       how far each workload has come              holdups.py, api/progress.py
    job.py            pods until enough have succeeded            job_counting.py and others named job_*.py
    disruption_budget.py  how many pods may be taken away
    pod_garbage.py    pods that nobody removes
    namespace.py      a namespace goes with all that is in it     namespace_content.py
    owner_cleanup/    what has lost its owners goes
    service_account.py    what every namespace has
    node_loop.py      nodes that are not heard of                 node_health.py and others named node_*.py, hearing.py,
                                                                  zones.py, taint_eviction.py
    repair_loop.py    what nobody looks after any more            repair.py
    loop/fresh_read.py      for those that decide about what was just read   served_kinds.py, metadata_source.py
    all.py            the table of all of them
    component.py      all of them in one process, under one lease

Each is observe, decide, act (docs/guides/write-a-controller.md). They never call each other: they meet in the store.
"""
