"""The rows of what extends the server or steers its work."""

from collections.abc import Callable
from typing import Any

from mainstay.api.kind import Object
from mainstay.api.tables.fields import condition, has, mapping, objects, text
from mainstay.api.tables.table import AGE, DEFAULT, NAME, Table, count_at, filled, of, table, text_at, whole_at
from mainstay.api.tables.texts import NONE, UNSET, selector, shortened

_SHOWN_MAX = 3


def _service(api_service: Object) -> str:
    if not has(api_service, "spec.service"):
        return "Local"
    return f"{text(api_service, 'spec.service.namespace')}/{text(api_service, 'spec.service.name')}"


def _availability(api_service: Object) -> str:
    available = condition(api_service, "Available")
    if available is None:
        return "Unknown"
    status, reason = text(available, "status"), text(available, "reason")
    return f"{status} ({reason})" if reason and status != "True" else status


def _parameter_kind(policy: Object) -> str:
    if not has(policy, "spec.paramKind"):
        return UNSET
    return f"{text(policy, 'spec.paramKind.apiVersion')}/{text(policy, 'spec.paramKind.kind')}"


def _parameters(binding: Object) -> str:
    reference = mapping(binding, "spec.paramRef")
    if name := text(reference, "name"):
        return f"{text(reference, 'namespace', '*')}/{name}"
    return selector(reference.get("selector"), empty=UNSET)


def _dangling(schema: Object) -> str:
    return text(condition(schema, "Dangling"), "status", "?")


def _distinguisher(schema: Object) -> str:
    return text(schema, "spec.distinguisherMethod.type", NONE)


def _limited(path: str) -> Callable[[Object], Any]:
    """A number of a priority level. One that is not limited has none."""

    def write(level: Object) -> Any:
        parent, _, name = f"spec.limited.{path}".rpartition(".")
        found = mapping(level, parent).get(name, 0) if has(level, parent) else NONE
        return found if isinstance(found, int | str) else NONE

    return write


def _storage_versions(version: Object) -> str:
    written = [
        f"{text(each, 'apiServerID')}={text(each, 'encodingVersion')}"
        for each in objects(version, "status.storageVersions")
    ]
    return shortened(written, _SHOWN_MAX) or UNSET


def _migrated(migration: Object) -> str:
    return f"{text(migration, 'spec.resource.resource')}.{text(migration, 'spec.resource.group')}"


def _policy(rules: str, path: str) -> Table:
    return table(
        NAME,
        filled(rules, count_at(path), "How many rules it has.", holds="integer"),
        filled("ParamKind", of(_parameter_kind), "The kind of its parameters."),
        AGE,
    )


_WEBHOOKS = table(NAME, filled("Webhooks", count_at("webhooks"), "How many webhooks it has.", holds="integer"), AGE)
_BINDING = table(
    NAME,
    filled("PolicyName", text_at("spec.policyName"), "The policy that it puts to use."),
    filled("ParamRef", of(_parameters), "The parameters it uses it with."),
    AGE,
)
_ADMISSION = "admissionregistration.k8s.io"
_FLOW = "flowcontrol.apiserver.k8s.io"

TABLES = {
    ("apiextensions.k8s.io", "CustomResourceDefinition"): DEFAULT,
    ("apiregistration.k8s.io", "APIService"): table(
        NAME,
        filled("Service", of(_service), "Who serves this part of the API."),
        filled("Available", of(_availability), "Whether it can be reached."),
        AGE,
    ),
    (_ADMISSION, "MutatingWebhookConfiguration"): _WEBHOOKS,
    (_ADMISSION, "ValidatingWebhookConfiguration"): _WEBHOOKS,
    (_ADMISSION, "ValidatingAdmissionPolicy"): _policy("Validations", "spec.validations"),
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): _BINDING,
    (_ADMISSION, "MutatingAdmissionPolicy"): _policy("Mutations", "spec.mutations"),
    (_ADMISSION, "MutatingAdmissionPolicyBinding"): _BINDING,
    (_FLOW, "FlowSchema"): table(
        NAME,
        filled("PriorityLevel", text_at("spec.priorityLevelConfiguration.name"), "The level its requests go to."),
        filled("MatchingPrecedence", whole_at("spec.matchingPrecedence"), "Lower ones are tried first."),
        filled("DistinguisherMethod", of(_distinguisher), "What tells its flows apart."),
        AGE,
        filled("MissingPL", of(_dangling), "Whether that level is missing."),
    ),
    (_FLOW, "PriorityLevelConfiguration"): table(
        NAME,
        filled("Type", text_at("spec.type"), "Whether it is limited."),
        filled("NominalConcurrencyShares", of(_limited("nominalConcurrencyShares")), "Its share of the server."),
        filled("Queues", of(_limited("limitResponse.queuing.queues")), "How many queues it has."),
        filled("HandSize", of(_limited("limitResponse.queuing.handSize")), "How many of these a flow is dealt."),
        filled("QueueLengthLimit", of(_limited("limitResponse.queuing.queueLengthLimit")), "How long each may get."),
        AGE,
    ),
    ("internal.apiserver.k8s.io", "StorageVersion"): table(
        NAME,
        filled("CommonEncodingVersion", text_at("status.commonEncodingVersion", UNSET), "What all servers agree on."),
        filled("StorageVersions", of(_storage_versions), "What each server writes."),
        AGE,
    ),
    ("storagemigration.k8s.io", "StorageVersionMigration"): table(
        NAME, filled("Resource", of(_migrated), "The resource that is being migrated.")
    ),
}
