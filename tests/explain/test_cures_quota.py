"""How much larger a ResourceQuota has to be, and what else would do."""

from typing import Any

from mainstay.explain.cures.quota import quota_cures
from mainstay.explain.cures.values import CureKind
from tests.explain.test_cures import of_deployment
from tests.scheduler.objects import a_pod

Object = dict[str, Any]


def a_quota(name: str = "team", *, used: dict[str, str], hard: dict[str, str], **spec: Any) -> Object:
    return {
        "metadata": {"namespace": "default", "name": name},
        "spec": {"hard": hard, **spec},
        "status": {"used": used},
    }


def test_pods_that_are_let_in_need_no_cure() -> None:
    assert quota_cures([a_quota(used={"pods": "1"}, hard={"pods": "3"})], a_pod(), 2) == ()


def test_a_quota_is_raised_by_what_all_of_them_need() -> None:
    quota = a_quota(used={"pods": "2", "requests.cpu": "1500m"}, hard={"pods": "3", "requests.cpu": "2"})
    raised, fewer = quota_cures([quota], a_pod(cpu="500m"), 3)
    assert raised.sentence == (
        "raise quota team: pods from 3 to 5, requests.cpu from 2 to 3: then 3 pods can be created"
    )
    assert raised.command == (
        "kubectl patch resourcequota team -n default --type=merge "
        '-p \'{"spec":{"hard":{"pods":"5","requests.cpu":"3"}}}\''
    )
    assert fewer.changes == (CureKind.SCALE_DOWN,)
    assert fewer.sentence == "request 2 fewer: the pod can be created within the quota"


def test_all_quotas_that_are_too_small_are_raised_and_others_are_left_alone() -> None:
    quotas = [
        a_quota("large", used={"pods": "1"}, hard={"pods": "9"}),
        a_quota("small", used={"pods": "1"}, hard={"pods": "1"}),
        a_quota("scoped", used={"pods": "0"}, hard={"pods": "0"}, scopes=["BestEffort"]),
        a_quota("tiny", used={"memory": "0"}, hard={"memory": "1Gi"}),
    ]
    (raised,) = quota_cures(quotas, a_pod(memory="1536Mi"))
    assert raised.sentence == (
        "raise quota small: pods from 1 to 2; raise quota tiny: memory from 1Gi to 1536Mi: then the pod can be created"
    )


def test_a_container_that_does_not_say_what_it_needs_has_to() -> None:
    quota = a_quota(used={"requests.cpu": "0"}, hard={"requests.cpu": "4"})
    (cure,) = quota_cures([quota], of_deployment(a_pod(), "web"))
    assert cure.changes == (CureKind.SAY_REQUEST,)
    assert cure.sentence == "specify requests.cpu for: main (quota team counts it)"
    assert cure.command == "kubectl set resources deployment/web -n default -c main --requests=cpu=100m"
