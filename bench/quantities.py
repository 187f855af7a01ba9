"""What single studies are asked for: their quantities, and what the papers print beside them. claims.toml and published.toml use
these functions and those of studies.py.
"""

import functools
import glob
import json
import math
import os
import random
import statistics

from studies import *


# `default-steps`.


def default_step(data, kind, epsilon):
    """`default-steps`: runs of the default step, or of the best of ten; epsilon is None without privacy."""
    return best(chosen("default-steps", dataset=data, method=f"*{kind}", epsilon=epsilon))


def behind_best(data):
    """The most points by which the default step of DP-SGD is behind the best of ten."""
    two = ["best of ten steps", "default step"]
    return max(float.__sub__(*(mean(default_step(data, kind, epsilon)) for kind in two)) for epsilon in [0.1, 1, 10])


# Figure 1 of paper 000, and noise multipliers at sensitivity 1.


def published_accuracies(study, label, suffix=""):
    """Published means of a problem of a study of training, and our runs at the best of their parameters, or those of the problem with
    this suffix."""
    problem = next(problem for problem in definition(study)["problem"] if problem["label"] == label)
    for method in problem["method"]:
        if "published" in method:
            ours = [one for one in runs(study) if (one["problem"], one["method"]) == (label + suffix, method["label"])]
            if ours:
                yield {"quantity": f"{method['label']}: accuracy (%), {label}{suffix}", "published": method["published"],
                       "interval": method["published-interval"], "ours": best(ours)}


def published_accuracy(method):
    """What Figure 1 of paper 000 prints of a method on CIFAR-10, with its interval."""
    [one] = [one for problem in definition("paper/srg-figure-1-line-7")["problem"] for one in problem["method"] if one["label"] == method]
    return f"{one['published']:.2f} ± {one['published-interval']:.2f}"


def bisected(increasing, value):
    """The point between 1e-6 and 100 at which an increasing function has a value."""
    low, high = 1e-6, 100.0
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if increasing(middle) < value else (low, middle)
    return low


def gaussian_multiplier(epsilon, delta):
    """By the exact trade-off of the Gaussian mechanism."""
    cdf = statistics.NormalDist().cdf
    return 1 / bisected(lambda mu: cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * cdf(-mu / 2 - epsilon / mu), delta)


def renyi_multiplier(epsilon, delta):
    """By the best conversion from Rényi divergences (Canonne, Kamath, Steinke 2020)."""
    orders = [1 + 1.02 ** power for power in range(-200, 700)]
    log_delta = lambda rho: min((a - 1) * (a * rho - epsilon) + a * math.log1p(-1 / a) - math.log(a - 1) for a in orders)
    return 1 / math.sqrt(2 * bisected(lambda rho: math.exp(min(log_delta(rho), 0)), delta))


def at_renyi_noise():
    """Accuracies on MNIST in Figure 1 of paper 000 at the noise of the best conversion, less the published ones."""
    rows = list(published_accuracies("paper/srg-figure-1", "MNIST, 1 epoch, (0.1, 1e-6)-DP", " by Renyi divergences"))
    return [mean(row["ours"]) for row in rows], [row["published"] for row in rows]


# Paper 004: Table 1 and batch sizes.


def table_1_cells(method):
    """The best setting of a method of Table 1 of paper 004 at every n."""
    some = chosen("paper/srg-table-1", method=method + "*")
    return [best(among(some, n=n), least=True) for n in sorted(set(values(some, "n")))]


def rounds_of_table_1(method):
    rounds = [f"{some[0]['rounds']:,}" for some in table_1_cells(method)]
    return ", ".join(rounds) if len("".join(rounds)) < 20 else f"{rounds[0]} … {rounds[-1]}"


def queries_of_table_1(method):
    """Queries a row at the least and the largest n."""
    least, *_, largest = (some[0]["gradient_queries"] / some[0]["n"] for some in table_1_cells(method))
    short = lambda value: f"{value:.2f}" if value < 3 else f"{value:.1f}" if value < 10 else f"{value:.0f}"
    return short(least) if short(least) == short(largest) else f"{short(least)} … {short(largest)}"


def by_batch(method, size):
    return best(chosen("paper/srg-batch-size", method=method, batch_size=size), least=True)


# The rate study: risks against rounds, and the fewest rounds within 1.5 times the least risk of any method and T.


def rate_curves(population, **place):
    """The cells of each method at a place, by their rounds."""
    curves = {}
    for run in sorted(chosen("rate-study", problem=population, **place), key=lambda run: run["adaptive_rounds"]):
        curves.setdefault(run["algorithm"], []).append(run)
    return curves


def least_risk(curve):
    return min(curve, key=lambda run: statistics.fmean(run["excess"]))


