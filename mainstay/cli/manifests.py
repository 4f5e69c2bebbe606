"""Manifests: the files that `-f` names, split into documents.

A file has one document or many, as YAML or JSON; a directory stands for its `.yaml`, `.yml` and `.json` files; `-` is
standard input. A `List` stands for its items. Every object remembers its place, for messages.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from mainstay.api.kind import Object
    from mainstay.cli.kinds import KnownKind

F = TypeVar("F", bound=Callable[..., Any])

_SUFFIXES: Final = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file."""

    where: str
    """The file, and the document in it if there are several. For messages."""
    object: "Object"

    @property
    def name(self) -> str:
        return str(self.object["metadata"].get("name") or "")

    @property
    def unknown_kind(self) -> str:
        """The error for a kind that the cluster does not have."""
        kind, version = self.object["kind"], self.object["apiVersion"]
        return f'no kind "{kind}" in version "{version}": install its CustomResourceDefinition first'


def manifest_options(command: F) -> F:
    """`-f` and `-R`."""
    command = click.option("-R", "--recursive", is_flag=True, help="Read directories recursively")(command)
    return click.option(
        "-f",
        "--filename",
        "files",
        multiple=True,
        metavar="FILE|DIR|-",
        help="Manifests to read; repeatable",
    )(command)


def read_manifests(files: Sequence[str], *, recursive: bool = False) -> list[Manifest]:
    """Read all objects in these files, in order. Blocks. Raises `click.ClickException`."""
    found = [
        manifest
        for each in files
        for where, text in _read_texts(each, recursive)
        for manifest in parse_manifests(text, where)
    ]
    if not found:
        raise click.ClickException(f"no objects in {', '.join(files)}")
    return found


def place(kind: "KnownKind", manifest: Manifest, given: str, default: str) -> "Object":
    """Set the namespace of an object. Raises `click.ClickException` if `--namespace` names another one."""
    obj = manifest.object
    own = obj["metadata"].get("namespace") or ""
    if not kind.name.namespaced:
        return obj
    if own and given and own != given:
        raise click.ClickException(f"metadata.namespace is {own}, but --namespace is {given}: remove one")
    return {**obj, "metadata": {**obj["metadata"], "namespace": own or given or default}}


def parse_manifests(text: str, where: str) -> list[Manifest]:
    """Parse the objects in a text. Raises `click.ClickException` with the place of the problem."""
    from mainstay.api.errors import StatusError
    from mainstay.api.yaml_body import parse_yaml

    documents = [each for each in _documents(text) if not _is_empty(each)]
    found: list[Manifest] = []
    for number, document in enumerate(documents, start=1):
        here = f"{where}, document {number}" if len(documents) > 1 else where
        try:
            read = parse_yaml(document.encode())
        except StatusError as error:
            raise click.ClickException(f"{here}: {error}") from None
        if read.problems:
            raise click.ClickException(f"{here}: {read.problems[0]}")
        if read.value is not None:
            found += _objects(read.value, here)
    return found


def _read_texts(named: str, recursive: bool) -> Iterator[tuple[str, str]]:
    from mainstay.env.disk import files_below, read_text

    if named.startswith(("http://", "https://")):
        raise click.ClickException(f"-f does not fetch URLs: use `curl -L {named} | mainstay … -f -`")
    if named == "-":
        try:
            yield "standard input", sys.stdin.buffer.read().decode()
        except UnicodeDecodeError:
            raise click.ClickException("standard input is not UTF-8") from None
        return
    path = Path(named)
    inside = files_below(path, deep=recursive)
    for each in [path] if inside is None else [file for file in inside if file.suffix in _SUFFIXES]:
        try:
            yield str(each), read_text(each)
        except UnicodeDecodeError:
            raise click.ClickException(f"{each} is not UTF-8") from None
        except OSError as error:
            raise click.ClickException(f"cannot read {each}: {error.strerror}") from None


def _documents(text: str) -> Iterator[str]:
    """Split as kubectl does: at each line that begins with three dashes. Lines keep their numbers in a document."""
    lines: list[str] = []
    for line in text.removeprefix("\ufeff").splitlines(keepends=True):
        if line.startswith("---") and not line[3:].strip().startswith("-"):
            yield "".join(lines)
            lines = []
            rest = line[3:].strip()
            if rest and not rest.startswith("#"):
                lines.append(f"{rest}\n")
        else:
            lines.append(line)
    yield "".join(lines)


def _is_empty(document: str) -> bool:
    return all(not line.strip() or line.lstrip().startswith("#") for line in document.splitlines())


def _objects(value: Any, where: str) -> Iterator[Manifest]:
    if not isinstance(value, dict):
        raise click.ClickException(f"{where}: not an object: apiVersion, kind and metadata are required")
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str) or not value[field]:
            raise click.ClickException(f"{where}: {field}: required")
    if value["kind"].endswith("List") and isinstance(value.get("items"), list):
        for number, item in enumerate(value["items"]):
            yield from _objects(item, f"{where}, items[{number}]")
        return
    if not isinstance(value.get("metadata"), dict) or not value["metadata"].get("name"):
        hint = " (apply cannot use generateName)" if _is_generated(value) else ""
        raise click.ClickException(f"{where}: metadata.name: required{hint}")
    yield Manifest(where, value)


def _is_generated(value: "Object") -> bool:
    metadata = value.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("generateName"))
