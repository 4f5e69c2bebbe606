"""The helper process that reads and writes YAML for an API server (large_work.py, env/helper.py)."""

from typing import Final

import msgspec
import yaml

from mainstay.api.yaml_body import convert_yaml
from mainstay.env.helper import serve


class Question:
    """What is asked: the first byte, before the content."""

    PARSE: Final = b"p"
    """YAML to what `ConvertedYaml` reads."""
    DUMP: Final = b"d"
    """JSON to YAML."""


def answer(content: bytes) -> bytes:
    """In the helper; or wherever there is none."""
    question, body = content[:1], content[1:]
    if question == Question.PARSE:
        return convert_yaml(body)
    return yaml.dump(msgspec.json.decode(body), Dumper=yaml.CSafeDumper, allow_unicode=True, encoding="utf-8")


if __name__ == "__main__":
    serve(answer)
