"""How large a value is, in the measures that the cost of an expression depends on."""

from dataclasses import dataclass
from typing import Any, Final

from mainstay.cel.errors import CostExceeded

VALUES_MAX: Final = 10_000
"""Of one input: to hand more to the library would take longer than an evaluation may."""


@dataclass(frozen=True, slots=True)
class Size:
    values: int = 1
    """Everything in it, itself included."""
    text: int = 0
    """Characters in all texts together."""
    longest_text: int = 0
    longest_list: int = 0
    """Elements of the longest list or map in it."""

    def rounded(self) -> "Size":
        """Up to powers of two, so that few different sizes occur."""
        return Size(_round(self.values), _round(self.text), _round(self.longest_text), _round(self.longest_list))


NOTHING: Final = Size()


def measure(value: Any) -> Size:
    """Raises `CostExceeded` for more values than are evaluated."""
    values = text = longest_text = longest_list = 0
    waiting = [value]
    while waiting:
        each = waiting.pop()
        values += 1
        if isinstance(each, str):
            text += len(each)
            longest_text = max(longest_text, len(each))
        elif isinstance(each, dict):
            longest_list = max(longest_list, len(each))
            waiting.extend(each.values())
            for key in each:
                text += len(key)
                longest_text = max(longest_text, len(key))
        elif isinstance(each, list):
            longest_list = max(longest_list, len(each))
            waiting.extend(each)
        if values + len(waiting) > VALUES_MAX:
            raise CostExceeded(
                f"the object has more than {VALUES_MAX} values, which expressions are not evaluated over"
            )
    return Size(values, text, longest_text, longest_list)


def _round(number: int) -> int:
    return 1 << (number - 1).bit_length() if number > 1 else number
