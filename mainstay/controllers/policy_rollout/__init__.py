"""PolicyRollouts: a new placement policy takes over stage by stage, and each stage passes a gate or is rolled back.

controller.py    which write comes next, from what the two policies and the rollout's status say
switch.py        the order of writes in which no pod of the scope is without a policy, and no two policies tie
freshness.py     has every component seen the policy, and said so lately?
cohorts.py       what the pods that go by the candidate show, and those that do not
health.py        the test by which the two are compared
gate.py          both together: pass, wait, or roll back
status.py        conditions and fields that say so
why.py           `mainstay why policyrollout/NAME`
"""
