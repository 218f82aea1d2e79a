"""The table of a fitted model: coefficient, estimate, standard error, interval, and the share of privacy in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from fastdp_dask.uncertainty.intervals import POPULATION, Intervals


@dataclass(frozen=True)
class Row:
    """One coefficient; all after it are None where there are no intervals.  `stderr` is that of `estimate`."""

    name: str
    coef: float
    estimate: float | None = None
    stderr: float | None = None
    lower: float | None = None
    upper: float | None = None
    privacy_share: float | None = None


@dataclass(frozen=True)
class Summary:
    """Text by `str`, HTML in a notebook, numbers in `rows`.

    Attributes
    ----------
    rows : tuple of Row
        One for each feature, and last the intercept if there is one; in units of y per unit of X.
    heading : tuple of str
        What was fitted, under what guarantee.
    notes : tuple of str
        What an interval covers and under which assumptions, or why there is none.
    level : float
    """

    rows: tuple[Row, ...]
    heading: tuple[str, ...]
    notes: tuple[str, ...]
    level: float = 0.95

    @property
    def _columns(self) -> tuple[str, ...]:
        tail = (1 - self.level) / 2
        return ("coef", "estimate", "std err", f"[{tail:.4g}", f"{1 - tail:.4g}]", "due to privacy")

    def __str__(self) -> str:
        width = max(len(row.name) for row in self.rows)
        lines = [*self.heading, ""]
        lines.append(" " * width + "".join(f"{name:>15}" for name in self._columns))
        lines += [f"{row.name:<{width}}" + "".join(f"{cell:>15}" for cell in _cells(row)) for row in self.rows]
        return "\n".join([*lines, "", *self.notes])

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in ("", *self._columns))
        cells = {row: "".join(f"<td>{cell}</td>" for cell in _cells(row)) for row in self.rows}
        body = "".join(f'<tr><th scope="row">{escape(row.name)}</th>{made}</tr>' for row, made in cells.items())
        caption = escape(" ".join(self.heading))
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


def _cells(row: Row) -> list[str]:
    values = (row.coef, row.estimate, row.stderr, row.lower, row.upper)
    numbers = ["" if value is None else f"{value:.4g}" for value in values]
    return [*numbers, "" if row.privacy_share is None else f"{row.privacy_share:.1%}"]


def rows_of(
    names: Sequence[str], found: Intervals | None, coef: Sequence[float], level: float = 0.95
) -> tuple[Row, ...]:
    """The rows of a table: of `found`, or of the coefficients alone where there are no intervals."""
    if found is None:
        return tuple(Row(name, float(value)) for name, value in zip(names, coef, strict=True))
    ends, errors, shares = found.confint(level), found.standard_error, found.privacy_share
    known = found.target == POPULATION
    return tuple(
        Row(
            name, found.coef[k], found.estimate[k], float(errors[k]), float(ends[k, 0]), float(ends[k, 1]),
            float(shares[k]) if known else 1.0,
        )
        for k, name in enumerate(names)
    )  # fmt: skip


def notes_of(found: Intervals | None, reason: str) -> tuple[str, ...]:
    """What the intervals of a table mean."""
    if found is None:
        return (f"No intervals: {reason}.",)
    notes = [
        "coef: what predict uses, the last iterate of noisy steps; estimate: the solution that all releases tell. The "
        "std err and the interval are the estimate's.",
        "Intervals cover the coefficients of the population, under sampling error and privacy noise together. They "
        "assume one variance of the residuals, and that few records lie beyond the declared bounds."
        if found.target == POPULATION
        else "Intervals cover least squares on these very records: privacy noise alone. With uncertainty=True they "
        "cover the population, at a hundredth of the gradients' budget and one more pass.",
        "An interval far wider than its coefficient says that the releases do not determine it.",
    ]
    if any(found.grouped):
        notes.append(
            "In both, coefficients of a declared category count from their mean, which goes to the intercept (without "
            "one, to the last category); every record is taken to have one of the labels."
        )
    return tuple(notes)
