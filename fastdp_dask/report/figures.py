"""The pictures of a report as PNG and SVG files, for slides and papers.  Needs matplotlib."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fastdp_dask.errors import ArgumentError
from fastdp_dask.report import content, drawing

_ACCENT, _GREY, _SECOND = "#0b6157", "#6b6f76", "#9a4a06"
_PARTS = (_ACCENT, _SECOND, "#3f4aa8", _GREY)
_MOST = 60


def write_figures(run_dir: str | os.PathLike[str]) -> list[Path]:
    """`coefficients`, `budget` and `noise`, each as .png and .svg, into the run folder; the same bytes each time.

    Raises
    ------
    ArgumentError
        Without matplotlib.
    StoreError
        If the folder holds no finished fit.
    """
    report = content.gather(run_dir)
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ArgumentError(
            "--figures must have matplotlib, got none: pip install 'fastdp-dask[report]'. report.html needs nothing."
        ) from None
    written = []
    for name, draw, height in (("coefficients", _coefficients, 0.34), ("budget", _budget, 0.0), ("noise", _noise, 0.4)):
        rows = {"coefficients": _shown(report), "noise": report["signal"]}.get(name, [None])
        if not rows:
            continue
        with matplotlib.rc_context({"svg.hashsalt": "fastdp", "svg.fonttype": "none", "font.size": 10}):
            figure = Figure(figsize=(7.5, 1.6 + height * len(rows)), layout="constrained", facecolor="white")
            FigureCanvasAgg(figure)
            draw(figure.subplots(), report)
            for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
                path = Path(run_dir) / f"{name}.{kind}"
                figure.savefig(path, format=kind, dpi=160, metadata=metadata)
                path.chmod(0o600)
                written.append(path)
    return written


def _shown(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in report["coefficients"] if row["stderr"] and row["name"] != "(intercept)"][:_MOST]


def _plain(text: str) -> str:
    return text.replace("$", r"\$")  # a name is no formula


def _coefficients(axes: Any, report: dict[str, Any]) -> None:
    rows = _shown(report)
    for place, row in enumerate(reversed(rows)):
        score = row["estimate"] / row["stderr"]
        color = _ACCENT if abs(score) > 1.96 else _GREY
        axes.plot([score - 1.96, score + 1.96], [place, place], color=color, linewidth=2.5, solid_capstyle="round")
        axes.plot(score, place, "o", color=color)
    axes.axvline(0, color="black", linewidth=0.7)
    axes.set_yticks(range(len(rows)), [_plain(row["name"][:40]) for row in reversed(rows)])
    axes.set_xlabel("estimate in standard errors, with 95 % intervals")
    axes.spines[["top", "right"]].set_visible(False)


def _budget(axes: Any, report: dict[str, Any]) -> None:
    start, total = 0.0, report["guarantee"]["epsilon"]
    for number, line in enumerate(line for line in report["budget"] if line["epsilon"] > 0):
        share = line["epsilon"] / total
        label = f"{_plain(line['purpose'])}: {share:.1%}"
        axes.barh(0, share, left=start, color=_PARTS[number % 4], edgecolor="white", label=label)
        start += share
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.02), frameon=False, ncols=1)
    axes.set_title(f"Where epsilon = {total:g} went", loc="left", fontsize=11)


def _noise(axes: Any, report: dict[str, Any]) -> None:
    lines = report["signal"]
    for place, line in enumerate(reversed(lines)):
        axes.plot([line["noise"], line["rms"]], [place, place], color=_ACCENT, linewidth=2)
        axes.plot(line["rms"], place, "o", color=_ACCENT, label="released, root mean square" if not place else None)
        axes.plot(line["noise"], place, "s", color=_SECOND, label="noise, standard deviation" if not place else None)
    axes.set_xscale("log")
    axes.set_yticks(range(len(lines)), [drawing.words(line["release"]) for line in reversed(lines)])
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
