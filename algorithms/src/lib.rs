//! Private and parallel stochastic convex optimisation.

pub mod factorization;
