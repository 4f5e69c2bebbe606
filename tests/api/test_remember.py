"""Short texts are remembered, long ones are not: else memory would be what clients make of it."""

from mainstay.api.remember import LENGTH_MAX, remember_short


def test_a_short_text_is_computed_once_and_a_long_one_each_time():
    computed: list[int] = []

    @remember_short(10)
    def measure(text: str) -> int:
        computed.append(len(text))
        return len(text)

    for length in (LENGTH_MAX, LENGTH_MAX, LENGTH_MAX + 1, LENGTH_MAX + 1):
        assert measure("x" * length) == length
    assert computed == [LENGTH_MAX, LENGTH_MAX + 1, LENGTH_MAX + 1]
