"""The field that workloads have besides those of Kubernetes."""

import pytest

from mainstay.api import schema
from mainstay.api.progress import Deadline, DeadlineState, Progress, ProgressLimit, ProgressVerdict, read_progress

APPS, BATCH = "k8s.io.api.apps.v1.", "k8s.io.api.batch.v1."


@pytest.mark.parametrize("message", [APPS + "DeploymentStatus", APPS + "ReplicaSetStatus", BATCH + "JobStatus"])
def test_the_status_of_a_workload_has_a_record_of_its_progress_that_is_in_no_message_on_the_wire(message: str):
    field = schema.find_fields(message)["progress"]

    assert (field.number, field.repeated, field.is_map) == (0, False, False)
    assert schema.is_message(field.type)


def test_each_part_of_a_record_is_a_field_that_the_server_knows():
    record = Progress(
        observed_generation=1,
        desired=2,
        admitted=0,
        pending=0,
        bound=0,
        starting=0,
        ready=0,
        serving=0,
        succeeded=0,
        deadline=Deadline(DeadlineState.RUNNING, "2026-03-01T12:00:00Z"),
        limited_by=ProgressLimit("admitted", "server", "QuotaExceeded", 2, "exceeded quota"),
        verdict=ProgressVerdict.WAITING,
    )
    said = record.as_object()
    known = schema.find_fields("k8s.io.api.mainstay.v1.Progress")

    assert said.keys() <= known.keys()
    assert all(known[name].keeps_zero for name, value in said.items() if value == 0)
    assert said["limitedBy"].keys() <= schema.find_fields(known["limitedBy"].type).keys()
    assert read_progress({"status": {"progress": said}}) == record
