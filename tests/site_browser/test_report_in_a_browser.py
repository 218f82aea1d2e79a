"""The report in a real browser: it fits, it is quiet, its slider obeys the keyboard, and nothing in it is nameless."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from browser import Tab, browser
from helpers import fit
from programs import needs

from fastdp_dask import LinearRegression
from fastdp_dask.report import write

pytestmark = pytest.mark.site

NARROW, WIDE = (360, 800), (1280, 900)
NAMES = [
    "age",
    "hours",
    *(f"region=a rather long name of region {k}" for k in range(4)),
    "<img src=x onerror=alert(1)>",
]


@pytest.fixture(scope="module", params=["ihm", "adassp"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with long and hostile names; both solvers have a picture of one person."""
    generator = np.random.default_rng(0)
    n = 20_000
    region = generator.integers(0, 4, n)
    X = np.column_stack(
        [generator.uniform(18, 80, n), generator.uniform(0, 60, n), np.eye(4)[region], generator.uniform(-1, 1, n)]
    )
    y = 20 + 0.8 * X[:, 0] + 0.5 * X[:, 1] + 3 * region + generator.normal(0, 5, n)
    folder = tmp_path_factory.mktemp("browser") / "run"
    model = LinearRegression(
        epsilon=1.0, delta=1e-9, bounds_X=([18, 0, 0, 0, 0, 0, -1], [80, 60, 1, 1, 1, 1, 1]), groups=[[2, 3, 4, 5]],
        bounds_y=(0, 200), run_dir=folder, solver=request.param, uncertainty=True, random_state=5,
    )  # fmt: skip
    fit(model, X, y, feature_names=NAMES, source="made-up")
    return write.write(folder)[0]


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    needs("chromium")
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
def test_it_fits_and_is_quiet(page: Path, tab: Tab, size: tuple[int, int], dark: bool, tmp_path: Path) -> None:
    """No sideways scrolling but in tables, no word cut off a picture, no complaint, no request but the page."""
    pytest.importorskip("PIL")
    from PIL import Image

    tab.complaints.clear()
    tab.addresses.clear()
    tab.open(page, width=size[0], height=size[1], dark=dark)
    assert tab.value("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert tab.value(
        "[...document.querySelectorAll('body *:not(.skip)')].filter(e => !e.closest('.scroll') && !e.closest('svg'))"
        ".every(e => e.getBoundingClientRect().right <= innerWidth + 1)"
    )
    # Texts of a picture lie within it: one that sticks out is cut.
    assert tab.value(
        "[...document.querySelectorAll('svg text')].every(t => {"
        "const a = t.getBoundingClientRect(), b = t.closest('svg').getBoundingClientRect();"
        "return a.left >= b.left - 1 && a.right <= b.right + 1 && a.bottom <= b.bottom + 1})"
    )
    tab.picture(tmp_path / "page.png")
    shown = np.asarray(Image.open(io.BytesIO((tmp_path / "page.png").read_bytes())).convert("L"), dtype=float)
    assert shown.shape[1] == size[0]
    assert (np.median(shown) < 80) == dark  # the ground
    assert np.std(shown) > 5  # and something on it
    assert tab.complaints == []
    assert {address for address in tab.addresses if not address.startswith("data:")} == {page.as_uri()}


def test_the_policy_stops_what_is_not_ours(page: Path, tab: Tab, tmp_path: Path) -> None:
    """The same page with a foreign script in it: it does not run, and the browser says so."""
    text = page.read_text()
    (tmp_path / "changed.html").write_text(text.replace("</main>", "<script>document.title = 'taken'</script></main>"))
    tab.complaints.clear()
    tab.open(tmp_path / "changed.html", width=WIDE[0], height=WIDE[1], dark=False)
    assert tab.value("document.title") == "Private linear regression: report"
    assert any("Content Security Policy" in complaint for complaint in tab.complaints)


def test_the_slider_obeys_the_keyboard(page: Path, tab: Tab) -> None:
    tab.open(page, width=WIDE[0], height=WIDE[1], dark=False)
    tab.value("document.getElementById('share').focus()")
    assert tab.value("document.activeElement.id") == "share"
    read = "document.getElementById('share-text').textContent"
    curve = "document.querySelector('.without').getAttribute('d')"
    spoken = "document.getElementById('share').getAttribute('aria-valuetext')"
    first, drawn = tab.value(read), tab.value(curve)
    assert "the most that this run allows" in first
    assert "the most that this run allows" in tab.value(spoken)
    tab.press("ArrowRight", 39)
    assert tab.value(read) != first
    assert "More than this run allows" in tab.value(read)
    tab.press("End", 35)
    assert tab.value(curve) != drawn
    assert tab.value("Number(document.getElementById('share').value)") == 100
    tab.press("Home", 36)
    assert "This run allows at most" in tab.value(read)
    assert not any(word in tab.value(curve) + tab.value(read) for word in ("NaN", "Infinity"))


def test_one_can_tab_to_everything_that_acts(page: Path, tab: Tab) -> None:
    tab.open(page, width=NARROW[0], height=NARROW[1], dark=False)
    reached = set()
    for _ in range(60):
        tab.press("Tab", 9)
        reached.add(tab.value("document.activeElement.outerHTML.slice(0, 60)"))
    assert any("skip" in start for start in reached)
    assert any('id="share"' in start for start in reached)
    assert sum('class="scroll"' in start for start in reached) >= 1  # tables that scroll sideways


def test_an_assistive_technology_finds_headings_labels_and_tables(page: Path, tab: Tab) -> None:
    tab.open(page, width=WIDE[0], height=WIDE[1], dark=False)
    tree = tab.tree()
    headings = [name for role, name in tree if role == "heading"]
    for wanted in ("Private linear regression: report", "What is guaranteed", "One person’s share", "Coefficients"):
        assert wanted in headings
    sliders = [name for role, name in tree if role == "slider"]
    assert len(sliders) == 1
    assert "one person’s" in sliders[0]
    for role in ("table", "image", "navigation", "main", "link", "status"):
        names = [name for found, name in tree if found == role or (role == "image" and found in ("img", "image"))]
        assert names, role
        if role in ("table", "image", "navigation", "link"):
            assert all(names), role
    assert {"rowheader", "columnheader"} <= {role for role, _ in tree}
