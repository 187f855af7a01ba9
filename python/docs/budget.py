"""Budget, choice of settings, and a privacy officer's check."""

import tempfile
from pathlib import Path

import numpy as np

import rounds

# What does noise cost? The least noise for ε = 1 over 200 batches of a hundredth of the rows.
asked = dict(delta=1e-6, sampling_rate=0.01, steps=200)
noise = rounds.account("subsampled-gaussian", epsilon=1.0, **asked)["noise_multiplier"]
print(f"noise multiplier {noise:.3f} for epsilon 1")
print(f"epsilon {rounds.account('subsampled-gaussian', noise_multiplier=2 * noise, **asked)['epsilon']:.3f} for twice the noise")

# Choose settings on rows that are no secret: simulations, which anybody can repeat.
random = np.random.default_rng(1)


def rows(count):
    X = random.uniform(-1, 1, (count, 20)).astype(np.float32)
    return X, (X[:, :5].sum(axis=1) > 0).astype(int)


(X_public, y_public), (X, y) = rows(5_000), rows(20_000)
domain = rounds.Domain.matrix(20, (-1.0, 1.0), classes=["0", "1"])
found = {}
for rate in (0.1, 1.0, 4.0):
    run = rounds.train(X_public, y_public, domain=domain, epsilon=1.0, delta=1e-6, seed=1, learning_rate=rate)
    found[rate] = run.outcome["held_out"]["test_accuracy"]
print({rate: round(accuracy, 3) for rate, accuracy in found.items()})
best = max(found, key=found.get)

# Release twice from the private rows, each for a part of the budget.
folder = Path(tempfile.mkdtemp())
for name, epsilon in {"first": 0.5, "second": 0.25}.items():
    rounds.train(X, y, domain=domain, epsilon=epsilon, delta=1e-6, learning_rate=best, model=folder / name)

# Or let the private rows choose: the budget pays for all trials and their scores, and the winner alone is released.
grid = {"learning_rate": [0.1, 1.0, 4.0]}
tuned = rounds.tune(X, y, domain=domain, grid=grid, trials=4, epsilon=0.25, delta=1e-6, model=folder / "tuned")
print("tuned:", tuned.privacy["claim"], "at most epsilon 0.25 in all:", tuned.privacy["epsilon"] <= 0.25)

# The officer has the files alone: every statement is computed again, all of it.
for name in ("first", "second", "tuned"):
    verified = rounds.verify(folder / name)
    print(name, "holds:", verified["holds"], "epsilon below its budget:", verified["statement"]["epsilon"] <= 0.5)
together = rounds.compose([folder / "first", folder / "second"])["together"]
print(f"first and second together epsilon {together['epsilon']:.3f}, less than the sum 0.75")

# A ledger holds what all runs on these rows may spend, whatever their settings follow from.
ledger = folder / "customers.ledger"
rounds.new_ledger(ledger, data="customers", domain=domain, rows=20_000, epsilon=1.0, delta=1e-5)
for epsilon in (0.5, 0.5, 1.0):
    try:
        rounds.train(X, y, domain=domain, epsilon=epsilon, delta=1e-6, name="customers", ledger=ledger)
        print(f"epsilon {epsilon}: released")
    except ValueError as error:
        print(f"epsilon {epsilon}:", str(error).split(": ", 1)[1])
account = rounds.ledger(ledger)
print(f"all of them together: epsilon {account['budget']['epsilon']}, delta {account['budget']['delta']}, of which {account['left']:.0%} is left")
