"""`--storage-option`: what a storage's own library needs beside the URL."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from fastdp_dask.errors import ArgumentError

StorageOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="KEY=VALUE",
        help="For an s3://, gs:// or az:// URL, such as endpoint_url=…; repeatable. Other users of this machine see "
        "command lines: leave passwords to the environment.",
    ),
]


def options(given: Sequence[str] | None) -> dict[str, Any]:
    """The pairs as keyword arguments: true, false, and values that begin with { or [ are JSON, others text.

    Raises
    ------
    ArgumentError
        For a pair that is none, or bad JSON; only the key is shown.
    """
    found: dict[str, Any] = {}
    for pair in given or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier():
            raise ArgumentError("--storage-option must be KEY=VALUE, got something else. An example: anon=true.")
        if key in found:
            raise ArgumentError(f"--storage-option must give each key once, got {key} twice. Remove one.")
        found[key] = _value(key, value)
    return found


def _value(key: str, value: str) -> Any:
    if value not in ("true", "false") and value[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except ValueError:
        pass
    raise ArgumentError(f"--storage-option {key} must be JSON as it begins like it, got something else. Check quotes.")