def places(population, axis="rows"):
    return sorted({run[axis] for run in chosen("rate-study", problem=population)})


def fewest_rounds(curves, method, risk=lambda run: statistics.fmean(run["excess"])):
    """T by interpolation in logarithms, and whether it lies between measured ones; None if no T is enough."""
    level = math.log(1.5 * min(risk(least_risk(curve)) for curve in curves.values()))
    before = None
    for run in curves.get(method, []):
        here = math.log(run["adaptive_rounds"]), math.log(risk(run))
        if here[1] <= level:
            if before is None:
                return run["adaptive_rounds"], False
            share = (before[1] - level) / (before[1] - here[1])
            return math.exp(before[0] + share * (here[0] - before[0])), True
        before = here
    return None


def fewest_rounds_between(curves, method):
    """The 95 % interval of T over 400 resamples of the draws."""
    choices, found = random.Random(1), []
    for _ in range(400):
        drawn = choices.choices(range(20), k=20)
        found.append(fewest_rounds(curves, method, lambda run: statistics.fmean([run["excess"][draw] for draw in drawn])))
    cuts = statistics.quantiles([rounds[0] for rounds in found if rounds], n=40, method="inclusive")
    return cuts[0], cuts[-1]


def rounds_text(curves, method):
    rounds, inside = fewest_rounds(curves, method)
    low, high = fewest_rounds_between(curves, method)
    return f"{rounds:.3g} ({low:.3g} – {high:.3g})" if inside else f"≤ {rounds}"


def reached(population, method):
    """The numbers of rows at which some T of a method is enough."""
    return [n for n in places(population) if fewest_rounds(rate_curves(population, rows=n), method)]


def round_points(population, method):
    """(n, T) where T lies between measured ones."""
    found = [(n, fewest_rounds(rate_curves(population, rows=n), method)) for n in places(population)]
    return [(n, rounds[0]) for n, rounds in found if rounds and rounds[1]]


def risk_points(population, method, axis="rows"):
    """(x, least risk) without ends of grids; the least of all methods for "best of all", and the bound without its constant for
    "optimal rate"."""
    points = []
    for x in places(population, axis):
        curves = rate_curves(population, **{axis: x})
        least = least_risk(curves[method] if method in curves else [least_risk(curve) for curve in curves.values()])
        rate = 1 / math.sqrt(least["rows"]) + math.sqrt(least["dimension"] * math.log(1e6)) / (least["epsilon"] * least["rows"])
        if method not in curves or not least["at_edge"]:
            points.append((x, rate if method == "optimal rate" else statistics.fmean(least["excess"])))
    return points


def exponent(points, draws=20):
    """The exponent of points with half of its interval by their misfit, and the number of draws behind each point."""
    return *fit(points)[0], draws


def of_points(points):
    """An exponent as a text, with the number of its points if they are few."""
    if len(points) < 3:
        return "–"
    return "{:.2f} ± {:.2f}".format(*exponent(points)).replace("-", "−") + (f", {len(points)} points" if len(points) < 5 else "")


def scores_of_memory():
    """z of the mean risks with rows in memory against rows by their law, in all cells that have both."""
    found = []
    for population in ["Valleys", "Stiff slope"]:
        for run in chosen("rate-study", problem=population + ", rows in memory"):
            [other] = [other for other in chosen("rate-study", problem=population, rows=run["rows"], algorithm=run["algorithm"])
                       if other["rounds"] == run["rounds"]]
            error = math.hypot(*(statistics.stdev(one["excess"]) / math.sqrt(len(one["excess"])) for one in (run, other)))
            found.append((statistics.fmean(run["excess"]) - statistics.fmean(other["excess"])) / error)
    return found


# Paper 001.


def of_best_periods(study, field, **place):
    """DP-MF⁺ with its best τ over DP-MF for each draw, and the best τ."""
    one, many = (chosen(study, algorithm=method, **place) for method in ("dp-mf", "dp-mf-plus"))
    least = [min(among(many, draw=run["draw"]), key=lambda other: other[field]) for run in one]
    return ratios(values(least, field), values(one, field)), values(least, "period")


def best_periods(step, field):
    """The same in Figure 2, the largest ratio, and the best τ of all draws."""
    found, periods = of_best_periods("paper/correlated-noise-figure-2", field, step_size=step)
    return found, f"{max(found):.7f}", ", ".join(map(str, sorted(set(periods))))


def accuracy(epochs, method, epsilon):
    return chosen("paper/correlated-noise-figure-3", problem=f"MNIST, {epochs} epoch*", method=method, epsilon=epsilon)


# Paper 002: exponents of counts in 1/ε and d. A cell that a seed missed, or that starts within twice its target, is left out.


