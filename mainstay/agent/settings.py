"""Settings of an agent: its node, what that has, and how often it is reported.

The defaults are those of `mainstay agent`. Everything that is not said here comes from the machine (env/machine.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import IPv4Network
from typing import Final

from mainstay.loop.fencing import LeaseTimes

LEASE: Final = LeaseTimes(
    duration=timedelta(seconds=40), renew_every=timedelta(seconds=10), stopping=timedelta(seconds=10)
)
PODS_MAX: Final = 110


@dataclass(frozen=True, slots=True)
class TaintSetting:
    key: str
    effect: str
    """`NoSchedule`, `PreferNoSchedule` or `NoExecute`."""
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    name: str
    """Of the node."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Besides those that every node has, or instead of them."""
    taints: tuple[TaintSetting, ...] = ()
    """That a new node gets. Those of one that is there already are not touched."""
    capacity: Mapping[str, str] = field(default_factory=dict)
    """Quantities by resource: instead of what the machine has, and besides."""
    zone: str = ""
    region: str = ""
    pod_cidr: IPv4Network = field(default_factory=lambda: IPv4Network("127.64.0.0/24"))
    """Where the pods of this node have their addresses. No two nodes that know of each other may share any."""
    has_pod_network: bool = False
    """Whether pods have a network of their own, and not that of the machine."""
    host_address: str = "127.0.0.1"
    """Where the agent can be reached from the API servers."""
    serving_port: int = 0
    """Where it serves logs and commands. 0: nowhere."""
    certificate_digest: str = ""
    """SHA-256 of the certificate that it serves with, in hexadecimal. Empty: it does without."""
    service_host: str = ""
    """What containers are told as `KUBERNETES_SERVICE_HOST`."""
    service_port: int = 443
    lease: LeaseTimes = LEASE
    status_every: timedelta = timedelta(minutes=5)
    """How often the Node's status is written if nothing has changed."""
    pods_max: int = PODS_MAX
    is_pretend: bool = False
    """Nothing is really run: pods need no command, nothing is read for them, and no Events are written."""
    build: str = ""
    """Of the agent, for the records of its decisions."""
    container_user: int | None = None
    """Who containers are that name no user. None: who the agent is."""
    isolation: str = ""
    """What containers are kept from on this node, and what not. Empty: they are no processes."""
    limits_note: str = ""
    """What the runner cannot enforce here. Shown on the Node."""
