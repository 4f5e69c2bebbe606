"""The kind ControllerSettings, `mainstay.dev/v1`: how the work queues of controllers pace their keys.

    metadata: {name: replicaset}      a controller; `default` is for every controller
    spec:
      queue:                          what is not named here is as in `default`, or else as the process was started
        resyncSeconds: 600
        tenantWeights: {shop: 3}

Processes follow it without a restart (loop/queue_settings.py, which builds from it what a queue goes by). The bounds
here are such that whatever is accepted can be followed; docs/guides/work-queue.md says what each parameter is for.
"""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from mainstay.api import kind_names
from mainstay.api.errors import StatusCause, invalid_value, required
from mainstay.api.kind import Object
from mainstay.api.kinds.declare import declare
from mainstay.api.kinds.struct_checks import convert_spec

DEFAULT_NAME: Final = "default"
PASSED_OVER_MIN: Final = 4
"""As many as there are priorities: with fewer turns, they would mean nothing."""

_HOUR_S: Final = 3600
_Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class QueueSpec(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """None: as it was before."""

    attempts_max: Annotated[int, msgspec.Meta(ge=1, le=1000)] | None = None
    first_delay_milliseconds: Annotated[int, msgspec.Meta(ge=1, le=_HOUR_S * 1000)] | None = None
    delay_max_seconds: Annotated[int, msgspec.Meta(ge=1, le=24 * _HOUR_S)] | None = None
    deadline_seconds: Annotated[int, msgspec.Meta(ge=0, le=7 * 24 * _HOUR_S)] | None = None
    """0: none."""
    change_after_failure_milliseconds: Annotated[int, msgspec.Meta(ge=0, le=_HOUR_S * 1000)] | None = None
    retries_per_second: _Count | None = None
    retries_burst: _Count | None = None
    resync_seconds: Annotated[int, msgspec.Meta(ge=0, le=7 * 24 * _HOUR_S)] | None = None
    """0: never."""
    passed_over_max: Annotated[int, msgspec.Meta(ge=PASSED_OVER_MIN, le=1_000_000)] | None = None
    tenant_weights: dict[str, Annotated[int, msgspec.Meta(ge=1, le=1000)]] | None = None
    processing_per_tenant_max: Annotated[int, msgspec.Meta(ge=0, le=1000)] | None = None
    """0: no bound."""


class _Spec(msgspec.Struct, forbid_unknown_fields=True):
    queue: QueueSpec


def parse_queue(settings: Object) -> QueueSpec:
    """What an object asks for, which was accepted."""
    return msgspec.convert(settings["spec"], _Spec).queue


def _validate(new: Object, old: Object | None) -> Sequence[StatusCause]:
    if new.get("spec") is None:
        return [required("spec")]
    spec = convert_spec(new["spec"], _Spec)
    if isinstance(spec, StatusCause):
        return [spec]
    queue = spec.queue
    first_ms, longest_s = queue.first_delay_milliseconds, queue.delay_max_seconds
    if first_ms is not None and longest_s is not None and first_ms > longest_s * 1000:
        detail = f"must be less than or equal to delayMaxSeconds, which is {longest_s}"
        return [invalid_value("spec.queue.firstDelayMilliseconds", first_ms, detail)]
    return []


CONTROLLER_SETTINGS: Final = declare(kind_names.CONTROLLER_SETTINGS, categories=("mainstay",), validate=_validate)

KINDS: Final = (CONTROLLER_SETTINGS,)
