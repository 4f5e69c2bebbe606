"""ResourceQuotas: what is refused and in which words, and that what they say is used is what is there."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.kinds import BUILTIN
from mainstay.api.pod_resources import count_requests
from mainstay.api.quantity import parse
from mainstay.api.quota_usage import CLAIMS, SERVICES, count_usage, is_about, parse_terms
from mainstay.api.quota_usage import PODS as POD
from mainstay.server.quota.tally import QuotaTally, changed, find_exceeded, parse_limit
from mainstay.store import open_memory
from tests.server.quota import quota_cases
from tests.server.quota.quota_cases import DELAYS, LOSSES, QUOTAS, a_quota, require_exact
from tests.server.world import CONFIGMAPS, PODS, a_configmap, a_pod, a_server
from tests.twins.quotas import TWINS, Twin

pytestmark = pytest.mark.slow

SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(4, 15))]


def needing(
    requests: dict[str, str] | None = None, limits: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    container = {"name": "c", "image": "x:1", "resources": {"requests": requests or {}, "limits": limits or {}}}
    return {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [container], **spec}}


def shown(amounts: Any) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


# What an object takes.


def test_a_pod_takes_what_its_containers_ask_for_by_all_the_names_that_quotas_have_for_it():
    pod = needing({"cpu": "500m", "memory": "1Gi", "example.com/gpu": "2"}, {"cpu": "1", "memory": "2Gi"})

    assert shown(count_usage(POD, pod)) == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "500m",
        "requests.cpu": "500m",
        "memory": "1Gi",
        "requests.memory": "1Gi",
        "requests.example.com/gpu": "2",
        "limits.cpu": "1",
        "limits.memory": "2Gi",
    }


def test_a_pod_that_has_ended_is_only_counted():
    pod = {**needing({"cpu": "1"}), "status": {"phase": "Succeeded"}}

    assert shown(count_usage(POD, pod)) == {"count/pods": "1"}


@pytest.mark.parametrize(
    ("spec", "ports", "balancers"),
    [
        ({"type": "ClusterIP"}, "0", "0"),
        ({"type": "NodePort"}, "2", "0"),
        ({"type": "LoadBalancer"}, "2", "1"),
        ({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}, "1", "1"),
    ],
)
def test_a_service_takes_node_ports_and_load_balancers(spec, ports, balancers):
    service = {"spec": {"ports": [{"port": 80, "nodePort": 30_080}, {"port": 81}], **spec}}

    assert shown(count_usage(SERVICES, service)) == {
        "count/services": "1",
        "services": "1",
        "services.nodeports": ports,
        "services.loadbalancers": balancers,
    }


def test_a_claim_takes_storage_of_its_class():
    claim = {
        "metadata": {},
        "spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "10Gi"}}},
        "status": {"allocatedResources": {"storage": "12Gi"}},
    }

    assert shown(count_usage(CLAIMS, claim)) == {
        "count/persistentvolumeclaims": "1",
        "persistentvolumeclaims": "1",
        "requests.storage": "12Gi",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
        "gold.storageclass.storage.k8s.io/requests.storage": "12Gi",
    }


@pytest.mark.parametrize(
    ("scope", "pod", "is_meant"),
    [
        ("BestEffort", needing(), True),
        ("BestEffort", needing({"cpu": "1"}), False),
        ("NotBestEffort", needing({"cpu": "1"}), True),
        ("Terminating", needing(activeDeadlineSeconds=5), True),
        ("Terminating", needing(), False),
        ("NotTerminating", needing(), True),
        ("PriorityClass", needing(priorityClassName="high"), True),
        ("PriorityClass", needing(), False),
        ("CrossNamespacePodAffinity", needing(), False),
        (
            "CrossNamespacePodAffinity",
            needing(
                affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaces": ["x"]}]}}
            ),
            True,
        ),
    ],
)
def test_a_quota_with_a_scope_is_about_some_pods_only(scope, pod, is_meant):
    assert is_about(parse_terms(a_quota("q", [scope])), POD, pod) is is_meant
    assert not is_about(parse_terms(a_quota("q", [scope])), SERVICES, {"metadata": {}, "spec": {}})


@pytest.mark.parametrize(
    ("operator", "values", "meant"),
    [
        ("In", ["high"], ["high"]),
        ("NotIn", ["high"], ["low", None]),
        ("Exists", [], ["high", "low"]),
        ("DoesNotExist", [], [None]),
    ],
)
def test_a_scope_may_name_priority_classes(operator, values, meant):
    wanted = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    quota = {"metadata": {}, "spec": {"scopeSelector": {"matchExpressions": [wanted]}}}

    pods = {name: needing(priorityClassName=name) for name in ("high", "low", None)}

    assert [name for name in pods if is_about(parse_terms(quota), POD, pods[name])] == meant


AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "example.com/gpu"]),
    st.sampled_from(["0", "1", "3", "100m", "1500m", "1Gi", "500M", "7"]),
    max_size=3,
)
CONTAINERS = st.builds(
    lambda requests, is_sidecar: {
        "name": "c",
        "resources": {"requests": requests},
        **({"restartPolicy": "Always"} if is_sidecar else {}),
    },
    AMOUNTS,
    st.booleans(),
)


@given(st.lists(CONTAINERS, max_size=3), st.lists(CONTAINERS, max_size=4), AMOUNTS, AMOUNTS)
def test_a_quota_and_a_node_are_of_one_opinion_about_what_a_pod_needs(containers, init, overhead, whole):
    spec = {"containers": containers, "initContainers": init, "overhead": overhead, "resources": {"requests": whole}}
    pod = {"metadata": {}, "spec": spec}

    used, needed = count_usage(POD, pod), count_requests(pod)

    for name in ("cpu", "memory", "example.com/gpu"):
        asked = used.get(f"requests.{name}")
        in_units = 0 if asked is None else asked.to_milli() if name == "cpu" else asked.to_int()
        assert in_units == needed.get(name, 0)


# What is refused.


def a_tally(*quotas: dict[str, Any]) -> QuotaTally:
    return QuotaTally({each["metadata"]["name"]: parse_limit({**each, "metadata": {"uid": "u"}}) for each in quotas})


def test_a_refusal_names_the_quota_and_all_that_is_exceeded():
    tally = changed(
        a_tally(a_quota("team", pods="1", requests__cpu="2", requests__memory="10Gi")),
        POD,
        needing({"cpu": "1500m", "memory": "1Gi"}),
        None,
    )

    refused = find_exceeded(tally, POD, needing({"cpu": "1", "memory": "1Gi"}), None)

    assert refused is not None
    assert refused.message == (
        "exceeded quota: team, requested: pods=1,requests.cpu=1, used: pods=1,requests.cpu=1500m, "
        "limited: pods=1,requests.cpu=2"
    )


def test_a_quota_over_compute_wants_every_container_to_say_what_it_needs():
    pod = needing({"cpu": "1"})
    pod["spec"]["containers"].append({"name": "b", "image": "x:1"})

    refused = find_exceeded(a_tally(a_quota("team", requests__cpu="9", limits__memory="9Gi")), POD, pod, None)

    assert refused is not None
    assert refused.message == "failed quota: team: must specify limits.memory for: b,c; requests.cpu for: b"


@pytest.mark.parametrize(
    ("scope", "used"),
    [("NotTerminating", ["1", "0", "0"]), ("Terminating", ["0", "1", "0"])],
)
def test_a_pod_that_gets_a_deadline_later_changes_its_scope(scope: str, used: list[str]):
    pod = needing({"cpu": "1"})
    limited = needing({"cpu": "1"}, activeDeadlineSeconds=60)
    tally = a_tally(a_quota("scoped", [scope], pods="9"))

    seen = []
    for new, old in ((pod, None), (limited, pod), (None, limited)):
        tally = changed(tally, POD, new, old)
        seen.append(tally.quotas["scoped"].used["pods"])

    assert seen == used


def test_a_pod_may_not_enter_a_scope_that_is_used_up():
    limited = needing({"cpu": "1"}, activeDeadlineSeconds=60)
    tally = changed(a_tally(a_quota("scoped", ["Terminating"], pods="1")), POD, limited, None)

    refused = find_exceeded(tally, POD, limited, needing({"cpu": "1"}))

    assert refused is not None
    assert refused.message == "exceeded quota: scoped, requested: pods=1, used: pods=1, limited: pods=1"


@given(st.lists(st.tuples(st.sampled_from(["make", "end", "remove"]), st.integers(0, 5), AMOUNTS), max_size=30))
def test_what_is_used_is_always_the_sum_of_what_is_there(steps):
    tally = a_tally(
        a_quota("all", pods="99", requests__cpu="99", count_of_pods="99"), a_quota("small", ["BestEffort"], pods="9")
    )
    there: dict[int, dict[str, Any]] = {}
    for step, number, amounts in steps:
        old = there.pop(number, None)
        if step == "make" and old is None:
            there[number] = needing(amounts)
        elif step == "end" and old is not None:
            there[number] = {**old, "status": {"phase": "Failed"}}
        tally = changed(tally, POD, there.get(number), old)

    for name, quota in tally.quotas.items():
        objects = [pod for pod in there.values() if is_about(quota.terms, POD, pod)]
        for resource, used in quota.used.items():
            total = sum(count_usage(POD, pod)[resource].nano for pod in objects if resource in count_usage(POD, pod))
            assert parse(used).nano == total, (name, resource)


# Through the API.


async def test_a_pod_too_many_is_refused_in_the_words_of_kubernetes(sim):
    async with a_server(sim) as client:
        await client.create(QUOTAS, a_quota("team", pods="1"))
        await client.create(PODS, a_pod("one"))

        answer = await client.ask("POST", PODS, a_pod("two"))

        text = "exceeded quota: team, requested: pods=1, used: pods=1, limited: pods=1"
        assert answer.status == 403
        assert answer.body["message"] == f'pods "two" is forbidden: {text}'
        assert answer.body["details"] == {
            "name": "two",
            "kind": "pods",
            "causes": [
                {"reason": "QuotaExceeded", "message": text, "field": "resourcequotas/team"},
                {"reason": "QuotaRequested", "message": "1", "field": "pods"},
            ],
        }


async def test_a_dry_run_is_refused_as_the_write_would_be_and_takes_nothing(sim):
    async with a_server(sim) as client:
        await client.create(QUOTAS, a_quota("q", configmaps="1"))

        for _ in range(3):
            assert (await client.ask("POST", f"{CONFIGMAPS}?dryRun=All", a_configmap("a"))).status == 201
        await client.create(CONFIGMAPS, a_configmap("a"))
        refused = await client.ask("POST", f"{CONFIGMAPS}?dryRun=All", a_configmap("b"))

        assert (refused.status, refused.body["reason"]) == (403, "Forbidden")
        assert "exceeded quota: q" in refused.body["message"]
        assert (await client.get(f"{QUOTAS}/q"))["status"]["used"] == {"configmaps": "1"}


async def test_the_status_of_a_quota_changes_with_the_object_it_counts(sim):
    async with a_server(sim) as client:
        made = await client.create(QUOTAS, a_quota("team", pods="3", configmaps="3", count_of_deployments__apps="3"))
        assert made["status"] == {
            "hard": made["spec"]["hard"],
            "used": {"pods": "0", "configmaps": "0", "count/deployments.apps": "0"},
        }

        pod = await client.create(PODS, a_pod("one"))
        await client.create(CONFIGMAPS, a_configmap("c"))

        status = (await client.get(f"{QUOTAS}/team"))["status"]
        assert status["used"] == {"pods": "1", "configmaps": "1", "count/deployments.apps": "0"}
        async with client.watch(f"{QUOTAS}?watch=1&resourceVersion={made['metadata']['resourceVersion']}") as events:
            first = await events.next()
            assert first["object"]["metadata"]["resourceVersion"] == pod["metadata"]["resourceVersion"]


async def test_what_is_removed_or_has_ended_is_given_back(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await client.create(QUOTAS, a_quota("team", pods="2", count_of_pods="2"))
        await client.create(PODS, a_pod("one"))
        await client.create(PODS, a_pod("two"))

        await client.patch(f"{PODS}/one/status", {"status": {"phase": "Succeeded"}})
        assert (await client.get(f"{QUOTAS}/team"))["status"]["used"] == {"pods": "1", "count/pods": "2"}
        await client.delete(f"{PODS}/two")
        assert (await client.get(f"{QUOTAS}/team"))["status"]["used"] == {"pods": "0", "count/pods": "1"}
        await require_exact(store)


async def test_a_quota_that_comes_later_counts_what_is_there(sim):
    async with a_server(sim) as client:
        for number in range(3):
            await client.create(PODS, a_pod(f"p-{number}"))
        made = await client.create(QUOTAS, a_quota("team", pods="2"))

        assert made["status"]["used"] == {"pods": "3"}
        assert (await client.ask("POST", PODS, a_pod("more"))).status == 403

        changed = await client.patch(f"{QUOTAS}/team", {"spec": {"hard": {"pods": "4", "count/pods": "9"}}})
        assert changed["status"] == {"hard": {"pods": "4", "count/pods": "9"}, "used": {"pods": "3", "count/pods": "3"}}
        assert (await client.ask("POST", PODS, a_pod("more"))).status == 201


async def test_without_its_quota_a_namespace_is_free_again_and_nothing_is_left_behind(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await client.create(QUOTAS, a_quota("team", pods="0"))
        assert (await client.ask("POST", PODS, a_pod("one"))).status == 403

        await client.delete(f"{QUOTAS}/team")

        assert (await client.ask("POST", PODS, a_pod("one"))).status == 201
        assert (await store.range("~quota/")).entries == []


async def test_all_quotas_of_a_namespace_must_allow_and_all_statuses_follow(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await client.create(QUOTAS, a_quota("large", pods="5"))
        await client.create(QUOTAS, a_quota("small", ["BestEffort"], pods="1"))
        await client.create(PODS, a_pod("one"))

        answer = await client.ask("POST", PODS, a_pod("two"))
        assert "exceeded quota: small" in answer.body["message"]

        await asyncio.sleep(1)
        used = [(await client.get(f"{QUOTAS}/{name}"))["status"]["used"] for name in ("large", "small")]
        assert used == [{"pods": "1"}, {"pods": "1"}]
        await require_exact(store)


async def test_only_the_server_writes_what_is_used(sim):
    async with a_server(sim) as client:
        await client.create(QUOTAS, a_quota("team", pods="1"))
        await client.patch(f"{QUOTAS}/team/status", {"status": {"used": {"pods": "-5"}}})

        assert (await client.get(f"{QUOTAS}/team"))["status"]["used"] == {"pods": "0"}


async def test_quotas_can_be_limited_themselves(sim):
    async with a_server(sim) as client:
        made = await client.create(QUOTAS, a_quota("first", resourcequotas="1"))
        assert made["status"]["used"] == {"resourcequotas": "1"}

        assert (await client.ask("POST", QUOTAS, a_quota("second", pods="1"))).status == 403


async def test_a_hundred_at_once_get_as_many_as_there_are(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await client.create(QUOTAS, a_quota("team", pods="40"))

        answers = await asyncio.gather(*(client.ask("POST", PODS, a_pod(f"p-{n}")) for n in range(100)))

        assert sorted(answer.status for answer in answers) == [201] * 40 + [403] * 60
        await require_exact(store)


# With two servers, and with losses.


async def test_two_servers_do_not_overshoot(sim):
    await quota_cases.two_servers_fill(sim)


async def test_a_quota_that_comes_while_two_servers_are_writing_counts_right(sim):
    await quota_cases.two_servers_race(sim)


@pytest.mark.parametrize("seed", SEEDS)
def test_lost_and_late_answers_make_no_difference(seed):
    for case in (quota_cases.two_servers_fill, quota_cases.two_servers_race):
        quota_cases.run(case, seed, LOSSES)
        quota_cases.run(case, seed, DELAYS)


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
def test_a_planted_bug_is_found(twin: Twin, monkeypatch: pytest.MonkeyPatch):
    twin(monkeypatch)
    for seed in range(30):
        for case in (quota_cases.two_servers_fill, quota_cases.two_servers_race):
            try:
                quota_cases.run(case, seed, DELAYS)
            except quota_cases.Broken:
                return
    pytest.fail("the planted bug was not found")


def test_every_kind_of_kubernetes_can_be_counted():
    for kind in BUILTIN:
        if kind.namespaced and kind.plural not in ("pods", "services", "persistentvolumeclaims", "events"):
            assert len(count_usage((kind.group, kind.plural), {"metadata": {}})) >= 1
