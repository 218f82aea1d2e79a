"""What the charges of a ledger cost together when their Rényi curves are added instead of their epsilons."""

from __future__ import annotations

from collections.abc import Sequence

from fastdp_dask.errors import ArgumentError
from fastdp_dask.ledger.amounts import total
from fastdp_dask.ledger.records import Charge
from fastdp_dask.privacy import epsilon_of


def composed_epsilon(charges: Sequence[Charge]) -> float:
    """epsilon of all charges together at the delta that they spend together.

    ε = Σ_{j without events} ε_j + min_α { Σ_{j with events} ε_j(α) converted at Σ_{j with events} δ_j }, and never
    more than the plain sum Σ_j ε_j.

    Parameters
    ----------
    charges : sequence of Charge
        Public.

    Returns
    -------
    float
        epsilon >= 0, rounded up; 0 for no charge.

    Notes
    -----
    A statement about the charges as they stand.  What a ledger still grants is decided by plain sums.

    Source: Mironov (2017), Proposition 1; conversion by Canonne, Kamath & Steinke (2020), Proposition 12.
    """
    described = [charge for charge in charges if charge.events]
    plain = total(charge.amount for charge in charges).rounded_up().epsilon
    if not described:
        return plain
    others = total(charge.amount for charge in charges if not charge.events).rounded_up().epsilon
    delta = total(charge.amount for charge in described).rounded_down().delta
    try:
        together = epsilon_of([event for charge in described for event in charge.events], delta)
    except ArgumentError:  # delta beyond 1: no statement but the plain one
        return plain
    return min(plain, others + together)
