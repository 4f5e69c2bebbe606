"""Numbers with the right plural: `1 pod`, `2 pods`."""


def render_count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
