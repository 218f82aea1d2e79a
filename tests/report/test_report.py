"""The report of a run: from its folder alone, the same bytes each time, safe against hostile names, readable by all."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import fit, model, small_data
from scipy.stats import chi2, norm

from fastdp_dask.commands.app import main
from fastdp_dask.errors import ArgumentError, StoreError
from fastdp_dask.planning import plan as make_plan
from fastdp_dask.report import content, figures, page, person, write

HOSTILE = ['<script>alert("x")</script>', "a\"b'c&d", "$x_1$ " + "very long name " * 5]
TIGHT = {"preset": "tight", "bounds_X": (-1.0, 1.0), "bounds_y": (-1.0, 1.0), "public_seed": None}


def run(folder: Path, **options: Any) -> Path:
    X, y = small_data(3000, 3)
    fit(model(**{**TIGHT, "solver": "ihm", "run_dir": folder, **options}), X, y, feature_names=HOSTILE, source="a")
    return folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("report") / "run", uncertainty=True)


class Page(HTMLParser):
    """Tags with their attributes, in order, and whether they nest."""

    VOID = ("meta", "link", "input", "br", "line", "circle", "rect", "path")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, tag

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.mark.parametrize("solver", ["ihm", "fastihm", "adassp", "linear_mixing"])
def test_every_solver_has_a_report_that_follows_the_schema(tmp_path: Path, solver: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    folder = run(tmp_path / "run", solver=solver)
    made, told = write.write(folder)
    report = json.loads(told.read_text())
    schema = json.loads((Path(content.__file__).parent / "schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(report, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**report, "budget": "much"}, schema)
    Page(made.read_text())
    assert (report["intervals"]["target"] is None) == (solver == "linear_mixing")
    assert math.isclose(sum(line["epsilon"] for line in report["budget"]), 1.0, rel_tol=1e-6)
    assert [os.stat(path).st_mode & 0o777 for path in (made, told)] == [0o600, 0o600]


def test_it_follows_from_the_folder_alone_to_the_last_byte(finished: Path, tmp_path: Path) -> None:
    first = [path.read_bytes() for path in write.write(finished)]
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("plan.json", "model.json", "releases.jsonl"):
        (moved / name).write_bytes((finished / name).read_bytes())
    assert [path.read_bytes() for path in write.write(moved)] == first


def test_the_estimate_stands_between_the_coefficient_and_its_error(finished: Path) -> None:
    report = content.gather(finished)
    text = page.html(report)
    for row in report["coefficients"]:
        assert row["estimate"] == pytest.approx((row["lower"] + row["upper"]) / 2)
        cells = "".join(f"<td>{row[key]:.4g}</td>" for key in ("coef", "estimate", "stderr", "lower", "upper"))
        assert cells in text
    assert any(row["estimate"] != row["coef"] for row in report["coefficients"])
    assert "The std err and the interval are the estimate&#x27;s." in text


def test_the_pass_for_the_residuals_is_in_every_count(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", solver="auto", uncertainty=True)
    made, plan = content.gather(folder)["plan"], json.loads((folder / "plan.json").read_text())
    assert plan["forecasts"][0]["n_passes"] == made["n_passes"]
    told = [int(number) for reason in made["reasons"] for number in re.findall(r"s in (\d+) passes", reason)]
    assert told == [made["n_passes"]]


def test_hostile_names_stay_words(finished: Path) -> None:
    text = page.html(content.gather(finished))
    found = Page(text)
    assert len(found.all("script")) == 1
    assert '<script>alert("x")' not in text
    assert "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;" in text
    policy = next(tag["content"] for tag in found.all("meta") if tag.get("http-equiv"))
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_it_needs_no_network_and_says_nothing_of_times_or_places(finished: Path) -> None:
    """No address but that of the JSON schema's own words; no path; nothing of the data's place or of a clock."""
    made, told = write.write(finished)
    for text in (made.read_text(), told.read_text()):
        assert not re.search(r"https?://|file:|@import|url\(", text)
        assert str(finished) not in text
        assert '"source"' not in text
    assert not {"hessian_0", "rows"} & set(json.loads(told.read_text()))
    assert "Measured ones can depend on records" in made.read_text()


def test_it_is_marked_up_for_those_who_do_not_see_it(finished: Path) -> None:
    found = Page(page.html(content.gather(finished)))
    assert found.all("html") == [{"lang": "en"}]
    assert len(found.all("h1")) == 1
    tables = found.all("table")
    assert len(found.all("caption")) == len(tables) >= 6
    assert all(tag.get("scope") in ("row", "col") for tag in found.all("th"))
    titles = {tag["id"] for tag in found.all("title") if "id" in tag}
    assert {tag["aria-labelledby"] for tag in found.all("svg")} == titles
    assert len(titles) == len(found.all("svg")) == 4
    identities = [attributes["id"] for _, attributes in found.tags if attributes.get("id")]
    assert len(identities) == len(set(identities))
    assert {tag["for"] for tag in found.all("label")} <= set(identities)
    assert {tag["href"] for tag in found.all("a")} <= {f"#{identity}" for identity in identities}


def luminance(color: str) -> float:
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_words_stand_out_from_their_ground_in_light_and_dark() -> None:
    """WCAG 2 AA: 4.5 for text, 3 for lines and marks."""
    style = (Path(content.__file__).parent / "assets" / "style.css").read_text()
    themes = [
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root \{(.*?)\}", style, re.S)
    ]
    assert len(themes) == 2
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    for theme in themes:
        for ink in ("ink", "soft", "accent"):
            assert contrast(theme[ink], theme["paper"]) >= 4.5
        for ground in ("panel", "warn"):
            assert contrast(theme["ink"], theme[ground]) >= 4.5
        for mark in ("accent", "second", "third", "fourth"):
            assert contrast(theme[mark], theme["paper"]) >= 3
            assert contrast(theme["on"], theme[mark]) >= 4.5  # percentages stand on them
        assert contrast(theme["soft"], theme["panel"]) >= 4.5


@pytest.mark.parametrize("solver", ["ihm", "fastihm", "adassp", "linear_mixing", "fast_linear_mixing"])
@pytest.mark.parametrize("preset", ["tight", "paper"])
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_no_release_allows_more_than_is_said_and_all_together_no_less(solver: str, preset: str, epsilon: float) -> None:
    """The largest covers each kind of release, not the sketch alone, and lies below what (ε, δ) allow for all."""
    plan = make_plan(20_000, 4, epsilon=epsilon, delta=1e-6, solver=solver, preset=preset, compare=False).to_dict()
    told = person.of_plan(plan)
    assert 0.5 < told["guess"] <= told["guess_all"] < 1
    if plan["noise_multiplier"]:
        assert told["guess"] >= norm.cdf(0.5 / plan["noise_multiplier"])
    if plan["gamma"]:  # a row alone, and the sum of squares of all rows of one sketch
        for rows in (1, plan["k1"]):
            assert told["guess"] >= 0.5 + 0.5 * squares_apart(rows, 1 / plan["gamma"])
    assert norm.cdf(told["shift"] / 2) == pytest.approx(told["guess"], abs=2e-6)
    assert "estimate" not in [line["release"] for line in told["releases"]]
    for line in told["releases"]:
        assert told["guess"] >= line["guess"]
        assert line["count"] >= 1


def squares_apart(rows: int, share: float) -> float:
    """TV of the sum of `rows` squares of N(0, 1) and of N(0, 1 - share): their densities cross once."""
    crossing = -rows * math.log1p(-share) * (1 - share) / share
    return float(chi2.cdf(crossing / (1 - share), rows) - chi2.cdf(crossing, rows))


def test_the_guess_is_that_of_the_two_curves() -> None:
    """1/2 + total variation/2, by quadrature on a fine grid (error below 1e-6, and 1e-6 of rounding up)."""
    x = np.linspace(-40, 40, 800_001)
    for event, density in (
        ({"noise_multiplier": 1.3, "count": 2}, lambda shift: np.exp(-0.5 * (x - shift / 1.3) ** 2)),
        ({"scale_over_sensitivity": 1.3, "count": 2}, lambda shift: np.exp(-np.abs(x - shift / 1.3))),
    ):
        first, second = density(0), density(1)
        distance = 0.5 * float(np.sum(np.abs(first / first.sum() - second / second.sum())))
        (line,) = person.of_plan({"events": [event], "epsilon": 1.0, "delta": 1e-6})["releases"]
        assert line["guess"] == pytest.approx(0.5 + 0.5 * distance, abs=3e-6)
        assert line["count"] == 2
    for rows, gamma in ((1, 2.0), (300, 40.0)):
        plan = {"events": [{"rows": rows, "gamma": gamma, "bound": "tight"}], "k1": rows, "epsilon": 1.0, "delta": 1e-6}
        exact = 0.5 + 0.5 * squares_apart(rows, 1 / gamma)
        assert exact <= person.of_plan(plan)["guess"] <= exact + 2e-3  # the bound is also over pairs of rank two


def test_the_bound_for_all_releases_is_that_of_the_worst_pair() -> None:
    """δ on an outcome that gives all away, else e^ε : 1."""
    for epsilon, delta in ((0.1, 0.0), (1.0, 1e-2), (8.0, 1e-6)):
        seen = np.array([[delta, 0.0], [1, 0], [0, 1], [0.0, delta]])
        seen[1:3] = (1 - delta) / (1 + math.exp(epsilon)) * np.array([[math.exp(epsilon), 1], [1, math.exp(epsilon)]])
        right = 0.5 * float(seen.max(axis=1).sum())
        assert person.all_together({"epsilon": epsilon, "delta": delta}) == pytest.approx(right, abs=1.1e-6)


def test_the_page_and_its_moving_picture_say_the_same_guess(finished: Path) -> None:
    report = content.gather(finished)
    found = Page(page.html(report))
    (panel,) = [tag for tag in found.all("div") if tag.get("id") == "one-person"]
    told = report["one_person"]
    assert float(str(panel["data-shift"])) == told["shift"]
    assert panel["data-guess"] == person.percent(told["guess"])
    assert f"<td>{panel['data-guess']}</td>" in page.html(report)
    assert [person.percent(share) for share in (0.5, 0.660001, 0.99996, 1.0)] == [
        "50.00 %", "66.01 %", "almost 100 %", "100.00 %",
    ]  # fmt: skip


@pytest.mark.parametrize(("solver", "release"), [("ihm", "gradient_0"), ("adassp", "moment")])
@pytest.mark.parametrize("targets", [1, 16])
def test_the_noise_it_states_is_that_of_the_release(tmp_path: Path, solver: str, release: str, targets: int) -> None:
    """Targets of 0 have a gradient of 0 at θ = 0: its release is noise alone.  False alarms: 1e-6 for each."""
    X, y = small_data(3000, 15)
    zeros = np.zeros_like(y) if targets == 1 else np.zeros((len(y), targets))
    fit(model(**{**TIGHT, "solver": solver, "run_dir": tmp_path / "run"}), X, zeros)
    line = next(line for line in content.gather(tmp_path / "run")["signal"] if line["release"] == release)
    entries = 16 * targets  # the intercept is a column
    low, high = chi2.ppf([5e-7, 1 - 5e-7], entries)
    assert low <= entries * (line["rms"] / line["noise"]) ** 2 <= high
    if targets > 1:  # a noise without sqrt(t) is told from it
        assert not low <= entries * (line["rms"] / (line["noise"] / math.sqrt(targets))) ** 2 <= high


def test_the_command_and_its_pictures(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(finished), "--figures"]) == 0
    shown = capsys.readouterr().out.split("\n")
    assert [Path(line).name for line in shown[:2]] == ["report.html", "report.json"]
    for name in ("coefficients", "budget", "noise"):
        assert (finished / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (finished / f"{name}.svg").read_bytes()
    before = {path.name: path.read_bytes() for path in finished.iterdir() if path.suffix in (".png", ".svg")}
    figures.write_figures(finished)
    assert before == {path.name: path.read_bytes() for path in finished.iterdir() if path.suffix in (".png", ".svg")}


def test_without_matplotlib_the_page_is_there_and_pictures_say_what_is_missing(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    write.write(finished)
    with pytest.raises(ArgumentError, match=r"fastdp-dask\[report\]"):
        figures.write_figures(finished)


def test_an_unfinished_folder_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(StoreError, match="run_dir must be the run folder of a finished fit"):
            content.gather(folder)
    assert main(["report", str(tmp_path)]) == 1


def test_a_seeded_run_says_so(finished: Path) -> None:
    report = content.gather(finished)
    assert report["guarantee"]["seeded"]
    assert "Noise from a seed" in page.html(report)
    report["guarantee"]["seeded"] = False
    assert "Noise from a seed" not in page.html(report)


def test_the_example_makes_a_report(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "report.py"
    done = subprocess.run(
        [sys.executable, str(example), "--out", str(tmp_path / "pay")],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert "[0.025" in done.stdout
    assert (tmp_path / "pay" / "report.html").stat().st_size > 10_000
