"""Kinds of values in a job file: what may stand in a line of a script, lengths of time, places."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, ByteSize, Field

_CLOCK = re.compile(r"(?:(?P<d>\d+)-)?(?P<h>\d+):(?P<m>\d{2}):(?P<s>\d{2})")
_UNITS = re.compile(r"(?:(?P<d>\d+)d)?\s*(?:(?P<h>\d+)h)?\s*(?:(?P<m>\d+)m)?\s*(?:(?P<s>\d+)s)?")
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def seconds(value: Any) -> Any:
    """Whole seconds of "90m", "1h 30m", "01:30:00", "2-00:00:00" or a whole number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip():
        found = _CLOCK.fullmatch(value.strip()) or _UNITS.fullmatch(value.strip())
        if found:
            return sum(int(found[unit] or 0) * length for unit, length in _SECONDS.items())
    raise ValueError('a length of time such as "90m", "1h 30m" or "01:30:00"')


def clock(length: int) -> str:
    """H:MM:SS of a length in seconds, as Slurm and PBS both read it."""
    return f"{length // 3600:02d}:{length // 60 % 60:02d}:{length % 60:02d}"


def _one_line(value: str) -> str:
    if not value.strip() or any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
        raise ValueError("one line of text")
    return value


def _directive(value: str) -> str:
    if not re.fullmatch(r"-{1,2}[A-Za-z].*", _one_line(value)):
        raise ValueError('a directive without its prefix, such as "--constraint=skylake"')
    return value


def _place(value: str) -> str:
    _one_line(value)
    try:
        parts = urlsplit(value)
    except ValueError:
        parts = None
    if parts is not None and "://" in value and (parts.username or parts.password or parts.query):
        raise ValueError("a URL without a user, a password or a query: a job file holds no secret")
    return value


def is_url(place: str) -> bool:
    """Whether a place is a URL rather than a path."""
    return "://" in place


def _inside(value: str) -> str:
    if not PurePosixPath(_one_line(value)).is_absolute():
        raise ValueError("an absolute path inside the container")
    return value


Duration = Annotated[int, BeforeValidator(seconds), Field(gt=0)]
Memory = Annotated[ByteSize, Field(ge=64 * 2**20)]
Word = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.,:@+/-]*$")]
Name = Annotated[str, Field(strict=True, pattern=r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$")]
Variable = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Line = Annotated[str, Field(strict=True), AfterValidator(_one_line)]
Directive = Annotated[str, Field(strict=True), AfterValidator(_directive)]
Place = Annotated[str, Field(strict=True), AfterValidator(_place)]
Inside = Annotated[str, Field(strict=True), AfterValidator(_inside)]
Count = Annotated[int, Field(strict=True, ge=1)]
Number = Annotated[float, Field(strict=True)]
Setting = str | bool | int | dict[Variable, str | bool | int]
