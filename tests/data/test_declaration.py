"""Declared bounds: what is read from a file, what is refused, and the way through a store's attributes."""

from __future__ import annotations

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from data_cases import BOUNDS, BOUNDS_TOML
from hypothesis import given
from hypothesis import strategies as st

from fastdp_dask.data import Declaration, read_declaration
from fastdp_dask.errors import ArgumentError, BoundsError


def test_toml_json_and_mapping_give_the_same_declaration(tmp_path: Path) -> None:
    (tmp_path / "bounds.toml").write_text(BOUNDS_TOML)
    (tmp_path / "bounds.json").write_text(json.dumps(BOUNDS))
    declaration = read_declaration(BOUNDS)
    assert read_declaration(tmp_path / "bounds.toml") == declaration
    assert read_declaration(str(tmp_path / "bounds.json")) == declaration
    assert declaration.feature_names == ("distance", "origin=EWR", "origin=JFK", "origin=LGA", "late")
    assert declaration.bounds_X == ((0, 5000), (0, 1), (0, 1), (0, 1), (0, 1))
    assert declaration.groups == ((1, 2, 3),)
    assert (declaration.target, declaration.bounds_y) == ("delay", (-60, 180))
    assert declaration.n_features == 5


def test_selected_features_keep_the_order_asked_for() -> None:
    declaration = read_declaration(BOUNDS, features=["origin", "distance"])
    assert declaration.feature_names == ("origin=EWR", "origin=JFK", "origin=LGA", "distance")
    assert declaration.groups == ((0, 1, 2),)
    assert read_declaration(read_declaration(BOUNDS), features=["origin", "distance"]) == declaration


def test_whole_numbers_are_labels() -> None:
    bounds = copy.deepcopy(BOUNDS)
    bounds["features"] = {"month": {"categories": [1, 2, 12]}}
    assert read_declaration(bounds).feature_names == ("month=1", "month=2", "month=12")


def test_target_may_come_from_the_caller() -> None:
    bounds = copy.deepcopy(BOUNDS)
    del bounds["target"]["name"]
    assert read_declaration(bounds, target="delay") == read_declaration(BOUNDS)
    with pytest.raises(BoundsError, match="no name"):
        read_declaration(bounds)


def test_a_declaration_cannot_change() -> None:
    declaration = read_declaration(BOUNDS)
    hash(declaration)
    with pytest.raises(dataclasses.FrozenInstanceError):
        declaration.target = "other"  # type: ignore[misc]


def test_estimator_arguments_are_one_vector_of_lower_and_one_of_upper_ends() -> None:
    arguments = read_declaration(BOUNDS).estimator_arguments()
    assert arguments == {
        "bounds_X": ([0, 0, 0, 0, 0], [5000, 1, 1, 1, 1]),
        "bounds_y": (-60, 180),
        "groups": [[1, 2, 3]],
    }


finite = st.floats(allow_nan=False, allow_infinity=False, width=64)
intervals = st.tuples(finite, finite).filter(lambda p: p[0] != p[1]).map(lambda p: (min(p), max(p)))


@st.composite
def declarations(draw: st.DrawFn) -> Declaration:
    names = draw(st.lists(st.text(min_size=1, max_size=8), min_size=2, max_size=8, unique=True))
    bounds = draw(st.lists(intervals, min_size=len(names) - 1, max_size=len(names) - 1))
    n_grouped = draw(st.integers(0, len(names) - 1))
    bounds[:n_grouped] = [(0.0, 1.0)] * n_grouped
    groups = [list(range(n_grouped))] if n_grouped else []
    return Declaration(names[:-1], bounds, groups, names[-1], draw(intervals))


@given(declarations())
def test_round_trip_through_json_attributes(declaration: Declaration) -> None:
    assert Declaration.from_dict(json.loads(json.dumps(declaration.to_dict()))) == declaration


def test_round_trip_with_categories() -> None:
    declaration = read_declaration(BOUNDS)
    assert declaration.categories == (("origin", ("EWR", "JFK", "LGA")),)
    assert Declaration.from_dict(json.loads(json.dumps(declaration.to_dict()))) == declaration


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("target", "lower"), 180, r"target 'delay' need lower < upper, got lower=180\.0, upper=180\.0"),
        (("target", "lower"), None, "target 'delay' needs its lower bound"),
        (
            ("target", "upper"),
            float("nan"),
            "upper bound of target 'delay' must be a finite number, got upper=nan",
        ),
        (("target",), None, "target must be a table"),
        (("features", "distance", "lower"), 6000, "feature 'distance' need lower < upper"),
        (
            ("features", "distance", "upper"),
            float("inf"),
            "feature 'distance' must be a finite number, got upper=inf",
        ),
        (("features", "distance", "upper"), 10**400, "feature 'distance' must be a finite number"),
        (("features", "distance", "upper"), "5000", "feature 'distance' must be a finite number, got str"),
        (("features", "distance", "upper"), True, "feature 'distance' must be a finite number, got bool"),
        (("features", "distance"), {"lower": 0}, "feature 'distance' needs its upper bound"),
        (("features", "distance"), {"low": 0, "upper": 1}, "unknown entry 'low': expected lower, missing, missing_"),
        (("features", "distance"), 5, "features.distance must be a table"),
        (("features", "delay"), {"lower": 0, "upper": 1}, "target 'delay' is also a feature"),
        (("features", "origin", "lower"), 0, "unknown entry 'lower': expected categories"),
        (("features", "origin", "categories"), [], "at least one label"),
        (("features", "origin", "categories"), "EWR", "categories of 'origin' must be a list"),
        (("features", "origin", "categories"), ["EWR", "EWR"], "'origin=EWR' twice"),
        (("features", "origin", "categories"), [1, "1"], "'origin=1' twice"),
        (("features", "origin", "categories"), [True, False], "lower = 0 and upper = 1"),
        (("features",), {}, "at least one name"),
        (("extra",), 1, "unknown entry 'extra'"),
    ],
)
def test_what_is_wrong_is_named(place: tuple[str, ...], value: Any, message: str) -> None:
    bounds = copy.deepcopy(BOUNDS)
    table = bounds
    for key in place[:-1]:
        table = table[key]
    table[place[-1]] = value
    with pytest.raises(BoundsError, match=message):
        read_declaration(bounds)


