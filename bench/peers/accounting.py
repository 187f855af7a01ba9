"""The reference accounting library: ε of DP-SGD by privacy loss distributions, add/remove adjacency."""

import time

CASES = [
    {"sampling_rate": 500 / 60_000, "noise_multiplier": 1.0, "steps": 1200, "delta": 1e-5},
    {"sampling_rate": 256 / 60_000, "noise_multiplier": 1.1, "steps": 14_063, "delta": 1e-5},
    {"sampling_rate": 4000 / 60_000, "noise_multiplier": 5.0, "steps": 150, "delta": 1e-5},
]


def epsilon(case):
    """(ε, seconds) without the time to import the library."""
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    started = time.perf_counter()
    accountant = PLDAccountant()
    event = dp_accounting.PoissonSampledDpEvent(
        case["sampling_rate"], dp_accounting.GaussianDpEvent(case["noise_multiplier"])
    )
    accountant.compose(event, case["steps"])
    value = accountant.get_epsilon(case["delta"])
    return value, time.perf_counter() - started
