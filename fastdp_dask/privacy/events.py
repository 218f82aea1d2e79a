"""Mechanisms as data: what was released and with how much noise, apart from what it costs.

An event is public.  Its JSON form is canonical (sorted keys, shortest exact floats), carries a schema version
and is meant to be stored: never change the meaning of a stored field, add a new schema version.
"""

from __future__ import annotations

import dataclasses
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from fastdp_dask import _validate
from fastdp_dask.errors import ArgumentError
from fastdp_dask.privacy.conversion import check_delta, rdp_to_epsilon
from fastdp_dask.privacy.rdp import PAPER_GAMMA_FLOOR, check_gamma, gaussian_rdp, laplace_rdp
from fastdp_dask.privacy.theorem1 import BOUNDS, mixing_curve

SCHEMA_VERSION = 1


class Event(ABC):
    """A mechanism used `multiplicity` times; everything needed to account for it, and nothing else."""

    kind: ClassVar[str]
    multiplier: ClassVar[str] = "count"  # the field that says how many times the mechanism was used

    @abstractmethod
    def single_rdp(self, alpha: ArrayLike) -> float | np.ndarray:
        """Rényi curve of one use."""

    @property
    def multiplicity(self) -> int:
        """How many times the mechanism was used."""
        return int(getattr(self, self.multiplier))

    def rdp(self, alpha: ArrayLike) -> float | np.ndarray:
        """Rényi curve of all uses: multiplicity times the curve of one; exactly zero for none."""
        if self.multiplicity == 0:
            zero = np.zeros(np.shape(alpha))
            return float(zero) if zero.ndim == 0 else zero
        with np.errstate(over="ignore"):
            return self.multiplicity * self.single_rdp(alpha)

    def to_dict(self) -> dict[str, Any]:
        """Plain values under the names of the fields, with "kind" and "schema"."""
        return {"schema": SCHEMA_VERSION, "kind": self.kind} | {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The event that `to_dict` described; fields, kind and schema must match exactly."""
        expected = {"schema", "kind"} | {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        if set(record) != expected:
            raise ArgumentError(
                f"record must have the fields {sorted(expected)}, got {sorted(map(str, record))}. "
                f"Use a record written by to_dict."
            )
        if record["kind"] != cls.kind or record["schema"] != SCHEMA_VERSION:
            raise ArgumentError(
                f"record must have kind={cls.kind!r} and schema={SCHEMA_VERSION}, got "
                f"kind={record['kind']!r} and schema={record['schema']!r}. Use event_from_dict, or a newer "
                f"version of this package."
            )
        return cls(**{name: value for name, value in record.items() if name not in ("schema", "kind")})

    def to_json(self) -> str:
        """Canonical JSON: equal events give equal text."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True)
class MixingEvent(Event):
    """`rows` rows of a mixing release at noise level `gamma`, accounted by the "tight" or "paper" bound."""

    rows: int
    gamma: float
    bound: str = "tight"
    kind: ClassVar[str] = "mixing"
    multiplier: ClassVar[str] = "rows"

    def __post_init__(self) -> None:
        _fix(self, rows=_validate.count("rows", self.rows, minimum=0))
        _fix(self, bound=_validate.choice("bound", self.bound, BOUNDS))
        _fix(self, gamma=check_gamma(self.gamma, 1.0 if self.bound == "tight" else PAPER_GAMMA_FLOOR))

    def single_rdp(self, alpha: ArrayLike) -> float | np.ndarray:
        """Curve of one row."""
        return mixing_curve(np.asarray(alpha, dtype=np.float64), self.gamma, self.bound)


@dataclass(frozen=True)
class GaussianEvent(Event):
    """`count` adaptive Gaussian releases; `noise_multiplier` = standard deviation / Euclidean sensitivity.

    Of real noise, or of discrete noise that is as private (`fastdp_dask.mechanisms.additive`).
    """

    noise_multiplier: float
    count: int = 1
    kind: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        _fix(self, noise_multiplier=_validate.positive("noise_multiplier", self.noise_multiplier))
        _fix(self, count=_validate.count("count", self.count, minimum=0))

    def single_rdp(self, alpha: ArrayLike) -> float | np.ndarray:
        """Curve of one release."""
        return gaussian_rdp(alpha, self.noise_multiplier)


@dataclass(frozen=True)
class LaplaceEvent(Event):
    """`count` adaptive Laplace releases; `scale_over_sensitivity` is that of the noise.

    Of real noise, or of discrete noise that is as private (`fastdp_dask.mechanisms.additive`).
    """

    scale_over_sensitivity: float
    count: int = 1
    kind: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        _fix(
            self,
            scale_over_sensitivity=_validate.positive("scale_over_sensitivity", self.scale_over_sensitivity),
        )
        _fix(self, count=_validate.count("count", self.count, minimum=0))

    def single_rdp(self, alpha: ArrayLike) -> float | np.ndarray:
        """Curve of one release."""
        return laplace_rdp(alpha, self.scale_over_sensitivity)


@dataclass(frozen=True)
class FailureEvent(Event):
    """`count` assumptions, each failing with probability at most `delta` in [0, 1); they cost delta only."""

    delta: float
    count: int = 1
    kind: ClassVar[str] = "failure"

    def __post_init__(self) -> None:
        number = _validate.finite("delta", self.delta, "Pass the probability of the failure.")
        _fix(self, delta=number if number == 0.0 else _validate.delta(number))
        _fix(self, count=_validate.count("count", self.count, minimum=0))

    def single_rdp(self, alpha: ArrayLike) -> float | np.ndarray:
        """Zero: a failure is paid in delta."""
        zero = np.zeros(np.shape(alpha))
        return float(zero) if zero.ndim == 0 else zero


EVENT_KINDS: dict[str, type[Event]] = {
    event.kind: event for event in (MixingEvent, GaussianEvent, LaplaceEvent, FailureEvent)
}


def event_from_dict(record: Mapping[str, Any]) -> Event:
    """The event that `to_dict` described, of any kind."""
    kind = _validate.choice("kind", record.get("kind"), tuple(EVENT_KINDS))
    return EVENT_KINDS[kind].from_dict(record)


def compose(events: Iterable[Event]) -> Callable[[ArrayLike], float | np.ndarray]:
    """Rényi curve of all events together: the sum of their curves (adaptive composition).

    Uses of the same mechanism are counted together and the sum runs in canonical order, so the curve does not
    depend, not even in the last bit, on the order of the events or on how copies are written.

    Raises
    ------
    ArgumentError
        An element is not an Event.

    Notes
    -----
    Source: Mironov (2017), Proposition 1.
    """
    merged = _merge(events)

    def curve(alpha: ArrayLike) -> float | np.ndarray:
        total: float | np.ndarray = np.zeros(np.shape(alpha))
        with np.errstate(over="ignore"):
            for event in merged:
                total = total + event.rdp(alpha)
            total = total * (1.0 + len(merged) * 2.0**-52)  # one rounding for each addition
        return float(total) if np.ndim(total) == 0 else total

    return curve


def epsilon_of(events: Iterable[Event], delta: float) -> float:
    """epsilon of all events together at a total delta.

    epsilon = rdp_to_epsilon(sum of curves, delta - sum of failure probabilities).

    Parameters
    ----------
    events : iterable of Event
        Everything that was or will be released.
    delta : float
        Total delta, 1e-300 <= delta < 1; the failure events are paid from it first, in exact arithmetic.

    Returns
    -------
    float
        epsilon >= 0, rounded up.

    Raises
    ------
    ArgumentError
        delta is out of range, or the failure events leave nothing of it.

    Notes
    -----
    The release restricted to the event that no assumption fails has the composed Rényi curve; the
    complement has at most the summed probability.
    """
    merged = _merge(events)
    return rdp_to_epsilon(compose(merged), delta_left(merged, delta))


def delta_left(events: Iterable[Event], delta: float) -> float:
    """What remains of a total delta after the failure events are paid, in exact arithmetic, rounded down.

    Raises
    ------
    ArgumentError
        delta is out of range, or nothing is left.
    """
    total = Fraction(check_delta(delta))
    spent = sum((Fraction(e.delta) * e.count for e in events if isinstance(e, FailureEvent)), Fraction(0))
    left = _float_below(total - spent)
    if left <= 0.0:
        raise ArgumentError(
            f"delta must exceed the failure probabilities, which sum to {float(spent):.6g}, got "
            f"delta={float(total)!r}. Raise delta or make the failures rarer."
        )
    return left


def _merge(events: Iterable[Event]) -> tuple[Event, ...]:
    counts: dict[Event, int] = {}
    for event in events:
        if not isinstance(event, Event):
            raise ArgumentError(
                f"events must hold Event objects, got {type(event).__name__}. Wrap the release in one."
            )
        one = dataclasses.replace(event, **{event.multiplier: 1})  # type: ignore[type-var]
        counts[one] = counts.get(one, 0) + event.multiplicity
    merged = [dataclasses.replace(one, **{one.multiplier: n}) for one, n in counts.items()]  # type: ignore[type-var]
    return tuple(sorted(merged, key=lambda event: event.to_json()))


def _float_below(value: Fraction) -> float:
    """The largest float <= value, or its neighbour below."""
    number = float(value)
    return number if Fraction(number) <= value else math.nextafter(number, -math.inf)


def _fix(event: Event, **fields: Any) -> None:
    """Set checked fields of a frozen event while it is being built."""
    for name, value in fields.items():
        object.__setattr__(event, name, value)
