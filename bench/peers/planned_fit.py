"""What estimators of other libraries share that train softmax regression by the plan of a run of `rounds`: its rounds, batches, steps,
momentum and clip norm."""

import numpy as np


class Planned:
    def __init__(self, epsilon, delta, plan, classes, seed):
        self.classes, self.seed, self.epsilon, self.delta = np.asarray(classes), seed, epsilon, delta
        self.rounds, self.batch = int(plan["rounds"]), float(plan["batch-size"])
        self.clip, self.momentum = float(plan["clip-norm"]), float(plan["momentum"])
        # Sizes of the steps over the rounds: constant, or down to 0.
        schedule, rounds = plan.get("learning-rate-schedule", "constant"), np.arange(self.rounds)
        factors = {"constant": np.ones(self.rounds), "linear": 1 - rounds / self.rounds}[schedule]
        self.steps = float(plan["learning-rate"]) * factors

    def score(self, X, y):
        outputs = X @ self.weights.T + self.bias
        return float(np.mean(self.classes[outputs.argmax(axis=1)] == y))
