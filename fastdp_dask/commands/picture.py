"""The demo's picture: errors, coefficients and where the budget went."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastdp_dask.commands.comparison import Held, Result
from fastdp_dask.commands.demo_tables import UNITS, numeric_columns
from fastdp_dask.data import Declaration

_PLAIN = "#6b7280"
_PRIVATE = ("#d97706", "#0f766e", "#4338ca", "#be185d")
_SHARES = {"sketch": "#1f4e79", "gradient": "#8fbfe8"}  # by a word of the purpose
_OTHER_SHARE = "#e2e8f0"


def draw(path: Path, results: Sequence[Result], declaration: Declaration, held: Held) -> None:
    """Write the picture of a comparison as PNG.

    Top: held-out RMSE of each fit, against predicting the mean; share of ε of each part of a fit.
    Bottom: each numeric coefficient, and the coefficients of the categories against those of OLS.
    """
    # Imported here: only the demo draws.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(12, 7.6), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    top, bottom = figure.subfigures(2, 1, height_ratios=(1, 1), hspace=0.04)
    left, right = top.subplots(1, 2, width_ratios=(1, 1))
    colors = [_PLAIN if result.plan is None else _PRIVATE[k % 4] for k, result in enumerate(results, start=-1)]
    _errors(left, results, colors, held)
    _shares(right, results)
    _coefficients(bottom, results, colors, declaration)
    plan = next(result.plan for result in results if result.plan is not None)
    figure.suptitle(
        f"Arrival delay of flights from New York City, 2013: n = {plan.n_samples:,}, "
        f"{plan.n_columns} columns, ε = {plan.epsilon:g}, δ = 1/n²",
        fontsize=13, fontweight="bold",
    )  # fmt: skip
    figure.savefig(path, dpi=130, format="png")


def _errors(axes: Any, results: Sequence[Result], colors: Sequence[str], held: Held) -> None:
    places = np.arange(len(results))[::-1]
    bars = axes.barh(places, [result.rmse for result in results], color=colors, height=0.62)
    axes.bar_label(bars, [f"{result.rmse:.1f}" for result in results], padding=4, fontsize=10)
    mean = held.rmse(held.y.mean())
    axes.axvline(mean, color="black", linewidth=1, linestyle="--")
    axes.text(mean, places[0] + 0.5, "predict the mean ", ha="right", va="bottom", fontsize=9)
    axes.set_yticks(places, [result.label for result in results])
    axes.set_xlim(0, 1.12 * max(mean, *(result.rmse for result in results)))
    axes.set_ylim(-0.6, len(results) - 0.2)
    axes.set_title("Error on held-out flights", loc="left", fontsize=11)
    axes.set_xlabel("RMSE, minutes (less is better)", fontsize=9)
    _bare(axes)


def _shares(axes: Any, results: Sequence[Result]) -> None:
    private = [result for result in results if result.plan is not None]
    places = np.arange(len(private))[::-1]
    for place, result in zip(places, private, strict=True):
        assert result.plan is not None
        parts = [part for part in result.plan.budget if part.epsilon > 0]
        start = 0.0
        for part in parts:
            share = part.epsilon / result.plan.epsilon
            color = next((color for word, color in _SHARES.items() if word in part.purpose), _OTHER_SHARE)
            axes.barh(place, share, left=start, height=0.36, color=color, edgecolor="white")
            axes.text(
                start + share / 2, place, f"{share:.0%}", ha="center", va="center", fontsize=9,
                color="white" if color == _SHARES["sketch"] else "black",
            )  # fmt: skip
            start += share
        text = " · ".join(part.purpose.split(" (")[0] for part in parts)
        axes.text(0.005, place - 0.24, text, ha="left", va="top", fontsize=8.5)
    axes.set_yticks(places, [result.label for result in private])
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.7, len(private) - 0.5)
    axes.set_xticks([])
    axes.set_title("Where ε went", loc="left", fontsize=11)
    _bare(axes)
    axes.spines["bottom"].set_visible(False)


def _coefficients(figure: Any, results: Sequence[Result], colors: Sequence[str], declaration: Declaration) -> None:
    numeric = numeric_columns(declaration)
    panels = figure.subplots(1, len(numeric) + 1, width_ratios=[1] * len(numeric) + [1.6])
    for axes, (name, j) in zip(panels, numeric, strict=False):
        for place, (result, color) in enumerate(zip(results, colors, strict=True)):
            axes.plot(place, result.coef[j], "o", color=color, markersize=9)
        axes.axhline(results[0].coef[j], color=_PLAIN, linewidth=1, linestyle=":")
        axes.axhline(0, color="black", linewidth=0.6)
        axes.set_xlim(-0.6, len(results) - 0.4)
        axes.margins(y=0.2)
        axes.set_xticks(range(len(results)), [result.short for result in results])
        unit = f", min per {UNITS[name]}" if name in UNITS else ""
        axes.set_title(f"{name}{unit}", loc="left", fontsize=11)
        _bare(axes)
    _categories(panels[-1], results, colors, declaration)


def _categories(axes: Any, results: Sequence[Result], colors: Sequence[str], declaration: Declaration) -> None:
    """Private against OLS, each category about its own median: its level is the intercept's."""

    def centred(result: Result) -> np.ndarray:
        return np.concatenate([result.coef[list(g)] - np.median(result.coef[list(g)]) for g in declaration.groups])

    plain = centred(results[0])
    edge = 2.5 * float(np.abs(plain).max())  # a category of few records is mostly noise
    for result, color in zip(results[1:], colors[1:], strict=True):
        axes.plot(
            plain,
            np.clip(centred(result), -edge, edge),
            "o",
            color=color,
            markersize=4.5,
            alpha=0.75,
            label=result.label,
        )
    axes.set_ylim(-1.06 * edge, 1.06 * edge)
    ends = [plain.min(), plain.max()]
    axes.plot(ends, ends, color=_PLAIN, linewidth=1, linestyle=":", label="equal to OLS")
    axes.set_title(f"{plain.size} indicators, min: private against OLS", loc="left", fontsize=11)
    axes.set_xlabel(f"OLS, about the median of each category; cut at ±{edge:.0f}", fontsize=9)
    axes.legend(fontsize=8, frameon=False, loc="lower right")
    _bare(axes)


def _bare(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)
