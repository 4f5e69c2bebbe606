"""Reasons to prefer a node, one file each. All give whole numbers from 0 to 100, in the end.

Two kinds: how well a pod fits the room on a node (allocation, balance), which changes with each pod that is placed
there; and what a pod or a node says it prefers (affinity, taints, spread), which is then brought to the scale from 0
to 100 with regard to the nodes that can take the pod. The numbers are those that a Kubernetes scheduler comes to.
"""

from typing import Final

SCORE_MAX: Final = 100
