//! Private and parallel stochastic convex optimisation on multicore processors: problems, the counting oracle,
//! noise mechanisms, factorisations, accountants and optimisers.

pub mod problem;
