"""`report.html`: one file, no network, no library; drawn with the reader's own fonts, light or dark as they like it.

Names of columns come from whoever made the table: every word is escaped, and the page's policy lets no script run but
the one below, whose hash it states.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from fastdp_dask.report import drawing
from fastdp_dask.report.person import CHANGES, percent


def html(report: dict[str, Any]) -> str:
    """The page of a report made by `content.gather`."""
    style, script = _asset("style.css"), _asset("script.js")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'"
    sections = [
        ("guarantee", "What is guaranteed", _guarantee(report)),
        ("person", "One person’s share", _person(report)),
        ("results", "Coefficients", _results(report)),
        ("budget", "Where the budget went", _budget(report)),
        ("noise", "Noise against signal", _noise(report)),
        ("plan", "How it was computed", _plan(report)),
        ("public", "What is public", _public(report)),
    ]
    used = [(identity, title, body) for identity, title, body in sections if body]
    links = "".join(f'<li><a href="#{identity}">{title}</a></li>' for identity, title, _ in used)
    bodies = "".join(
        f'<section id="{identity}" aria-labelledby="{identity}-h"><h2 id="{identity}-h">{title}</h2>{body}</section>'
        for identity, title, body in used
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>Private linear regression: report</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<a class="skip" href="#main">To the content</a>\n{_header(report)}\n'
        f'<main id="main"><nav aria-label="Sections"><ul>{links}</ul></nav>{bodies}</main>\n'
        f"{_footer(report)}\n<script>{script}</script>\n</body>\n</html>\n"
    )


def _asset(name: str) -> str:
    return (files("fastdp_dask.report") / "assets" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _header(report: dict[str, Any]) -> str:
    guarantee, data, plan = report["guarantee"], report["data"], report["plan"]
    facts = [
        ("ε (epsilon)", f"{guarantee['epsilon']:g}"),
        ("δ (delta)", _power(guarantee["delta"])),
        ("Records", f"{data['n_samples']:,}"),
        ("Features", f"{data['n_features']:,}"),
        ("Solver", f"{plan['solver']}, {plan['preset']}"),
        ("Passes over the data", str(plan["n_passes"])),
    ]
    listed = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    seeded = (
        '<p class="warning" role="note"><strong>Noise from a seed.</strong> A seed was given for this run: it is for '
        "tests, and not private against whoever knows the seed.</p>"
        if guarantee["seeded"]
        else ""
    )
    return (
        "<header><h1>Private linear regression: report</h1>"
        '<p class="lead">What was released, what it says, and what it can tell about one person.</p>'
        f"{seeded}<dl class=facts>{listed}</dl></header>"
    )


def _guarantee(report: dict[str, Any]) -> str:
    guarantee = report["guarantee"]
    factor = math.exp(min(guarantee["epsilon"], 700.0))
    rows = [(f"{prior:.0%}", f"{prior * factor / (1 - prior + prior * factor):.1%}") for prior in (0.01, 0.1, 0.5)]
    return (
        f"<p>Whatever was released could have come out with any one record counted as blank, with a probability that "
        f"is at most {factor:.3g} times smaller or larger, but for a chance of {_power(guarantee['delta'])}.</p>"
        f"<p>{escape(guarantee['neighbouring_relation'])}</p>"
        + _table(
            "What anyone may come to believe about one person from the release, delta aside: a bound, not an estimate.",
            ("Held likely before", "Held likely after, at most"),
            rows,
        )
        + "<h3>Against whom</h3><ul>"
        + "".join(f"<li>{escape(line)}</li>" for line in guarantee["threat_model"])
        + "</ul>"
    )


def _person(report: dict[str, Any]) -> str:
    person = report["one_person"]
    text = (
        "Each release is drawn from one curve if a person’s record is in the data, and from a slightly different one "
        "if it is blank. The two bell curves below are as hard to tell apart as those of the release that tells most, "
        f"for whomever it tells most about: {person['shift']:.3g} standard deviations apart."
    )
    body = (
        '<line class="axis" x1="20" y1="232" x2="700" y2="232"/><path class="with" d=""/><path class="without" d=""/>'
        '<text class="tick" x="20" y="256">−4</text><text class="tick" x="360" y="256" text-anchor="middle">0</text>'
        '<text class="tick" x="700" y="256" text-anchor="end">4</text>'
    )
    picture = drawing.svg(720, 264, "Bell curves of one release with a person and without; see the text below.",
                          body, "curves")  # fmt: skip
    rows = [
        (line["release"], str(line["count"]), CHANGES[line["kind"]].format(line["change"]), percent(line["guess"]))
        for line in person["releases"]
    ]
    rows.append(("everything, by ε and δ", "", "", percent(person["guess_all"])))
    return (
        f'<p>{escape(text)}</p><div id="one-person" data-shift="{person["shift"]!r}" '
        f'data-guess="{percent(person["guess"])}">'
        f"<figure>{picture}<figcaption>{_key(0, 'with the person (solid)')}{_key(1, 'without (dashed)')}"
        "in standard deviations</figcaption></figure>"
        '<div class="control"><label for="share">Distance of the curves that is one person’s</label>'
        '<input id="share" type="range" min="0" max="100" step="1" value="0" disabled aria-describedby="share-text">'
        '<output id="share-text" for="share" aria-live="polite">The curves move with a script; the table says what '
        "this run allows.</output></div></div>"
        + _table(
            "How often a guess whether a person is in the data is right, from one release of each kind or any number "
            "of it, and from all together; without looking it is 50 %.",
            ("Seen", "Releases", "One person changes, at most", "Right guesses, at most"),
            rows,
        )
        + '<p class="note">For a person held as likely in as out beforehand. What a sketch allows holds but for the '
        "chances counted in δ. Together all releases allow (e^ε + δ)/(e^ε + 1).</p>"
    )


def _results(report: dict[str, Any]) -> str:
    rows, intervals = report["coefficients"], report["intervals"]
    picture = drawing.coefficients(rows)
    figure = (
        f"<figure>{picture}<figcaption>Dots are estimates, lines 95 % intervals, each in its own standard errors; "
        "the coefficients that predict uses are in the table alone. Grey: the interval holds 0. An "
        "arrow stands for an estimate beyond 30 standard errors.</figcaption></figure>"
        if picture
        else ""
    )
    numbers = [
        (
            row["name"], *(_number(row[key]) for key in ("coef", "estimate", "stderr", "lower", "upper")),
            "" if row["privacy_share"] is None else f"{row['privacy_share']:.0%}",
        )
        for row in rows
    ]  # fmt: skip
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in intervals["notes"])
    return (
        figure
        + _table(
            "Coefficients, in units of the target per unit of each feature.",
            ("Feature", "coef", "estimate", "std err", "2.5 %", "97.5 %", "due to privacy"),
            numbers,
        )
        + notes
    )


def _budget(report: dict[str, Any]) -> str:
    lines, epsilon = report["budget"], report["guarantee"]["epsilon"]
    used = [line for line in lines if line["epsilon"] > 0]
    keys = "".join(_key(number, line["purpose"]) for number, line in enumerate(used))
    rows = [
        (line["purpose"], f"{line['epsilon']:.4f}", _power(line["delta"]), f"{line['epsilon'] / epsilon:.1%}")
        for line in lines
    ]
    return (
        f"<figure>{drawing.shares(lines, epsilon)}<figcaption>{keys}</figcaption></figure>"
        + _table("Parts of the budget.", ("Purpose", "ε", "δ", "Share of ε"), rows)
        + '<p class="note">The parts are accounted for together; their shares are those of the joint account.</p>'
    )


def _noise(report: dict[str, Any]) -> str:
    lines = report["signal"]
    if not lines:
        return ""
    rows = [
        (drawing.words(line["release"]), f"{line['rms']:.3g}", f"{line['noise']:.3g}",
         f"{line['rms'] / line['noise']:.2g}" if line["noise"] else "")
        for line in lines
    ]  # fmt: skip
    return (
        "<p>Each vector was released once, with noise. As the fit converges its gradients shrink into the noise: what "
        "they still hold cannot be told from chance.</p>"
        f"<figure>{drawing.signal(lines)}<figcaption>{_key(0, 'root mean square of the entries (dot)')}"
        f"{_key(1, 'standard deviation of the noise (square)')}scaled units, logarithmic</figcaption></figure>"
        + _table(
            "Released vectors and the noise on each entry, in scaled units.", ("Vector", "Size", "Noise", "Ratio"), rows
        )
    )


def _plan(report: dict[str, Any]) -> str:
    plan, predicted = report["plan"], report["predicted"]
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in plan["reasons"])
    facts = [("Iterations", str(plan["n_iter"])), ("Passes over the data", str(plan["n_passes"]))]
    facts += [(f"Rows of the sketch ({name})", f"{plan[name]:,}") for name in ("k1", "k2") if plan[name]]
    facts.append(("Noise on a gradient over its sensitivity", f"{plan['noise_multiplier']:.4g}"))
    note = ""
    if predicted:
        facts += [
            ("Predicted time, s", f"{predicted['seconds']:g}"),
            ("Predicted peak of a worker, MiB", f"{predicted['worker_bytes'] / 2**20:,.0f}"),
            ("Predicted results on the driver, MiB", f"{predicted['driver_bytes'] / 2**20:,.2f}"),
            ("Read in all passes, MiB", f"{predicted['bytes_read'] / 2**20:,.0f}"),
        ]
        note = (
            '<p class="note">Time and memory are predictions from public facts. Measured ones can depend on records; '
            "they are told to the operator’s terminal and log, not here.</p>"
        )
    return f"<ul>{reasons}</ul>" + _table("The plan, made before a record was read.", ("Fact", "Value"), facts) + note


def _public(report: dict[str, Any]) -> str:
    data, run = report["data"], report["run"]
    rows = [
        (
            column["name"],
            *(
                ("0 or 1", f"category {column['group'] + 1}")
                if column["group"] is not None
                else (f"{column['lower']:g} to {column['upper']:g}", "")
            ),
        )
        for column in data["columns"]
    ]
    pairs = data["bounds_y"] if isinstance(data["bounds_y"][0], list) else [data["bounds_y"]]
    names = ["(target)"] if len(pairs) == 1 else [f"(target {number})" for number in range(len(pairs))]
    rows = [*((name, f"{low:g} to {high:g}", "") for name, (low, high) in zip(names, pairs, strict=True)), *rows]
    versions = ", ".join(f"{name} {value}" for name, value in sorted(report["versions"].items()))
    norm = "" if data["data_norm"] is None else f"<p>Declared bound on the norm of a row: {data['data_norm']:g}.</p>"
    return (
        norm
        + _table("Declared from public knowledge, never from the data.", ("Column", "Bounds", "Belongs to"), rows)
        + f"<p>Public seed of the sketch: <code>{escape(run['public_seed'])}</code>. It says nothing of the noise.<br>"
        f"Run: <code>{escape(run['run_id'])}</code>.</p>"
        + (f"<p>Versions: {escape(versions)}.</p>" if versions else "")
    )


def _footer(report: dict[str, Any]) -> str:
    return (
        "<footer><p>Everything here is public or was released under the guarantee above. "
        f"Schema {escape(report['schema'])}; the same numbers are in report.json.</p></footer>"
    )


def _table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = "".join(
        f'<tr><th scope="row"><span>{escape(str(first))}</span></th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}"><table>'
        f"<caption><span>{escape(caption)}</span></caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _key(number: int, text: str) -> str:
    return f'<span class="keyed"><span class="key key{number % 4}"></span>{escape(text)}</span>'


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _power(value: float) -> str:
    """A small number as people write it: 3.5 × 10⁻¹¹."""
    if value == 0 or value >= 0.001:
        return f"{value:.3g}"
    mantissa, exponent = f"{value:.2e}".split("e")
    digits = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    factor = f"{float(mantissa):g}"
    return f"10{digits}" if factor == "1" else f"{factor}\u00a0×\u00a010{digits}"
