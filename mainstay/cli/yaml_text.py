"""Objects as YAML, for people to read and for Kubernetes to read back.

Keys are sorted, lists are not indented, texts of several lines are literal blocks. A word that any dialect of YAML
takes for something other than text is quoted (api/yaml_body.py tells how much the dialects differ).
"""

import re
from typing import Any, Final

import yaml

_STR: Final = "tag:yaml.org,2002:str"
# What some dialect takes for a boolean, null, a number, a time or an indicator.
_NOT_PLAIN: Final = re.compile(
    r"""y|n|yes|no|on|off|true|false|null|none|~|=|<<
    |[-+]?(?:0x[0-9a-f_]+|0b[01_]+|0o[0-7_]+|\.?[0-9][0-9_]*(?:\.[0-9_]*)?(?:e[-+]?[0-9]+)?|\.inf)|\.nan
    |[-+]?[0-9][0-9_]*(?::[0-9]+)+(?:\.[0-9_]*)?
    |[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[t\s].*)?""",
    re.IGNORECASE | re.VERBOSE,
)


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text and not any(line.endswith((" ", "\t")) for line in text.split("\n")):
        style = "|"
    elif _NOT_PLAIN.fullmatch(text):
        style = '"'
    return dumper.represent_scalar(_STR, text, style=style)


_Dumper.add_representer(str, _text)


def yaml_text(value: Any) -> str:
    """One document, without a line end after it."""
    written: str = yaml.dump(value, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, width=1_000_000)
    return written.removesuffix("\n")