def test_arguments_that_contradict_the_file() -> None:
    with pytest.raises(BoundsError, match="target must be 'delay' as in bounds, got target='other'"):
        read_declaration(BOUNDS, target="other")
    with pytest.raises(BoundsError, match=r"feature 'altitude' has no bounds.*\[features.altitude\]"):
        read_declaration(BOUNDS, features=["distance", "altitude"])
    with pytest.raises(BoundsError, match="'distance' twice"):
        read_declaration(BOUNDS, features=["distance", "distance"])
    with pytest.raises(BoundsError, match="features must be a list, got str"):
        read_declaration(BOUNDS, features="distance")  # type: ignore[arg-type]


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(BoundsError, match=r"absent\.toml cannot be read"):
        read_declaration(tmp_path / "absent.toml")
    (tmp_path / "broken.toml").write_text("[target\n")
    with pytest.raises(ArgumentError, match=r"broken\.toml cannot be read"):
        read_declaration(tmp_path / "broken.toml")


@pytest.mark.parametrize(
    ("name", "text"),
    [("deep.json", "[" * 200_000), ("deep.json", '{"features":' * 200_000), ("deep.toml", "a = " + "[" * 200_000)],
)
def test_brackets_without_end_are_named(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BoundsError, match=rf"{name} cannot be read: its brackets are nested too deep"):
        read_declaration(tmp_path / name)


@pytest.mark.parametrize(
    "missing",
    [
        [1, 2], 5, "abc", {"distance": 1}, [["distance"]], [["distance", 1.0, 1]], [["distance", 1.0, True, 0]],
        [["distance", [1.0], True]], [[["distance"], 1.0, False]], [[3, 1.0, False]], [{"a": 1, "b": 2, "c": 3}],
    ],
)  # fmt: skip
def test_rules_of_another_form_in_a_store_are_refused(missing: Any) -> None:
    attributes = read_declaration(BOUNDS).to_dict()
    with pytest.raises(BoundsError, match="missing"):
        Declaration.from_dict({**attributes, "missing": missing})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bounds_X": [(0, 1)]}, "expected 3, got 1"),
        ({"bounds_X": [(0, 1), (0, 1), (0, 1, 2)]}, "one \\(lower, upper\\), got 3"),
        ({"feature_names": ["a", "b", "a"]}, "'a' twice"),
        ({"feature_names": ["a", "b", 3]}, "non-empty strings, got int"),
        ({"groups": [[0, 3]]}, "column indices from 0 to 2, got 3"),
        ({"groups": [[0, True]]}, "column indices from 0 to 2, got True"),
        ({"groups": [[0, 1], [1]]}, "1 twice"),
        ({"groups": [[]]}, "empty group"),
        ({"groups": [[2]]}, "'c' is in a group: expected bounds inside \\[0, 1\\]"),
        ({"categories": [("s", ["x"])]}, "categories of 's' must be the columns of one declared group"),
        ({"categories": [("s", ["x"], 1)]}, "\\(source, labels\\), got 3"),
    ],
)
def test_parts_must_fit_together(changes: dict[str, Any], message: str) -> None:
    parts: dict[str, Any] = {
        "feature_names": ["a", "b", "c"],
        "bounds_X": [(0, 1), (0, 1), (-1, 1)],
        "groups": [[0, 1]],
        "target": "t",
        "bounds_y": (0, 1),
    }
    Declaration(**parts)
    with pytest.raises(BoundsError, match=message):
        Declaration(**{**parts, **changes})


def test_a_group_of_unknown_source_cannot_be_selected() -> None:
    declaration = Declaration(["a", "b"], [(0, 1), (0, 1)], [[0, 1]], "t", (0, 1))
    with pytest.raises(BoundsError, match="groups without categories"):
        read_declaration(declaration, features=["a"])
    assert Declaration.from_dict({**declaration.to_dict(), "groups": None}).groups == ()
