"""Checks the shape of a file against ``schema.json``."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

from spec.loader import ROOT
from spec.model import SpecError

INSTALL = "python -m pip install 'samebits[spec]'"


def findings(kind: str, content: Any) -> Iterator[tuple[list[str | int], str]]:
    """Yields the path of each value that breaks the definition ``kind``, and a description."""
    for broken in _validator(kind).iter_errors(content):
        yield list(broken.absolute_path), f"{_readable(broken)}; see schema.json"


@functools.cache
def _validator(kind: str) -> Any:
    try:
        import jsonschema  # noqa: PLC0415  # of the extra `spec`, which this lint alone needs
    except ImportError as error:
        raise SpecError(f"`check` needs jsonschema: `{INSTALL}`") from error
    schema = json.loads((ROOT / "schema.json").read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator({**schema, "$ref": f"#/$defs/{kind}"})


def _readable(error: Any) -> str:
    """Returns the message of a schema error without the whole row in it."""
    if not isinstance(error.instance, dict) or error.validator not in ("anyOf", "not"):
        return str(error.message)
    phrase = "meets none of" if error.validator == "anyOf" else "must not have"
    return f"{phrase} {json.dumps(error.validator_value)}"
