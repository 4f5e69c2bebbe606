"""JSON and MessagePack nested too deeply, wherever clients can put some: refused, or as if it were not there."""

import base64

import pytest

from mainstay.api import field_sets
from mainstay.api.kind_names import AUTOSCALERS
from mainstay.api.node_health import HEALTH, NO_RECORD, record_in
from mainstay.client.errors import ApiError
from mainstay.journal.wire import RECORDS
from tests.server.decisions.journal_world import a_journaled_server
from tests.server.world import CONFIGMAPS, a_server

DEEP = '{"x":' + "[" * 3000


async def test_a_token_to_continue_is_refused(sim):
    async with a_server(sim) as client:
        token = base64.urlsafe_b64encode(DEEP.encode()).decode()
        answer = await client.ask("GET", f"{CONFIGMAPS}?limit=1&continue={token}")
        assert (answer.status, answer.body["message"]) == (400, "invalid continue token: continue key is not valid")


async def test_a_report_of_ghosts_is_refused(sim):
    async with a_server(sim) as client:
        await client.create("/api/v1/nodes", {"metadata": {"name": "n"}})
        answer = await client.ask("PUT", "/api/v1/nodes/n/ghosts", DEEP.encode())
        assert (answer.status, answer.body["reason"]) == (400, "BadRequest")


async def test_records_for_the_journal_are_refused(sim):
    async with a_journaled_server(sim) as served:
        with pytest.raises(ApiError) as caught:
            headers = {"Content-Type": RECORDS}
            await served.admin.request("POST", "/journal/decisions", body=b"\x91" * 3000, headers=headers)
        assert caught.value.status == 400


@pytest.mark.parametrize("body", [b'{"a":' * 5000, b"[" * 100_000], ids=["objects", "lists"])
async def test_a_new_object_is_refused_also_where_refusals_are_recorded(sim, body):
    async with a_journaled_server(sim) as served:
        with pytest.raises(ApiError) as caught:
            await served.admin.request("POST", CONFIGMAPS, body=body)
        assert caught.value.status == 400


async def test_annotations_of_an_autoscaler_are_as_if_they_were_not_there(sim):
    async with a_server(sim) as client:
        path = f"/apis/{AUTOSCALERS.group}/v1/namespaces/default/{AUTOSCALERS.plural}"
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        metadata = {"name": "web", "annotations": {"autoscaling.alpha.kubernetes.io/metrics": DEEP}}
        await client.create(path, {"metadata": metadata, "spec": {"scaleTargetRef": target, "maxReplicas": 3}})
        assert (await client.get(f"{path}/web"))["spec"]["maxReplicas"] == 3


def test_a_key_in_managed_fields_is_shown_as_it_is():
    assert field_sets.paths({f"k:{DEEP}": {".": {}}}) == [f"[{DEEP}]"]


def test_the_health_of_a_node_counts_as_unknown():
    assert record_in({"metadata": {"annotations": {HEALTH: DEEP}}}) == NO_RECORD
