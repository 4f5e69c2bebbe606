"""Properties of a node as options: labels, taints, capacity, pod subnet."""

from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Final

import click

from mainstay.api import names, quantity

if TYPE_CHECKING:
    from mainstay.agent.settings import TaintSetting

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class Labels(click.ParamType[Mapping[str, str]]):
    name = "labels"

    def convert(
        self, value: str | Mapping[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Mapping[str, str]:
        if not isinstance(value, str):
            return value
        labels = {}
        for part in _parts(value):
            key, equals, text = part.partition("=")
            if not equals:
                self.fail(f"{part!r} is not KEY=VALUE (for example disk=ssd)", param, ctx)
            for problem in (*names.qualified_name(key), *names.label_value(text)):
                self.fail(f"{part!r}: {problem}", param, ctx)
            labels[key] = text
        return labels


class Taints(click.ParamType["tuple[TaintSetting, ...]"]):
    name = "taints"

    def convert(
        self, value: "str | tuple[TaintSetting, ...]", param: click.Parameter | None, ctx: click.Context | None
    ) -> "tuple[TaintSetting, ...]":
        from mainstay.agent.settings import TaintSetting

        if not isinstance(value, str):
            return value
        taints = []
        for part in _parts(value):
            pair, colon, effect = part.rpartition(":")
            key, _, text = pair.partition("=")
            if not colon or effect not in _EFFECTS:
                self.fail(f"{part!r} is not KEY[=VALUE]:EFFECT with EFFECT one of {', '.join(_EFFECTS)}", param, ctx)
            for problem in (*names.qualified_name(key), *names.label_value(text)):
                self.fail(f"{part!r}: {problem}", param, ctx)
            taints.append(TaintSetting(key, effect, text))
        return tuple(taints)


class Capacity(click.ParamType[Mapping[str, str]]):
    name = "capacity"

    def convert(
        self, value: str | Mapping[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Mapping[str, str]:
        if not isinstance(value, str):
            return value
        capacity = {}
        for part in _parts(value):
            resource, equals, amount = part.partition("=")
            if not equals:
                self.fail(f"{part!r} is not RESOURCE=QUANTITY (for example cpu=4 or memory=8Gi)", param, ctx)
            for problem in names.qualified_name(resource):
                self.fail(f"{part!r}: {problem}", param, ctx)
            try:
                is_negative = quantity.compare(amount, 0) < 0
            except ValueError as error:
                self.fail(f"{part!r}: {error}", param, ctx)
            if is_negative:
                self.fail(f"{part!r} is negative", param, ctx)
            capacity[resource] = amount
        return capacity


def check_capacity(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Check a capacity that `up` passes on to the agents as text, before it is stored."""
    if value is not None:
        Capacity().convert(value, param, ctx)
    return value


class Subnet(click.ParamType[IPv4Network]):
    name = "subnet"

    def convert(
        self, value: str | IPv4Network, param: click.Parameter | None, ctx: click.Context | None
    ) -> IPv4Network:
        if isinstance(value, IPv4Network):
            return value
        try:
            return IPv4Network(value)
        except ValueError as error:
            self.fail(f"{error} (for example 127.64.0.0/24)", param, ctx)


class NodeName(click.ParamType[str]):
    name = "name"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        for problem in names.subdomain(value):
            self.fail(f"{value!r} is not a valid node name: {problem}", param, ctx)
        return value


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
