"""A refusal by a policy names it, with its revision and the expression; and servers say which policies they have."""

import pytest

from mainstay.api.causes import ADMISSION_POLICY_VIOLATED
from mainstay.api.kind_names import (
    COMPONENT_STATES,
    CONFIG_MAPS,
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from mainstay.client.errors import ApiError
from mainstay.env import tasks
from mainstay.explain.blame import blame
from mainstay.explain.moment import Moment
from mainstay.explain.story.render import lines_of_decision, lines_of_version
from mainstay.explain.writers import JournalLookup
from mainstay.journal.record import AppliedPolicy, Ending
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.policies.published_state import CHANGES_WITHIN
from mainstay.server.request.app import Api
from mainstay.store import open_memory
from tests.server.decisions.journal_world import a_journaled_server
from tests.server.policies.policy_cases import BINDINGS, POLICIES, SMALL, a_binding, a_map, a_policy, enforce
from tests.server.policies.test_mutations import a_binding as a_mutating_binding
from tests.server.policies.test_mutations import a_policy as a_mutating_policy
from tests.server.world import a_server


async def test_a_refusal_is_in_the_journal_with_the_policy_and_the_expression(sim):
    async with a_journaled_server(sim) as served:
        policy = a_policy(validations=[{"expression": SMALL, "message": "too large"}])
        stored = await served.admin.create(VALIDATING_ADMISSION_POLICIES, policy)
        await served.admin.create(VALIDATING_ADMISSION_POLICY_BINDINGS, a_binding())
        with pytest.raises(ApiError) as refused:
            await served.admin.create(CONFIG_MAPS, a_map(), "default")
        await served.journal.extent()
        found = (await served.journal.decisions(kind="configmaps")).records

    assert refused.value.cause == ADMISSION_POLICY_VIOLATED
    [record] = found
    metadata = stored["metadata"]
    kind = VALIDATING_ADMISSION_POLICIES.text
    named = AppliedPolicy(kind, "small", metadata["uid"], int(metadata["resourceVersion"]))
    assert (record.component, record.outcome.ending, record.policies) == ("admission", Ending.REFUSED, (named,))
    assert record.reasons[-1] == f"expression: {SMALL}"
    [line] = lines_of_decision(record)
    assert "ValidatingAdmissionPolicy 'small'" in line.text
    assert line.details == (f"expression: {SMALL}", f"policy: small, revision {named.revision}")


async def test_a_server_publishes_the_policies_that_it_has_seen(sim):
    store = await open_memory()
    other = await Api.start(store, sim.env("other"), Authenticator({}))
    other.publish_state("other")
    async with a_server(sim, store=store) as client:
        path = f"/apis/mainstay.dev/v1/{COMPONENT_STATES.plural}/apiserver-other"
        await enforce(client)
        await tasks.sleep(2 * CHANGES_WITHIN)
        policy, binding = await client.get(f"{POLICIES}/small"), await client.get(f"{BINDINGS}/small")

        status = (await client.get(path))["status"]

        versions = [int(each["metadata"]["resourceVersion"]) for each in (policy, binding)]
        names = ("validatingadmissionpolicies/small", "validatingadmissionpolicybindings/small")
        assert [status["policies"][name] for name in names] == versions
        assert status["revisions"][VALIDATING_ADMISSION_POLICIES.text] >= max(versions)
        assert {"clusterroles.rbac.authorization.k8s.io", "pods"} < set(status["revisions"])
        assert "customresourcedefinitions.apiextensions.k8s.io" not in status["revisions"]

        await client.delete(f"{BINDINGS}/small")
        await tasks.sleep(2 * CHANGES_WITHIN)
        assert list((await client.get(path))["status"]["policies"]) == ["validatingadmissionpolicies/small"]
        await other.stop()
        assert (await client.ask("GET", path)).status == 404


async def test_the_record_of_a_write_names_the_policies_that_changed_it(sim):
    async with a_journaled_server(sim) as served:
        policy = a_mutating_policy("label")
        stored = await served.admin.create(MUTATING_ADMISSION_POLICIES, policy)
        await served.admin.create(MUTATING_ADMISSION_POLICY_BINDINGS, a_mutating_binding("label"))
        await served.admin.create(CONFIG_MAPS, a_map(), "default")
        await served.admin.create(CONFIG_MAPS, a_map("left-alone", labels={"team": "a"}), "default")
        await served.journal.extent()
        records = {each.name: each for each in (await served.journal.writes(kind="configmaps")).records}
        extent = await served.journal.extent()
        lookup = JournalLookup(served.journal, extent.recorded[-1][1])
        [version] = await lookup.versions("configmaps", "default", "c")
        blamed = await blame(await Moment.now(served.journal), CONFIG_MAPS, "c", "default")

    metadata = stored["metadata"]
    revision = int(metadata["resourceVersion"])
    named = AppliedPolicy(MUTATING_ADMISSION_POLICIES.text, "label", metadata["uid"], revision)
    assert (records["c"].mutations, records["left-alone"].mutations) == ((named,), ())
    assert (version.who.user, version.who.mutations) == ("admin", (f"label@{revision}",))
    [line] = lines_of_version(version)
    assert line.details == (f"changed by policy: label@{revision}",)
    assert {each.field for each in blamed.fields if each.who.mutations} == {"metadata.labels[team]"}
    assert len(blamed.fields) > 3


async def test_a_refusal_of_what_a_policy_made_invalid_names_the_policy(sim):
    async with a_journaled_server(sim) as served:
        policy = a_mutating_policy("broken", "Object{metadata: Object.metadata{labels: {'not a label': 'x'}}}")
        stored = await served.admin.create(MUTATING_ADMISSION_POLICIES, policy)
        await served.admin.create(MUTATING_ADMISSION_POLICY_BINDINGS, a_mutating_binding("broken"))
        with pytest.raises(ApiError) as refused:
            await served.admin.create(CONFIG_MAPS, a_map(), "default")
        await served.journal.extent()
        [record] = (await served.journal.decisions(kind="configmaps")).records

    assert refused.value.cause == ADMISSION_POLICY_VIOLATED
    revision = int(stored["metadata"]["resourceVersion"])
    assert [(each.name, each.revision) for each in record.policies] == [("broken", revision)]
    assert f"changed by policy: broken@{revision}" in record.reasons
