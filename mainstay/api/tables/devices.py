"""The rows of devices that pods share or have for themselves."""

from mainstay.api.kind import Object
from mainstay.api.tables.fields import has, listed
from mainstay.api.tables.table import AGE, NAME, age_at, filled, of, table, text_at


def _state(claim: Object) -> str:
    is_deleted = has(claim, "metadata.deletionTimestamp")
    states = ["deleted"] if is_deleted else []
    if has(claim, "status.allocation"):
        states.append("allocated")
        if listed(claim, "status.reservedFor"):
            states.append("reserved")
    elif not is_deleted:
        states.append("pending")
    return ",".join(states)


TABLES = {
    ("resource.k8s.io", "DeviceClass"): table(NAME, AGE),
    ("resource.k8s.io", "ResourceClaim"): table(NAME, filled("State", of(_state), "What it has, or waits for."), AGE),
    ("resource.k8s.io", "ResourceClaimTemplate"): table(NAME, AGE),
    ("resource.k8s.io", "ResourceSlice"): table(
        NAME,
        filled("Node", text_at("spec.nodeName"), "Where the devices are."),
        filled("Driver", text_at("spec.driver"), "What drives them."),
        filled("Pool", text_at("spec.pool.name"), "The pool they belong to."),
        AGE,
    ),
    ("resource.k8s.io", "DeviceTaintRule"): table(
        NAME,
        filled("Key", text_at("spec.taint.key"), "The taint."),
        filled("Value", text_at("spec.taint.value"), "Its value."),
        filled("Effect", text_at("spec.taint.effect"), "What it does to pods."),
        filled("TimeAdded", age_at("spec.taint.timeAdded", ""), "How long ago it was added."),
        AGE,
    ),
}