def depth_cells(family, method):
    """The runs of each cell (d, ε), in the order of their seeds."""
    cells = {}
    for run in chosen("depth-against-work", dataset=family, algorithm=method):
        cells.setdefault((run["dimension"], run["accuracy"]), []).append(run)
    return {cell: some for cell, some in cells.items()
            if all(run["reached"] for run in some) and statistics.median(values(some, "start_gap")) > 2 * cell[1]}


@functools.cache
def depth_fits(family, method, quantity):
    """The exponents in 1/ε and, if it varies, d: by each seed, and of the medians with the interval of their misfit."""
    cells = depth_cells(family, method)
    varies = len({dimension for dimension, _ in cells}) > 1
    fitted = lambda count: fit([(1 / accuracy, *([dimension] if varies else []), count(some)) for (dimension, accuracy), some in cells.items()])
    seeds = range(min(map(len, cells.values())))
    # The median of counts is a count.
    middle = fitted(lambda some: math.floor(statistics.median(values(some, quantity)) + 0.5))
    return [fitted(lambda some: some[seed][quantity]) for seed in seeds], middle


def seed_exponents(family, method, quantity, variable="1/ε"):
    return [fitted[["1/ε", "d"].index(variable)][0] for fitted in depth_fits(family, method, quantity)[0]]


def depth_exponent(family, method, quantity, variable="1/ε"):
    """The mean over the seeds, the wider one of the intervals over seeds and over cells, and the number of seeds."""
    found = seed_exponents(family, method, quantity, variable)
    misfit = depth_fits(family, method, quantity)[1][["1/ε", "d"].index(variable)][1]
    return statistics.fmean(found), max(half_width(found), misfit), len(found)


def sum_of_terms(first, second, logarithm=False):
    """Exponents of d^p·ε^−q + d^p'·ε^−q', with ln(2/ε) if asked, in the cells of Theorem 2."""
    term = lambda powers, d, epsilon: d ** powers[0] * epsilon ** -powers[1]
    return [exponent for exponent, _ in fit([(1 / epsilon, d, (term(first, d, epsilon) + term(second, d, epsilon)) * (math.log(2 / epsilon) if logarithm else 1))
                                             for d, epsilon in depth_cells("max-of-linear", "resque-ac-sa")])]


def middle_rounds(method, d, epsilon):
    return statistics.median(values(depth_cells("max-of-linear", method)[d, epsilon], "rounds"))


def overtakes(method, d):
    """The largest ε from which on AC-SA needs fewer rounds than a method."""
    cells = [epsilon for dimension, epsilon in depth_cells("max-of-linear", "resque-ac-sa") if dimension == d]
    ahead = lambda epsilon: middle_rounds("resque-ac-sa", d, epsilon) < middle_rounds(method, d, epsilon)
    return max(epsilon for epsilon in cells if all(ahead(other) for other in cells if other <= epsilon))


# Paper 002, private queries: what each seed needs for the optimal error.


def query_needs(loss, method="resque-private-sco"):
    """By setting (n, d, ε), the queries at which the risk of each seed comes down to the error, on a line in logarithms from
    the last budget that did not."""
    needs = {}
    for run in chosen("private-queries", loss=loss, algorithm=method):
        seeds = needs.setdefault((run["rows"], run["dimension"], run["epsilon"]), {})
        seeds.setdefault(run["repeat"], []).append((run["gradient_queries"], run["excess"] / run["error"]))
    for setting, seeds in needs.items():
        for seed, points in seeds.items():
            points.sort()
            first = next(place for place, (_, ratio) in enumerate(points) if ratio <= 1)
            (before, above), (after, below) = points[first - 1], points[first]
            share = math.log(above) / (math.log(above) - math.log(max(below, 1e-300)))
            seeds[seed] = math.exp(math.log(before) + share * (math.log(after) - math.log(before)))
        needs[setting] = [seeds[seed] for seed in sorted(seeds)]
    return needs


def theorem_4(n, d, epsilon):
    """Queries of Theorem 4 of paper 002 without constants and logarithms."""
    return min(n, (n * epsilon) ** 2 / d) + min((n * d) ** (2 / 3) / epsilon, n ** (4 / 3) * epsilon ** (1 / 3))


def query_exponents(loss, variable):
    """The exponent of the needs in n, d or 1/ε: that of Theorem 4 in the same cells, and that of each seed."""
    needs, place = query_needs(loss), ["n", "d", "1/ε"].index(variable)
    fitted = lambda count: fit([(n, d, 1 / epsilon, count(n, d, epsilon)) for n, d, epsilon in needs])[place][0]
    seeds = range(min(map(len, needs.values())))
    return fitted(theorem_4), [fitted(lambda *setting: needs[setting][seed]) for seed in seeds]


