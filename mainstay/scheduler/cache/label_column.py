"""The values of one node label, as an array of small numbers.

Made when a pod first asks for that label, and kept up to date from then on. Number 0 means that a node does not have
the label; a value keeps its number for as long as the column lives. Whether a requirement holds is found once for each
value and then looked up for all nodes at a time.
"""

import numpy as np

from mainstay.api.labels import Requirement
from mainstay.scheduler.cache.arrays import Rows, Truths

ABSENT = 0


class LabelColumn:
    __slots__ = ("_numbers", "key", "numbers", "values")

    def __init__(self, key: str, capacity: int) -> None:
        self.key = key
        self.numbers: Rows = np.zeros(capacity, np.intp)
        """For each row, the number of its value."""
        self.values: list[str] = [""]
        """By number. The first stands for no value at all."""
        self._numbers: dict[str, int] = {}

    def put(self, row: int, value: str | None) -> None:
        self.numbers[row] = ABSENT if value is None else self._number(value)

    def find_number(self, value: str) -> int:
        """The number of a value; that of no value, if no node has had it."""
        return self._numbers.get(value, ABSENT)

    def grow(self, capacity: int) -> None:
        grown = np.zeros(capacity, np.intp)
        grown[: len(self.numbers)] = self.numbers
        self.numbers = grown

    def matching(self, requirement: Requirement, rows: Rows) -> Truths:
        """For which of the rows a requirement on this label holds."""
        table = np.empty(len(self.values), np.bool_)
        table[ABSENT] = requirement.matches({})
        for number, value in enumerate(self.values[1:], 1):
            table[number] = requirement.matches({self.key: value})
        found: Truths = table[self.numbers[rows]]
        return found

    def _number(self, value: str) -> int:
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        return number
