"""A Job and its pods as plain objects, and a server that does what decisions say: with no waiting, and crashes at will.

Each write can be the last one that the controller gets to. What is true is noted by the model itself: how a pod stood
when it was let go. In the end the job must say the same.
"""

import copy
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from mainstay.api import pod_state, times
from mainstay.api.annotations import JOB_TRACKING
from mainstay.api.kind_names import JOBS, PODS
from mainstay.api.merge_patch import merge_patch
from mainstay.api.object_key import ObjectKey
from mainstay.controllers.job.controller import Jobs
from mainstay.controllers.job.indexes import read_index
from mainstay.controllers.job.pods import is_tracked, is_withdrawn
from mainstay.loop.conditions import with_conditions
from mainstay.loop.decision import Action, Create, Decision, Delete, Patch, WakeAt
from mainstay.loop.view import View
from tests.controllers.objects import NOON, Object

KEY = ObjectKey("default", "work")
CONTROLLER = Jobs()
ROUNDS_MAX = 400


def a_job(name: str = "work", *, uid: str = "", status: Object | None = None, **spec: Any) -> Object:
    """A job as the server has it. Its uid is its name."""
    uid = uid or name
    labels = {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name}
    template = {"containers": [{"name": "main", "image": "work:1"}], "restartPolicy": "Never"}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": uid, "generation": 1, "resourceVersion": "1"},
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 6,
            "completionMode": "NonIndexed",
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
            "template": {"metadata": {"labels": labels}, "spec": template},
            **spec,
        },
        "status": status or {},
    }


def a_view(jobs: Iterable[Object], pods: Iterable[Object], now: datetime = NOON) -> View:
    indexes = {JOBS: CONTROLLER.indexes, PODS: CONTROLLER.reads[0].indexes}
    return View.of({JOBS: jobs, PODS: pods}, now, indexes=indexes)


class Crashed(Exception):
    pass


