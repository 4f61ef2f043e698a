"""Writes and reads experiment files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from .errors import InputError

#: Texts that YAML reads as texts without quotes, on a line and in brackets.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*( [A-Za-z0-9_./%-]+)*$|[0-9.]+ [A-Za-z%][A-Za-z/]*$")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
#: Characters that JSON may contain and YAML may not.
_SPECIAL = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")


def dump(data: dict[str, Any]) -> str:
    """Return data as a YAML document."""
    return "\n".join(_block(data, "")) + "\n"


def load(path: Path) -> dict[str, Any]:
    """Read a YAML 1.2 document.

    Raises:
        InputError: the file cannot be read, or is not a map.
    """
    try:
        data = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise InputError(f"could not read {path}: {error}") from None
    if not isinstance(data, dict):
        raise InputError(f"{path} is not an experiment file: it has no keys")
    return data


def _block(value: Any, indent: str) -> list[str]:
    if isinstance(value, dict) and value:
        lines = []
        for key, inner in value.items():
            if _is_nested(inner):
                lines += [f"{indent}{_scalar(key)}:", *_block(inner, indent + "  ")]
            else:
                lines.append(f"{indent}{_scalar(key)}: {_flow(inner)}")
        return lines
    if isinstance(value, list) and _is_nested(value):
        lines = []
        for inner in value:
            first, *rest = _block(inner, indent + "  ") if _is_nested(inner) else [_flow(inner)]
            lines += [f"{indent}- {first.lstrip()}", *rest]
        return lines
    return [indent + _flow(value)]


def _is_nested(value: Any) -> bool:
    """Whether a value needs separate lines."""
    if isinstance(value, dict):
        return bool(value)
    return isinstance(value, list) and any(isinstance(inner, (dict, list)) for inner in value)


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(key)}: {_flow(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(one) for one in value) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        if _PLAIN.match(value) and value.lower() not in _WORDS:
            return value
        quoted = json.dumps(value, ensure_ascii=False)
        return _SPECIAL.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
    return json.dumps(value, allow_nan=False)
