"""What is only to be had from the words of a kubelet, which is not ours to change.

Kubernetes' kubelet says in no other place which of a container's probes has failed. Version 0.1 of our agent followed
it; later ones name the probe in the `action` of the Event.
"""

import re
from typing import Final

_FAILED_PROBE: Final = re.compile(r"(Liveness|Startup|Readiness) probe failed")


def find_probe(message: str) -> str:
    """Which probe an Event `Unhealthy` tells of: `Liveness`, `Startup` or `Readiness`. Empty: it does not say."""
    match = _FAILED_PROBE.match(message)
    return match[1] if match else ""