def geometric(sample):
    """The mean of logarithms with its interval, as a text."""
    middle, half = pm([math.log(value) for value in sample])
    return "{:,.0f} [{:,.0f}, {:,.0f}]".format(*map(math.exp, (middle, middle - half, middle + half)))


def middle_ratio(sample):
    return math.exp(statistics.fmean(map(math.log, sample)))


def typical(sample):
    """The mean of logarithms with the range, as a text."""
    short = lambda value: f"{value:,.0f}" if value >= 100 else f"{value:.2g}"
    return f"{short(middle_ratio(sample))} ({short(min(sample))} – {short(max(sample))})"


# Paper 003: gaps after the last round, a number for each draw.


def labelled(some, few):
    """Runs on draws with at most 15 % negative labels, or the others; `few` is None for all."""
    return [run for run in some if few in (None, run["negative_labels"] <= 0.15)]


def gaps(some, few=None):
    return [run["gap_mean"][-1] for run in labelled(some, few)]


def least_gaps(some, few=None):
    """The least gap over the numbers of rounds."""
    least = {}
    for run in labelled(some, few):
        least[run["draw"]] = min(run["gap_mean"][-1], least.get(run["draw"], math.inf))
    return list(least.values())


def least(figure, method, few=None, scale=1.0, noise="correct"):
    """The least gaps over T, by default with the noise of the claim."""
    return least_gaps(chosen(f"paper/accelerated-figure-{figure}", algorithm=method, drawn_noise=noise, step_scale=scale), few)


def wrong_constant(name, factor, method):
    """Gaps at a constant that is off by a factor, over those at the true one, with noise; by draws."""
    parameter = {"L": "smoothness_factor", "μ": "strong_convexity_factor"}[name]
    one, true = (chosen("paper/accelerated-misspecified", problem=f"{name} wrong, Laplace*", algorithm=method, **{parameter: value})
                 for value in (factor, 1.0))
    return ratios(values(one, "gap"), values(true, "gap"))


def gaps_at_scale(method, scale, rounds=None):
    """Final gaps at c, by draws, after so many rounds, or after those with the least mean."""
    some = [{**run, "last_gap": run["gap_mean"][-1]} for run in chosen("sensitivity-step-scale", algorithm=method, step_scale=scale)]
    return values(best(some, "last_gap", least=True) if rounds is None else among(some, rounds=rounds), "last_gap")


# Best settings as rows of tables.


def setting_of(some):
    """Parameters that the definition sweeps, of runs of one setting."""
    first = {"batch": some[0]["batch_size"] or None, **some[0]["parameters"]}
    given = [(name, first.get(name)) for name in ["rounds", "epochs", "batch", "learning-rate", "radius"]]
    return ", ".join(f"{name.replace('-', ' ')} {value:g}" for name, value in given if value is not None)


def percent(some):
    """Test accuracies in percent; none where a data set has no test rows."""
    return [100 * run["test_accuracy"] for run in some] if "test_accuracy" in some[0] else None


def real_data_rows():
    """The best setting of every method on every data set, by the risk."""
    for data in ["a9a", "covtype", "ijcnn1", "mnist"]:
        labels = sorted({(run["algorithm"], run.get("method", "")) for run in chosen("paper/accelerated-real-data", dataset=data)})
        rows = [(name, method, best(chosen("paper/accelerated-real-data", dataset=data, algorithm=name, **({"method": method} if method else {})),
                                    least=True)) for name, method in labels]
        known = []
        for name, method, some in sorted(rows, key=lambda row: mean(row[2])):
            # Methods that are the same runs are one row.
            if values(some) in known:
                continue
            known.append(values(some))
            sampling = ", " + some[0]["parameters"]["sampling"].replace("poisson", "Poisson").replace("-", " ") if name == "dp-sgd" else ""
            yield f"{data} | {name.upper().replace('OPT', 'opt')}{sampling} | {some[0]['parameters']['adjacency']}", some


def looseness_of(method, rounds=None):
    """Ratios of a bound over what it bounds, in all settings, after so many rounds or any."""
    curves = [dict(map(tuple, run["curves"][0][1])) for run in chosen("bounds", method=method)]
    return [ratio for curve in curves for at, ratio in curve.items() if rounds in (None, at)]


def risk_exponents():
    """Exponents of the risks of Table 1 of paper 004 between the ends of n."""
    methods = ["accelerated DP-SRG, minimiser", "accelerated DP-SRG, no", "[23]", "[50] recursive", "[50] with", "[51]", "[26]"]
    cells = [table_1_cells(method) for method in methods]
    return [math.log(mean(found[-1]) / mean(found[0])) / math.log(found[-1][0]["n"] / found[0][0]["n"]) for found in cells]
