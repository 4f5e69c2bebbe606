"""`mainstay why`: why an object is not as it should be, or what became of it.

`why(moment, kind, name, namespace)` walks the chain from what is wanted down to what is served, and stops at the first
broken link. What it says of that link comes from records: the decision that was made there, the revisions that it had
seen, the writes that were refused. Where a record is missing it says so, and does not guess.

    dispatch.py       `why`: from a kind to who knows about it
    answer.py       the answer, as a value; text.py: for people
    causes.py       the codes, what each of them means, and how grave it is
    case.py         one question, and what was read of the journal for it
    found.py        what an analyser has found out; words that all of them use

    workloads.py    Deployments and ReplicaSets; jobs.py: Jobs; fights.py: several writers of one field
    pods.py         pods, from being made to serving
    scheduling.py   a pod without a node: refused.py, refusals.py, verdicts.py, staleness.py
    containers.py   a pod with a node that is not ready
    removal.py      what is gone, or is to go
    nodes.py, others.py     nodes; namespaces, quotas, Services, budgets
    control.py, components.py   controllers that have not acted; who is at work
"""
