"""Figure 1 of paper 003 again: the command runs the study, and its measurements are drawn."""

import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import rounds

# The study of the figure: formulas, a second. Others train models, and say so in the list of `python -m rounds list suites`.
study, folder = "paper/accelerated-figure-1", Path(tempfile.mkdtemp())
subprocess.run([sys.executable, "-m", "rounds", "run", study, "--out", folder], check=True, stdout=subprocess.DEVNULL)
runs = rounds.results.load(folder / study)
print(len(runs), "runs of", ", ".join(runs["algorithm"].unique()))

# One row a run; `curves` holds its lines, a name and points each.
step = runs[(runs["parameters.step-size"] == 0.5) & (runs["algorithm"] == "heavy-ball-error")]
print(step[["parameters.noise-level", "parameters.momentum"]].drop_duplicates().shape[0], "of them with step size 0.5")
levels = sorted(step["parameters.noise-level"].unique())
figure, panels = plt.subplots(1, len(levels), figsize=(8, 3.6), sharey=True, layout="constrained")
for axes, level in zip(panels, levels):
    for _, run in step[step["parameters.noise-level"] == level].sort_values("parameters.momentum").iterrows():
        line = None
        for (name, points), style in zip(run["curves"], (":", "-")):
            x, y = zip(*points)
            line, = axes.plot(x, y, style, color=line and line.get_color(), label=f"β = {run['parameters.momentum']}, {name}")
    axes.set(yscale="log", xlabel="rounds", title=f"noise level {level:g}")
panels[0].set_ylabel("error of heavy ball")
panels[-1].legend(fontsize="x-small", ncols=2)
place = Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "figure.svg"
figure.savefig(place)
print("written:", place.name)
