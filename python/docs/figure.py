"""A figure from the raw runs of a committed study: accuracy over ε where a person has 5, 20 or 100 rows."""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import rounds

repository = next(path for path in Path(__file__).resolve().parents if (path / "results").is_dir())
runs = rounds.results.load(repository / "results/2026-11-26/amd-epyc-2c-93cedc/user-level")
print(len(runs), "runs of", runs["algorithm"].nunique(), "algorithms")

chosen = runs[runs["problem"].str.endswith("by user") & (runs["method"] == "DP-SGD")]
table = chosen.groupby(["problem", "parameters.epsilon"])["value"].agg(["mean", "std", "count"]).round(2)
print(table)

figure, axes = plt.subplots(figsize=(6, 4))
for problem, group in table.reset_index().groupby("problem"):
    axes.errorbar(group["parameters.epsilon"], group["mean"], 1.96 * group["std"] / group["count"] ** 0.5, label=problem, marker="o")
axes.set(xscale="log", xlabel="ε", ylabel="accuracy in %")
axes.legend()
place = Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "figure.svg"
figure.savefig(place)
print("written:", place.name)
