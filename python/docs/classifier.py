"""A private classifier of a data frame: a schema, a release, its statement, and quality on public rows."""

import numpy as np
import pandas as pd

import rounds

# Made-up customers, of whom some stay.
random = np.random.default_rng(0)


def customers(count):
    age, plan = random.integers(18, 90, count), random.choice(["basic", "full"], count)
    return pd.DataFrame({"age": age, "plan": plan, "stays": np.where(age + 30 * (plan == "full") > 65, "yes", "no")})


private, public = customers(20_000), customers(1_000)

# 1. Draft a schema. It reads the rows, so it covers no claim until a person has checked every line.
print(rounds.Schema.draft(private, label="stays"))

# 2. Check it: bounds, categories and classes that are known without the rows.
domain = rounds.Domain.parse("""
[columns.age]
kind = "number"
bounds = [0, 100]

[columns.plan]
kind = "category"
values = ["basic", "full"]

[label]
column = "stays"
classes = ["no", "yes"]
""")

# 3. Train. The noise is drawn from a key of the operating system: a release.
model = rounds.LogisticRegression(epsilon=1.0, delta=1e-6, domain=domain).fit(private, private["stays"])
print("claim:", model.privacy_["claim"], "epsilon", round(model.privacy_["epsilon"], 3), "per", model.privacy_["unit"])
print("features:", domain.feature_names, "coefficients:", model.coef_.shape)

# 4. Judge it on rows that are public; accuracy on private ones is covered by no statement.
print("accuracy above 0.9:", model.score(public, public["stays"]) > 0.9)
