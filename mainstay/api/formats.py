"""The formats that a schema can ask of a text: `date-time`, `ipv4`, `uuid` and so on.

Dashes in a format's name do not matter, and a format that is not known asks for nothing: both as Kubernetes has it. The
ISBN formats are known there and are not checked here.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from typing import Final
from urllib.parse import urlsplit

from mainstay.api import names, quantity
from mainstay.api.times import parse_duration, parse_time


def _reads(read: Callable[[str], object]) -> Callable[[str], bool]:
    """Whether a function that raises ValueError takes a text."""

    def check(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return check


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII | re.IGNORECASE)
    return lambda text: compiled.fullmatch(text) is not None


def _date(text: str) -> date:
    if len(text) != 10:
        raise ValueError(text)
    return date.fromisoformat(text)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_network(text: str) -> bool:
    return "/" in text and _reads(lambda each: ipaddress.ip_network(each, strict=False))(text)


def _is_uri(text: str) -> bool:
    """What Go takes as the address of a request: with a scheme, or a path from the root."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


_HOSTNAME: Final = r"[a-z0-9_]([-a-z0-9_]{0,62})(\.[a-z0-9_]([-a-z0-9_]{0,62}))*\.?"
_HEX: Final = "[0-9a-f]"

_FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "datetime": _reads(parse_time),
    "date": _reads(_date),
    "duration": _reads(parse_duration),
    "byte": _is_base64,
    "ipv4": lambda text: "." in text and _reads(ipaddress.IPv4Address)(text),
    "ipv6": lambda text: ":" in text and _reads(ipaddress.IPv6Address)(text),
    "cidr": _is_network,
    "mac": _matches(rf"({_HEX}{{2}}[:-]){{5}}{_HEX}{{2}}|({_HEX}{{4}}\.){{2}}{_HEX}{{4}}"),
    "uuid": _matches(rf"{_HEX}{{8}}-?({_HEX}{{4}}-?){{3}}{_HEX}{{12}}"),
    "uuid3": _matches(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?3{_HEX}{{3}}-?{_HEX}{{4}}-?{_HEX}{{12}}"),
    "uuid4": _matches(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?4{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}}"),
    "uuid5": _matches(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?5{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}}"),
    "hostname": lambda text: len(text) <= 255 and _matches(_HOSTNAME)(text),
    "email": _matches(r"[^@\s<>]+@[^@\s<>]+|[^<>]*<[^@\s<>]+@[^@\s<>]+>"),
    "uri": _is_uri,
    "quantity": _reads(quantity.parse),
    "bsonobjectid": _matches(rf"{_HEX}{{24}}"),
    "hexcolor": _matches(rf"#?({_HEX}{{3}}|{_HEX}{{6}})"),
    "rgbcolor": _matches(r"rgb\((\s*(25[0-5]|2[0-4]\d|1?\d?\d)\s*,){2}\s*(25[0-5]|2[0-4]\d|1?\d?\d)\s*\)"),
    "ssn": _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "k8sshortname": lambda text: not names.label(text),
    "k8slongname": lambda text: not names.subdomain(text),
}


def find_format_check(name: str) -> Callable[[str], bool] | None:
    """Whether a text has this format. None if the format asks for nothing."""
    return _FORMATS.get(name.replace("-", ""))