class Model:
    def __init__(self, job: Object) -> None:
        self.job: Object | None = copy.deepcopy(job)
        self.pods: dict[str, Object] = {}
        self.now = NOON
        self.made: list[Object] = []
        self.outcomes: dict[str, str] = {}
        """By uid: how a pod stood when it was let go, if it was to be counted."""
        self.writes = 0
        self.crash_at: int | None = None
        """The number of the write that does not come about, nor what should follow it."""
        self.crashes_after = False
        """It does come about, and only then is it over."""
        self._revision = 1

    # The controller.

    def round(self) -> bool:
        """One decision and what it leads to. Whether there is a reason for another one at this time.

        A change of a pod is one; the controller's own write of a status is not.
        """
        jobs = [] if self.job is None else [self.job]
        view = a_view(copy.deepcopy(jobs), copy.deepcopy(list(self.pods.values())), self.now)
        decision = CONTROLLER.decide(view, KEY, None)
        try:
            for action in decision.actions:
                self._write(lambda action=action: self._do(action))
            self._write_status(decision)
        except Crashed:
            return True
        is_due = isinstance(decision.result, WakeAt) and decision.result.at <= self.now
        return bool(decision.actions) or is_due

    def settle(self) -> None:
        """Until there is nothing to do at this time."""
        for _ in range(ROUNDS_MAX):
            if not self.round():
                return
        raise AssertionError(f"it does not come to rest: {self.job}")

    def _write(self, do: Any) -> None:
        self.writes += 1
        if self.crash_at == self.writes and not self.crashes_after:
            raise Crashed
        do()
        if self.crash_at == self.writes:
            raise Crashed

    def _do(self, action: Action) -> None:
        match action:
            case Create(object=made):
                self._create(made)
            case Patch(key=key, uid=uid, body=body, resource_version=version):
                pod = self.pods.get(key.name)
                assert pod is not None
                assert pod["metadata"]["uid"] == uid
                assert version == pod["metadata"]["resourceVersion"], "not the version that was looked at"
                self._change(pod, body)
            case Delete(kind=kind, key=key, uid=uid):
                if kind == JOBS:
                    self.job = None
                elif (pod := self.pods.get(key.name)) is not None and pod["metadata"]["uid"] == uid:
                    self.leave(pod)
            case _:
                raise AssertionError(action)

    def _create(self, made: Object) -> None:
        name = made["metadata"]["name"]
        if name in self.pods:
            return
        assert self.job is not None
        pod = copy.deepcopy(made)
        self._revision += 1
        stamp = times.format_time(self.now)
        pod["metadata"].update(uid=f"u{self._revision}", resourceVersion=str(self._revision), creationTimestamp=stamp)
        pod["spec"] = {**pod["spec"], "nodeName": "n1"}
        pod["status"] = {"phase": "Pending"}
        self.pods[name] = pod
        self.made.append(pod)
        spec = self.job["spec"]
        assert len(self.active()) <= spec["parallelism"]
        assert not spec.get("suspend")
        if spec.get("completions") is not None:
            assert len(self.active()) <= spec["completions"] - self.count("succeeded")
        if spec["completionMode"] == "Indexed":
            indexes = [read_index(each) for each in self.active()]
            assert len(set(indexes)) == len(indexes)

    def _change(self, pod: Object, body: Object) -> None:
        was_tracked = is_tracked(pod)
        before = copy.deepcopy(pod)
        changed: Object = merge_patch(pod, body)
        self._revision += 1
        changed["metadata"]["resourceVersion"] = str(self._revision)
        self.pods[pod["metadata"]["name"]] = changed
        if was_tracked and not is_tracked(changed):
            self._let_go(before, changed)
        self._remove_if_over(changed)

    def _let_go(self, before: Object, after: Object) -> None:
        if self.job is None or pod_state.is_leaving(self.job) or is_withdrawn(after):
            return
        phase = before["status"]["phase"]
        is_left = pod_state.is_leaving(before)
        assert phase in pod_state.OVER or is_left, "it was let go while it runs"
        self.outcomes[before["metadata"]["uid"]] = "succeeded" if phase == "Succeeded" else "failed"

    def _write_status(self, decision: Decision) -> None:
        if self.job is None:
            return
        before = self.job.get("status") or {}
        wanted = with_conditions({**before, **decision.status}, decision.conditions, None, self.now)
        changed = {name: value for name, value in wanted.items() if before.get(name) != value}
        if changed:
            self._write(lambda: self._store_status(changed))

    def _store_status(self, changed: Object) -> None:
        assert self.job is not None
        self._revision += 1
        merged: Object = merge_patch(self.job, {"status": changed})
        merged["metadata"]["resourceVersion"] = str(self._revision)
        self.job = merged

    # What happens outside.

    def active(self) -> list[Object]:
        return [pod for pod in self.pods.values() if pod_state.is_active(pod) and not is_withdrawn(pod)]

    def living(self) -> list[Object]:
        return [pod for pod in self.pods.values() if not pod_state.is_over(pod)]

    def end(self, pod: Object, phase: str, exit_code: int = 0) -> None:
        terminated = {"exitCode": exit_code, "finishedAt": times.format_time(self.now)}
        statuses = [{"name": "main", "state": {"terminated": terminated}}]
        self._change(pod, {"status": {"phase": phase, "containerStatuses": statuses}})

    def leave(self, pod: Object) -> None:
        if pod_state.is_leaving(pod):
            return
        at = times.format_time(self.now + timedelta(seconds=30))
        self._change(pod, {"metadata": {"deletionTimestamp": at, "deletionGracePeriodSeconds": 30}})

    def _remove_if_over(self, pod: Object) -> None:
        if pod_state.is_leaving(pod) and pod_state.is_over(pod) and not pod["metadata"].get("finalizers"):
            self.pods.pop(pod["metadata"]["name"], None)

    def change(self, **spec: Any) -> None:
        assert self.job is not None
        self._revision += 1
        self.job = {**self.job, "spec": {**self.job["spec"], **spec}}
        self.job["metadata"]["resourceVersion"] = str(self._revision)

    # What is true, and what is said.

    def count(self, outcome: str) -> int:
        """Of those that were let go."""
        if self.job is not None and self.job["spec"]["completionMode"] == "Indexed" and outcome == "succeeded":
            wanted = self.job["spec"]["completions"]
            found = {
                read_index(pod)
                for pod in self.made
                if self.outcomes.get(pod["metadata"]["uid"]) == outcome and (read_index(pod) or 0) < wanted
            }
            return len(found)
        return sum(1 for each in self.outcomes.values() if each == outcome)

    @property
    def status(self) -> Object:
        assert self.job is not None
        return dict(self.job.get("status") or {})

    def conditions(self) -> dict[str, str]:
        """Those that are true, and their reasons."""
        return {
            each["type"]: each["reason"] for each in self.status.get("conditions") or () if each["status"] == "True"
        }

    def check_counts(self) -> None:
        """All that have ended are counted once."""
        assert not any(self.status.get("uncountedTerminatedPods") or {}), self.status
        for outcome in ("succeeded", "failed"):
            assert (self.status.get(outcome) or 0) == self.count(outcome), (outcome, self.status, self.outcomes)

    def run_to_the_end(self, phase: str = "Succeeded", exit_code: int = 0) -> None:
        """Everything that runs ends like this, until the job is over."""
        for _ in range(ROUNDS_MAX):
            self.settle()
            if self.job is None or {"Complete", "Failed"} & self.conditions().keys():
                return
            for pod in self.living():
                self.end(pod, "Failed" if pod_state.is_leaving(pod) else phase, exit_code)
            self.now += timedelta(minutes=1)
        raise AssertionError(f"it does not end: {self.job}")

    def held(self) -> list[str]:
        return [name for name, pod in self.pods.items() if JOB_TRACKING in (pod["metadata"].get("finalizers") or ())]
