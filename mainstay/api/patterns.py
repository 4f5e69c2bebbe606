"""Regular expressions as Kubernetes understands them: Go's syntax, matched by RE2 in time linear in the text.

The schemas of custom kinds have patterns that users write, and texts that other users send. Python's `re` reads a
slightly different syntax, and takes exponential time for some pairs. RE2 is the engine that Go's is modelled on; what
the two do not share is settled here: the words of errors, and `\\C`, which Go does not have.

    compile_pattern(r"^[a-z]([-a-z0-9]*[a-z0-9])?$").matches("web-1")
"""

import re
from dataclasses import dataclass
from typing import Any, Final

_GO_WORDS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
    "pattern too large - compile failed": "expression too large",
}
"""Go's words by RE2's. Other errors have the same words in both."""

_ESCAPES: Final = re.compile(rb"\\Q.*?(?:\\E|$)|\\(.)", re.DOTALL)  # Between \Q and \E nothing is an escape.


@dataclass(frozen=True, slots=True)
class Pattern:
    regexp: Any

    def matches(self, text: str) -> bool:
        """Whether the pattern matches anywhere in the text."""
        return self.regexp.search(text.encode("utf-8", "replace")) is not None


def compile_pattern(text: str) -> Pattern:
    """Raise ValueError, in Go's words, if it is not a pattern."""
    import re2  # Few servers have custom kinds with patterns, and no other process needs it.

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    data = text.encode("utf-8", "replace")
    try:
        if any(found[1] == b"C" for found in _ESCAPES.finditer(data)):
            raise ValueError(r"error parsing regexp: invalid escape sequence: `\C`")
        return Pattern(re2.compile(data, options))
    except re2.error as error:
        said = error.args[0].decode("utf-8", "replace")
        words, _, part = said.partition(": ")
        raise ValueError(f"error parsing regexp: {_GO_WORDS.get(words, words)}: `{part}`") from None
