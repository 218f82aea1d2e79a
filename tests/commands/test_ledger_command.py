"""`fastdp ledger` and `fastdp fit --ledger`: exit codes and what is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_cases import PAPER, SEEDS, make_store, run

from fastdp_dask.commands.app import main
from fastdp_dask.ledger import Ledger
from fastdp_dask.privacy import GaussianEvent


def ledger_at(path: Path, epsilon: float = 6.0, delta: float = 1e-5) -> Path:
    assert main(["ledger", "init", str(path), "--epsilon", str(epsilon), "--delta", str(delta)]) == 0
    return path


def shown(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    capsys.readouterr()
    assert main(["ledger", "show", str(path), "--json"]) == 0
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    return document


def test_init_show_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = ledger_at(tmp_path / "ledger.db", 1.0, 1e-6)
    assert "epsilon = 1, delta = 1e-6 to spend" in capsys.readouterr().out
    Ledger(path).charge(0.3, 1e-7, mechanism="by [hand]", events=[GaussianEvent(noise_multiplier=60.0)], run_id="one")
    assert main(["ledger", "show", str(path)]) == 0
    text = capsys.readouterr().out
    rows = {words[1]: words[3:] for line in text.splitlines() if len(words := line.split()) > 5 and words[0] == "│"}
    assert rows["budget"][:3] == ["1", "│", "1e-6"]
    assert rows["spent"][:3] == ["0.3", "│", "1e-7"]
    assert rows["remaining"][:3] == ["0.7", "│", "9e-7"]
    assert "by [hand]" in text
    assert "Composed as one Rényi sum the charges so far cost epsilon = 0." in text
    assert main(["ledger", "verify", str(path)]) == 0
    assert "1 charges, all as they were written. Remaining: epsilon = 0.7, delta = 9e-7" in capsys.readouterr().out


def test_show_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = ledger_at(tmp_path / "ledger.db", 1.0, 1e-6)
    event = GaussianEvent(noise_multiplier=60.0)
    Ledger(path).charge(0.3, 1e-7, mechanism="test", events=[event], run_id="one")
    document = shown(path, capsys)
    assert document["budget"] == {"epsilon": 1.0, "delta": 1e-6}
    assert document["spent"] == {"epsilon": 0.3, "delta": 1e-7}
    assert document["remaining"] == {"epsilon": 0.7, "delta": 9e-7}
    (charge,) = document["charges"]  # type: ignore[misc]
    assert {key: charge[key] for key in ("number", "epsilon", "delta", "mechanism", "run_id")} == {
        "number": 1, "epsilon": 0.3, "delta": 1e-7, "mechanism": "test", "run_id": "one",
    }  # fmt: skip
    assert charge["events"] == [event.to_dict()]
    assert 0 < document["composed"]["epsilon"] <= 0.3  # type: ignore[index]


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (["init", "FILE", "--epsilon", "0", "--delta", "1e-6"], 1, "epsilon must be a finite number > 0"),
        (["init", "FILE", "--epsilon", "nan", "--delta", "1e-6"], 1, "epsilon must be a finite number > 0"),
        (["init", "FILE", "--epsilon", "1", "--delta", "1"], 1, "delta must satisfy"),
        (["init", "FILE", "--epsilon", "1"], 2, "--delta"),
        (["show", "FILE"], 1, "does not exist"),
        (["verify", "FILE"], 1, "does not exist"),
        (["spend", "FILE"], 2, "spend"),
    ],
)
def test_refusals_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, named: str
) -> None:
    given = [str(tmp_path / "ledger.db") if word == "FILE" else word for word in arguments]
    assert main(["ledger", *given]) == code
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert captured.out == ""
    assert line.startswith("fastdp: error: ")
    assert named in line
    assert list(tmp_path.iterdir()) == []


def test_damage_is_said_by_every_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = ledger_at(tmp_path / "ledger.db")
    store = make_store(tmp_path / "store", 500, 256)
    path.write_bytes(b"")
    for arguments in (
        ["ledger", "show", path], ["ledger", "verify", path],
        ["fit", store, *PAPER, *SEEDS, "--out", tmp_path / "run", "--ledger", path],
    ):  # fmt: skip
        assert main([str(word) for word in arguments]) == 1
        assert "is damaged: it is empty" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert main(["ledger", "init", str(path), "--epsilon", "1", "--delta", "1e-6"]) == 1
    assert path.read_bytes() == b""


def test_fit_is_charged_once_and_then_refused_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, store = ledger_at(tmp_path / "ledger.db"), make_store(tmp_path / "store", 500, 256)
    fit = ["fit", str(store), *PAPER, *SEEDS, "--ledger", str(path), "--out"]
    assert main([*fit, str(tmp_path / "one")]) == 0
    first = (tmp_path / "one" / "model.json").read_bytes()
    document = shown(path, capsys)
    assert document["spent"] == {"epsilon": 5.0, "delta": 1e-6}
    (charge,) = document["charges"]  # type: ignore[misc]
    assert charge["run_id"] == json.loads((tmp_path / "one" / "plan.json").read_text())["run_id"]
    assert [event["kind"] for event in charge["events"]] == ["mixing", "gaussian", "laplace", "failure"]
    assert main([*fit, str(tmp_path / "one")]) == 0  # the same run: nothing new is spent
    assert (tmp_path / "one" / "model.json").read_bytes() == first
    assert shown(path, capsys) == document
    assert main([*fit, str(tmp_path / "two")]) == 3
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("fastdp: error: ledger ")
    assert "expected at most epsilon=1 and delta=0.000009, which remain, got epsilon=5" in line or "delta=9e-6" in line
    assert not (tmp_path / "two").exists()
    assert shown(path, capsys) == document
    assert main(["ledger", "verify", str(path)]) == 0


def test_a_store_elsewhere_is_another_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit = [*PAPER, *SEEDS, "--out", str(tmp_path / "run")]
    assert main(["fit", str(make_store(tmp_path / "a", 500, 256)), *fit]) == 0
    assert main(["fit", str(make_store(tmp_path / "b", 500, 256)), *fit]) == 1
    assert "with another source" in capsys.readouterr().err


def test_exit_code_of_the_process(tmp_path: Path) -> None:
    path, store = ledger_at(tmp_path / "ledger.db", 1.0), make_store(tmp_path / "store", 500, 256)
    refused = run("fit", store, *PAPER, "--out", tmp_path / "run", "--ledger", path)
    assert refused.returncode == 3
    assert "Do not retry" in refused.stderr
