"""A pod on a machine where everything happens in any order: what is decided keeps its promises at every step.

The machine here is the smallest one that can run a plan: containers start, end, are probed; the agent forgets; writes
of the status get lost. After each step everything that must always hold is checked, and at the end the machine behaves,
and the pod has to arrive where it should.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mainstay.agent.pod.facts import (
    ContainerWaiting,
    FailedProbe,
    HookDone,
    HookFailed,
    HookRunning,
    HookState,
    PodFacts,
    ProbeVerdicts,
)
from mainstay.agent.pod.lifecycle import decide
from mainstay.agent.pod.plan import End, MakeVolumes, PodPlan, Prune, RemovePod, RunHook, StartContainer
from mainstay.agent.pod.status_patch import status_patch
from mainstay.agent.runner import ContainerId, Exited, Running, Starting, State
from mainstay.api.annotations import AT_MOST_ONE, is_at_most_one
from mainstay.api.kind import Object
from mainstay.api.kinds.pods import POD
from mainstay.api.strategic_merge import strategic_merge
from tests.agent.pods_and_facts import NOON, UID, a_pod, a_sidecar, row, with_status
from tests.api.builders import a_container

pytestmark = pytest.mark.slow

PROBE = {"exec": {"command": ["true"]}}
TERMINAL = ("Succeeded", "Failed")

probes = st.fixed_dictionaries(
    {},
    optional={"startupProbe": st.just(PROBE), "readinessProbe": st.just(PROBE), "livenessProbe": st.just(PROBE)},
)
hooks = st.fixed_dictionaries(
    {}, optional={"lifecycle": st.sampled_from([{"postStart": PROBE}, {"preStop": PROBE}, {}])}
)
policies = st.sampled_from(["Always", "OnFailure", "Never"])


@st.composite
def pods(draw: st.DrawFn) -> Object:
    init = []
    for number in range(draw(st.integers(0, 3))):
        if draw(st.booleans()):
            init.append(a_sidecar(f"s{number}", **draw(probes), **draw(hooks)))
        else:
            init.append(a_container(f"i{number}"))
    main = []
    for number in range(draw(st.integers(1, 2))):
        fields: dict[str, Any] = {**draw(probes), **draw(hooks)}
        main.append(a_container(f"m{number}", **fields))
    deadline = draw(st.sampled_from([None, None, None, 60, 900]))
    spec: dict[str, Any] = {"activeDeadlineSeconds": deadline} if deadline else {}
    annotations = {AT_MOST_ONE: "true"} if draw(st.booleans()) else {}
    return a_pod(*main, init=tuple(init), restartPolicy=draw(policies), annotations=annotations, **spec)


class APodOnAMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.pod: Object = {}
        self.now: datetime = NOON
        self.facts = PodFacts(address="127.64.0.2", host_address="10.0.0.1", accepted_at=NOON)
        self.states: dict[ContainerId, State] = {}
        self.numbers: dict[str, int] = {}
        """By container: the last number that was begun. The runner may forget; this does not."""
        self.succeeded: set[str] = set()
        self.has_started: set[str] = set()
        self.ending: set[ContainerId] = set()
        self.is_removed = False

    @initialize(pod=pods(), rounds=st.integers(0, 3))
    def begin(self, pod: Object, rounds: int) -> None:
        self.pod = pod
        self.look(is_stored=True, rounds=rounds)

    # What the agent does.

    def decide(self) -> PodPlan:
        known = dict(sorted(self.states.items()))
        return decide(self.pod, replace(self.facts, instances=known), self.now)

    @rule(is_stored=st.booleans(), rounds=st.integers(1, 3))
    def look(self, is_stored: bool, rounds: int) -> None:
        for _ in range(rounds):
            plan = self.decide()
            if is_stored:
                self.store(plan)
            for step in plan.steps:
                self.act(step)

    def store(self, plan: PodPlan) -> None:
        patch = status_patch(self.pod["status"], plan.status)
        if patch is not None:
            self.pod = strategic_merge(self.pod, {"status": patch}, POD.message)
        assert self.pod["status"] == plan.status
        assert status_patch(self.pod["status"], plan.status) is None

    def act(self, step: object) -> None:
        match step:
            case MakeVolumes():
                self.facts = replace(self.facts, is_placed=True)
            case StartContainer(name, attempt):
                self.check_start(name, attempt)
                self.facts = replace(
                    self.facts, waiting={each: why for each, why in self.facts.waiting.items() if each != name}
                )
                self.states[ContainerId(UID, name, attempt)] = Starting()
                self.numbers[name] = attempt
            case RunHook(container, _):
                assert isinstance(self.states[container], Running)
                self.hook(container, HookRunning())
            case End(container, grace, _, _):
                assert not isinstance(self.states[container], Exited)
                assert grace > timedelta(0)
                self.ending.add(container)
            case Prune(name, keep):
                old = [each for each in sorted(self.states) if each.name == name and self.is_ended(each)]
                assert len(old) > keep
                for each in old[:-keep]:
                    del self.states[each]
            case RemovePod():
                assert "deletionTimestamp" in self.pod["metadata"]
                assert not self.live()
                assert self.pod["status"]["phase"] in TERMINAL
                self.is_removed = True

    def check_start(self, name: str, attempt: int) -> None:
        assert attempt == self.numbers.get(name, -1) + 1
        assert not any(each.name == name for each in self.live()), "two attempts of one container at once"
        assert "deletionTimestamp" not in self.pod["metadata"]
        assert self.pod["status"]["phase"] not in TERMINAL
        assert self.facts.is_placed
        assert self.facts.is_lease_held or not is_at_most_one(self.pod)
        init = self.pod["spec"].get("initContainers") or []
        position = next((number for number, each in enumerate(init) if each["name"] == name), len(init))
        for before in init[:position]:
            is_sidecar = before.get("restartPolicy") == "Always"
            assert before["name"] in (self.has_started if is_sidecar else self.succeeded), f"{name} out of order"
        if position < len(init) and init[position].get("restartPolicy") != "Always":
            mains = [each["name"] for each in self.pod["spec"]["containers"]]
            assert not any(each in self.numbers for each in mains), "an init container after a main one"

    def hook(self, container: ContainerId, state: HookState) -> None:
        self.facts = replace(self.facts, hooks={**self.facts.hooks, container: state})

    # What the machine does.

    def live(self) -> list[ContainerId]:
        return [each for each in sorted(self.states) if not self.is_ended(each)]

    def is_ended(self, container: ContainerId) -> bool:
        return isinstance(self.states[container], Exited)

    def spec_of(self, container: ContainerId) -> Object:
        everyone = [*(self.pod["spec"].get("initContainers") or ()), *self.pod["spec"]["containers"]]
        return next(each for each in everyone if each["name"] == container.name)

    def runs(self, container: ContainerId) -> None:
        self.states[container] = Running(self.now)
        self.note_started(container)

    def note_started(self, container: ContainerId) -> None:
        spec, verdicts = self.spec_of(container), self.facts.probes.get(container)
        is_hook_done = "postStart" not in (spec.get("lifecycle") or {}) or isinstance(
            self.facts.hooks.get(container), HookDone
        )
        if is_hook_done and ("startupProbe" not in spec or (verdicts is not None and verdicts.is_started)):
            self.has_started.add(container.name)

    def ends(self, container: ContainerId, code: int) -> None:
        state = self.states[container]
        began = state.started_at if isinstance(state, Running) else self.now
        self.states[container] = Exited(code=code, started_at=began, finished_at=self.now)
        if code == 0:
            self.succeeded.add(container.name)

    @precondition(lambda self: self.live())
    @rule(data=st.data(), code=st.sampled_from([0, 0, 1, 137]), is_stored=st.booleans(), rounds=st.integers(0, 2))
    def something_happens_to_a_container(self, data: st.DataObject, code: int, is_stored: bool, rounds: int) -> None:
        container = data.draw(st.sampled_from(self.live()))
        if isinstance(self.states[container], Starting) and code == 0:
            self.runs(container)
        else:
            self.ends(container, code)
        self.look(is_stored=is_stored, rounds=rounds)

    @precondition(lambda self: self.live())
    @rule(
        data=st.data(),
        is_started=st.booleans(),
        is_ready=st.booleans(),
        failed=st.sampled_from([None, None, FailedProbe.LIVENESS, FailedProbe.STARTUP]),
    )
    def a_container_is_probed(
        self, data: st.DataObject, is_started: bool, is_ready: bool, failed: FailedProbe | None
    ) -> None:
        container = data.draw(st.sampled_from(self.live()))
        if isinstance(self.states[container], Running):
            verdicts = ProbeVerdicts(is_started=is_started, is_ready=is_ready, failed=failed)
            self.facts = replace(self.facts, probes={**self.facts.probes, container: verdicts})
            self.note_started(container)

    @precondition(lambda self: any(isinstance(each, HookRunning) for each in self.facts.hooks.values()))
    @rule(data=st.data(), succeeds=st.booleans())
    def a_hook_ends(self, data: st.DataObject, succeeds: bool) -> None:
        begun = [each for each, state in sorted(self.facts.hooks.items()) if isinstance(state, HookRunning)]
        container = data.draw(st.sampled_from(begun))
        self.hook(container, HookDone() if succeeds else HookFailed("no"))
        if container in self.states:
            self.note_started(container)

    @precondition(lambda self: self.pod)
    @rule(data=st.data())
    def a_container_cannot_be_begun(self, data: st.DataObject) -> None:
        everyone = [*(self.pod["spec"].get("initContainers") or ()), *self.pod["spec"]["containers"]]
        name = data.draw(st.sampled_from([each["name"] for each in everyone]))
        why = ContainerWaiting("CreateContainerConfigError", "no", self.now + timedelta(seconds=10))
        self.facts = replace(self.facts, waiting={**self.facts.waiting, name: why})

    @rule(number=st.sampled_from([1, 5, 20, 100, 700]))
    def time_passes(self, number: int) -> None:
        self.now += timedelta(seconds=number)

    @rule(is_held=st.booleans())
    def the_lease_comes_and_goes(self, is_held: bool) -> None:
        self.facts = replace(self.facts, is_lease_held=is_held)

    @rule()
    def the_agent_is_started_again(self) -> None:
        self.facts = PodFacts(address="127.64.0.2", host_address="10.0.0.1", accepted_at=self.now)

    @rule()
    def the_machine_is_rebooted(self) -> None:
        for container in self.live():
            self.ends(container, 137)
        self.the_agent_is_started_again()

    @precondition(lambda self: self.numbers and self.is_all_reported())
    @rule()
    def the_runner_loses_everything(self) -> None:
        self.states = {}
        self.the_agent_is_started_again()

    def is_all_reported(self) -> bool:
        status = self.pod.get("status") or {}
        listed = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        known = {each["name"]: each.get("containerID") for each in listed}
        return all(known.get(name) == f"mainstay://{UID}/{name}/{number}" for name, number in self.numbers.items())

    @precondition(lambda self: self.states and "deletionTimestamp" not in self.pod["metadata"])
    @rule(seconds=st.sampled_from([1, 30]))
    def a_user_deletes_it(self, seconds: int) -> None:
        until = self.now + timedelta(seconds=seconds)
        deleted = {"deletionTimestamp": until.strftime("%Y-%m-%dT%H:%M:%SZ"), "deletionGracePeriodSeconds": seconds}
        self.pod = {**self.pod, "metadata": {**self.pod["metadata"], **deleted}}
        self.facts = replace(self.facts, ending_since=self.now)

    # What always holds.

    @invariant()
    def what_is_said_is_said_once(self) -> None:
        if not self.pod:
            return
        plan = self.decide()
        assert self.decide() == plan
        stored = with_status(self.pod, plan.status)
        known = replace(self.facts, instances=dict(sorted(self.states.items())))
        assert decide(stored, known, self.now).status == plan.status, "its own status changes it"
        # Nothing but time has passed, and nothing was due: nothing is said.
        later = self.now + timedelta(seconds=1)
        if plan.wake_at is None or plan.wake_at > later:
            assert decide(stored, known, later).status == plan.status, "a status changes by itself"

    @invariant()
    def the_status_makes_sense(self) -> None:
        if not self.pod:
            return
        status = self.decide().status
        before = self.pod["status"]["phase"]
        if before in TERMINAL:
            assert status["phase"] == before
        elif status["phase"] in TERMINAL:
            assert not self.live(), "called over while something runs"
        conditions = {each["type"]: each["status"] for each in status["conditions"]}
        assert len(conditions) == len(status["conditions"])
        if conditions["Ready"] == "True":
            assert conditions["ContainersReady"] == conditions["Initialized"] == "True"
            assert status["phase"] == "Running"
        ready, word, _ = row(with_status(self.pod, status))
        if word == "Running" and "deletionTimestamp" not in self.pod["metadata"]:
            assert not ready.startswith("0/") or conditions["Ready"] == "False"
        for each in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
            assert len(each["state"]) == 1
            assert each["restartCount"] <= max(0, self.numbers.get(each["name"], 0))
            assert not each["ready"] or "running" in each["state"] or each["name"].startswith("i")
        for old in self.pod["status"]["conditions"]:
            new = next(each for each in status["conditions"] if each["type"] == old["type"])
            if new["status"] == old["status"]:
                assert new["lastTransitionTime"] == old["lastTransitionTime"]

    # Where it arrives if all goes well from here on.

    def teardown(self) -> None:
        if not self.pod:
            return
        self.facts = replace(self.facts, is_lease_held=True, probes={})
        plan = self.decide()
        for _ in range(80):
            plan = self.decide()
            settled = status_patch(self.pod["status"], plan.status) is None
            self.store(plan)
            for step in plan.steps:
                self.act(step)
            settled = self.behave() and settled and not plan.steps
            if self.is_removed or (settled and plan.wake_at is None):
                break
            if settled and plan.wake_at is not None:
                self.now = plan.wake_at
        else:
            raise AssertionError(f"does not settle: {plan}")
        self.arrived()

    def behave(self) -> bool:
        """Let containers start, be found well, and end if they should. False if anything has changed."""
        changed = False
        for container in self.live():
            if container in self.ending:
                self.ends(container, 143)
            elif isinstance(self.states[container], Starting):
                self.runs(container)
            elif container.name.startswith("i"):
                self.ends(container, 0)
            elif isinstance(self.facts.hooks.get(container), HookRunning):
                self.hook(container, HookDone())
            elif container not in self.facts.probes:
                well = ProbeVerdicts(is_started=True, is_ready=True)
                self.facts = replace(self.facts, probes={**self.facts.probes, container: well})
            else:
                continue
            if container in self.states and not self.is_ended(container):
                self.note_started(container)
            changed = True
        return not changed

    def arrived(self) -> None:
        phase = self.pod["status"]["phase"]
        if "deletionTimestamp" in self.pod["metadata"]:
            assert self.is_removed
        elif phase in TERMINAL:
            assert not self.live()
        else:
            assert phase == "Running"
            policy = self.pod["spec"]["restartPolicy"]
            ready = next(each for each in self.pod["status"]["conditions"] if each["type"] == "Ready")
            # With one main container done for good and another one running, a pod is never ready again.
            assert ready["status"] == "True" or policy != "Always"


APodOnAMachine.TestCase.settings = settings(max_examples=120, stateful_step_count=40)
TestAPodOnAMachine = APodOnAMachine.TestCase
