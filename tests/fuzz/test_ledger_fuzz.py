"""Any sequence of charges, and any damage to the file: sums are exact, and a ledger is never taken for another."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

from fuzz_cases import examples, listening, odd, scratch
from hypothesis import given
from hypothesis import strategies as st

from fastdp_dask import Ledger
from fastdp_dask.errors import BudgetError

AMOUNTS = st.sampled_from([0.1, 0.2, 0.3, 1.0, 0.125, 1e-12, 0.7, 3, 1e-300, 1e5]) | odd()
DELTAS = st.sampled_from([0, 1e-9, 1e-300, 0.1, 0.3]) | odd()


@examples(400)
@given(
    st.lists(st.tuples(AMOUNTS, DELTAS, st.sampled_from([None, "run 1", "run 2", ""])), min_size=1, max_size=6),
    st.sampled_from([1.0, 0.3, 10]),
)
def test_any_charges(charges: list[tuple[Any, Any, str | None]], budget: float) -> None:
    with scratch() as folder:
        ledger = Ledger.create(Path(folder) / "budget", epsilon=budget, delta=0.5)
        spent, paid, runs, half = [Decimal(0), Decimal(0)], 0, {}, Decimal("0.5")
        for epsilon, delta, run_id in charges:
            with listening() as told:
                ledger.charge(epsilon, delta, mechanism="fuzz", run_id=run_id)
            if told.error is None:
                amount = (Decimal(str(epsilon)), Decimal(str(delta)))
                if run_id is not None and run_id in runs:
                    assert runs[run_id] == amount  # paid before, and for the same
                    continue
                runs[run_id], paid = amount, paid + 1
                spent = [a + b for a, b in zip(spent, amount, strict=True)]
            elif isinstance(told.error, BudgetError) and run_id not in runs:
                asked = Decimal(str(epsilon)), Decimal(str(delta))
                small = asked[0] < Decimal("1e-12")
                assert small or asked[0] + spent[0] > Decimal(str(budget)) or asked[1] + spent[1] > half
        assert spent[0] <= Decimal(str(budget))
        assert ledger.verify() == len(ledger.charges()) == paid
        assert sum(charge.amount.epsilon for charge in ledger.charges()) == spent[0]


@examples(200)
@given(st.data())
def test_any_damage(data: st.DataObject) -> None:
    """A byte changed, a tail cut or appended: the same budget is read, or none at all."""
    with scratch() as folder:
        path = Path(folder) / "budget"
        ledger = Ledger.create(path, epsilon=1.0, delta=0.5)
        ledger.charge(0.25, 1e-6, mechanism="fuzz")
        raw = bytearray(path.read_bytes())
        kind = data.draw(st.sampled_from(["change", "cut", "append"]))
        at = data.draw(st.integers(0, len(raw) - 1) | st.integers(0, 100))
        if kind == "change":
            raw[at] ^= data.draw(st.integers(1, 255))
        elif kind == "cut":
            del raw[at:]
        else:
            raw += data.draw(st.binary(min_size=1, max_size=8))
        path.write_bytes(raw)
        remaining = None
        with listening() as told:
            remaining = Ledger(path).remaining()
        assert (remaining is None) == (told.error is not None)
        assert remaining is None or remaining == (0.75, 0.499999)
