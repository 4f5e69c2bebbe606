"""What all parts of an answer have in common: how `-o json` writes them."""

import msgspec


class AnswerPart(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A value that users see, also as JSON: in camel case as the API writes it, and without what is as by default."""
