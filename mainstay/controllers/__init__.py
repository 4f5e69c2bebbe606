"""One package per workload or concern: each compares desired with observed state and corrects the difference.

    deployment/       move pods from one template to the next
    replicaset/       keep the number of pods
    job/              run pods until enough have succeeded
    pods/             what workload controllers share: adoption, names, deletion order
    endpoints/        EndpointSlices, Endpoints, and the Serving condition of pods
    autoscaler/       scale workloads by what their pods use
    budget/           status of PodDisruptionBudgets
    progress/         the progress record of each workload
    node_health/      heartbeats, taints, eviction
    repair/           state without an owner
    garbage/          the garbage collector: owners and dependents
    pod_gc/           finished pods, and deleted pods without a node
    namespace/        deletion of namespaces
    service_account/  defaults of each namespace
    holds/            status of Holds

registry.py is the table of all of them, component.py runs them in one process under one lease. Each is observe, decide,
act (docs/guides/write-a-controller.md). They never call each other: they meet in the store.
"""
