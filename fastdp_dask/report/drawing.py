"""Pictures as inline SVG: coordinates are numbers of ours, words are escaped, colours come from the page's style."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

_WIDTH = 720
_ROW = 50  # a name, and its line below it: names are long and windows narrow
_LEFT, _RIGHT = 30, 30
_MOST = 60


def svg(width: float, height: float, title: str, body: str, identity: str) -> str:
    """An SVG element with its text alternative."""
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-labelledby="{identity}-title">'
        f'<title id="{identity}-title">{escape(title)}</title>{body}</svg>'
    )


def coefficients(rows: Sequence[dict[str, Any]]) -> str:
    """Each coefficient but the intercept: its interval as a line, its estimate as a dot, in units of its half width.

    Coefficients have units of their own, so each row has its own scale: z = value / standard error of the estimate.
    """
    shown = [row for row in rows if row["stderr"] and row["name"] != "(intercept)"][:_MOST]
    if not shown:
        return ""
    scores = [row["estimate"] / row["stderr"] for row in shown]
    reach = max(3.0, *(min(abs(score), 30.0) + 2.6 for score in scores))
    inner = _WIDTH - _LEFT - _RIGHT
    at = lambda z: _LEFT + inner * (max(-reach, min(reach, z)) + reach) / (2 * reach)  # noqa: E731
    height = _ROW * len(shown) + 62
    parts = [f'<line class="axis" x1="{at(0):.1f}" y1="8" x2="{at(0):.1f}" y2="{height - 44}"/>']
    for number, (row, score) in enumerate(zip(shown, scores, strict=True)):
        y = 36 + _ROW * number
        kind = "clear" if abs(score) > 1.96 else "unclear"
        x, away = at(score), 8 if score > 0 else -8
        dot = (
            f'<path class="dot {kind}" d="M{x:.1f} {y - 6}l{away} 6l{-away} 6z"/>'
            if abs(score) > 30
            else f'<circle class="dot {kind}" cx="{x:.1f}" cy="{y}" r="5"/>'
        )
        parts.append(
            f'<text class="label" x="0" y="{y - 14}">{escape(_short(row["name"]))}</text>'
            f'<line class="interval {kind}" x1="{at(score - 1.96):.1f}" y1="{y}" x2="{at(score + 1.96):.1f}" y2="{y}"/>'
            + dot
        )
    for z in _ticks(reach):
        parts.append(f'<text class="tick" x="{at(z):.1f}" y="{height - 26}" text-anchor="middle">{z:g}</text>')
    parts.append(
        f'<text class="tick" x="{_LEFT + inner / 2:.1f}" y="{height - 6}" text-anchor="middle">'
        "estimate in standard errors</text>"
    )
    some = f", the first {_MOST}" if len(shown) < len([row for row in rows if row["stderr"]]) - 1 else ""
    title = f"Estimates with 95 % intervals, in standard errors{some}; the same numbers are in the table below."
    return svg(_WIDTH, height, title, "".join(parts), "coefficients")


def shares(lines: Sequence[dict[str, Any]], total: float) -> str:
    """Where ε went: one bar, in parts."""
    parts, start, inner = [], 0.0, _WIDTH - 4
    used = [line for line in lines if line["epsilon"] > 0]
    for number, line in enumerate(used):
        width = inner * line["epsilon"] / total
        parts.append(f'<rect class="part part{number % 4}" x="{2 + start:.1f}" y="4" width="{width:.1f}" height="44"/>')
        if width > 52:
            parts.append(
                f'<text class="on{number % 4}" x="{2 + start + width / 2:.1f}" y="32" text-anchor="middle">'
                f"{line['epsilon'] / total:.0%}</text>"
            )
        start += width
    title = "Share of epsilon: " + ", ".join(f"{line['purpose']} {line['epsilon'] / total:.1%}" for line in used)
    return svg(_WIDTH, 52, title, "".join(parts), "shares")


def signal(lines: Sequence[dict[str, Any]]) -> str:
    """Released size against noise, for each vector, on a logarithmic scale."""
    if not lines:
        return ""
    values = [value for line in lines for value in (line["rms"], line["noise"]) if value > 0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 1e-9)
    high = max(high, low + 1)
    inner = _WIDTH - _LEFT - _RIGHT
    at = lambda v: _LEFT + inner * (math.log10(max(v, 10.0**low)) - low) / (high - low)  # noqa: E731
    height = _ROW * len(lines) + 44
    parts = []
    for power in range(low, high + 1):
        x = at(10.0**power)
        parts.append(
            f'<line class="grid" x1="{x:.1f}" y1="6" x2="{x:.1f}" y2="{height - 32}"/>'
            f'<text class="tick" x="{x:.1f}" y="{height - 12}" text-anchor="middle">{10.0**power:g}</text>'
        )
    for number, line in enumerate(lines):
        y = 36 + _ROW * number
        parts.append(
            f'<text class="label" x="0" y="{y - 14}">{words(line["release"])}</text>'
            f'<line class="interval clear" x1="{at(line["noise"]):.1f}" y1="{y}" x2="{at(line["rms"]):.1f}" y2="{y}"/>'
            f'<rect class="noise" x="{at(line["noise"]) - 5:.1f}" y="{y - 5}" width="10" height="10"/>'
            f'<circle class="dot clear" cx="{at(line["rms"]):.1f}" cy="{y}" r="5"/>'
        )
    title = "Size of each released vector (dot) and of the noise on it (square): " + "; ".join(
        f"{words(line['release'])} {line['rms']:.3g} against {line['noise']:.3g}" for line in lines
    )
    return svg(_WIDTH, height, title, "".join(parts), "signal")


def words(release: str) -> str:
    """The name of a release, for people."""
    if release.startswith("gradient_"):
        return f"gradient {int(release.removeprefix('gradient_')) + 1}"
    return "Xᵀy" if release == "moment" else escape(release)


def _short(name: str) -> str:
    return name if len(name) <= 48 else name[:47] + "…"


def _ticks(reach: float) -> list[float]:
    step = next(step for step in (1, 2, 5, 10, 20) if reach / step <= 4)
    return [step * k for k in range(-int(reach // step), int(reach // step) + 1)]
