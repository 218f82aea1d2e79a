"""Pure privacy arithmetic: Rényi curves, conversion, calibration, events and noise floors.  NumPy and SciPy
only.

Every function takes public numbers and returns the safe side of the exact value.
"""

from fastdp_dask.privacy.calibration import calibrate_gamma, calibrate_gaussian, smallest_noise
from fastdp_dask.privacy.conversion import epsilon_and_order, rdp_to_epsilon
from fastdp_dask.privacy.events import (
    Event,
    FailureEvent,
    GaussianEvent,
    LaplaceEvent,
    MixingEvent,
    compose,
    epsilon_of,
    event_from_dict,
)
from fastdp_dask.privacy.exact import certified_epsilon, mixing_delta, mixing_epsilon
from fastdp_dask.privacy.floors import (
    beta_free,
    beta_leverage,
    beta_public,
    coherence_bound_public,
    coherence_bound_uniform,
    leverage_bound,
)
from fastdp_dask.privacy.rdp import fast_mixing_rdp_paper, gaussian_rdp, laplace_rdp, mixing_rdp
from fastdp_dask.privacy.routes import Floor, choose_floor
from fastdp_dask.privacy.theorem1 import fastmix_epsilon

__all__ = [
    "Event",
    "FailureEvent",
    "Floor",
    "GaussianEvent",
    "LaplaceEvent",
    "MixingEvent",
    "beta_free",
    "beta_leverage",
    "beta_public",
    "calibrate_gamma",
    "calibrate_gaussian",
    "certified_epsilon",
    "choose_floor",
    "coherence_bound_public",
    "coherence_bound_uniform",
    "compose",
    "epsilon_and_order",
    "epsilon_of",
    "event_from_dict",
    "fast_mixing_rdp_paper",
    "fastmix_epsilon",
    "gaussian_rdp",
    "laplace_rdp",
    "leverage_bound",
    "mixing_delta",
    "mixing_epsilon",
    "mixing_rdp",
    "rdp_to_epsilon",
    "smallest_noise",
]
