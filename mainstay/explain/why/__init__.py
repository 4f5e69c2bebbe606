"""`mainstay why`: why an object is not healthy, or what became of it.

`why(moment, rooms, kind, name, namespace)` walks the chain from what is wanted down to what is served, and stops at the
first broken link. What it says of that link comes from records: the decision that was made there, the revisions that it
had seen, the writes that were refused. Where a record is missing it says so, and does not guess.

    dispatch.py     `why`: from a kind to the room that knows about it
    answer.py       the answer, as a value; text.py: for people
    causes.py       the codes, what each of them means, and how grave it is
    case.py         one question, what was read of the journal for it, and the way to other rooms
    found.py        what an analyser has found out; words that all of them use

    pods.py         pods, from being made to serving; the scheduler and the agent know most of it
    workload.py     what is the same for all workloads; fights.py: several writers of one field
    removal.py      what is gone, or is being deleted
    resource_quotas.py, refusals.py, changes.py     what the server refuses
    control.py, components.py   controllers that have not acted; which components are running

What is known about one kind is beside its controller (controllers/<noun>/why.py), in scheduler/why/ and agent/pod/why/.
"""
