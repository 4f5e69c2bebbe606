"""A screen for tests: it keeps what was written on it."""

from dataclasses import dataclass, field


@dataclass
class Paper:
    is_coloured: bool = False
    written: bytes = b""
    notes: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.written += f"{text}\n".encode()

    def write(self, data: bytes) -> None:
        self.written += data

    def note(self, text: str) -> None:
        self.notes.append(text)

    @property
    def text(self) -> str:
        return self.written.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def words(self) -> list[list[str]]:
        """Of each line."""
        return [line.split() for line in self.lines]
