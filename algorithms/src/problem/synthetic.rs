//! Generators of synthetic data: the same data for the same seed, whatever machine and however many threads.
