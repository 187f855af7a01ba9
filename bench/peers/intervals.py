"""Medians of few samples with bootstrap intervals (percentiles of 4,000 resamples, 95 %), from a fixed seed."""

import numpy as np

RESAMPLES = 4000


def resampled(samples, seed):
    samples = np.asarray(samples)
    drawn = np.random.default_rng(seed).integers(0, len(samples), (RESAMPLES, len(samples)))
    return np.median(samples[drawn], axis=1)


def median(samples):
    low, high = np.percentile(resampled(samples, 1), [2.5, 97.5])
    return float(np.median(samples)), float(low), float(high)


def ratio(above, below):
    quotients = resampled(above, 1) / resampled(below, 2)
    low, high = np.percentile(quotients, [2.5, 97.5])
    return float(np.median(above) / np.median(below)), float(low), float(high)
