"""Selections: the command's for the same inputs and seed, and what of their trials leaves."""

import json
import signal
import warnings

import numpy as np
import pytest
from conftest import SCHEMA, frame, numbers
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import rounds
from rounds import LogisticRegression, PrivateSearchCV, Ridge

GRID = {"learning_rate": [0.5, 1.0, 4.0], "clip_norm": [0.25, 1]}
DOMAIN = rounds.Domain.matrix(10, (-1.0, 1.0), classes=["0", "1"])


def hash_of(run):
    return run.outcome["model_sha256"]


@pytest.fixture
def table(tmp_path, monkeypatch):
    frame(2_000).to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    # Draws of a simulation follow from the path as it is given.
    monkeypatch.chdir(tmp_path)
    return "rows.csv"


@pytest.mark.parametrize("on_public_rows", [False, True])
def test_the_winner_is_the_command_s(command, table, tmp_path_factory, on_public_rows):
    public = tmp_path_factory.mktemp("public") / "rows.csv"
    frame(500, seed=4).to_csv(public, index=False)
    arguments = ["--grid", "learning-rate=0.5,1,4", "--grid", "clip-norm=0.25,1", "--trials", 6, "--law", "poisson", "--diagnostics"]
    told = command("tune", "--data", table, *arguments, "--epsilon", 2, "--delta", 1e-6, "--epochs", 2, "--seed", 3,
                   *(["--score-on", public] if on_public_rows else []))
    settings = dict(trials=6, law="poisson", diagnostics=True, epsilon=2.0, delta=1e-6, epochs=2, seed=3)
    settings["score_on"] = public if on_public_rows else None
    run = rounds.tune(table, grid=GRID, **settings)
    assert hash_of(run) == told["model_sha256"]
    assert run.outcome["trials"] == told["trials"] and len(told["trials"]) > 1
    assert run.privacy["selection"] == told["privacy"]["selection"]
    # Rows in memory are those of the file where they have its name.
    rows = rounds.tune(frame(2_000), domain=rounds.Domain.parse(SCHEMA), grid=GRID, name=str(table), **settings)
    assert hash_of(rows) == hash_of(run)


def test_a_release_tells_the_winner_alone_and_verifies(command, tmp_path):
    X, y = numbers(3_000, 10)
    run = rounds.tune(X, y, domain=DOMAIN, grid=GRID, trials=3, epsilon=1.0, delta=1e-6, epochs=2, model=tmp_path / "model")
    assert run.privacy["claim"] == "release" and 0.99 < run.privacy["epsilon"] <= 1.0
    told = json.dumps(run.outcome)
    assert "trials" not in run.outcome
    assert not any(word in told for word in ('"settings"', "seconds", "diagnostics", "train_loss", "held_out", "test_accuracy"))
    assert run.outcome["parameters"]["trials"] == "3"
    assert rounds.verify(tmp_path / "model")["holds"] and command("account", "--statement", tmp_path / "model")["holds"]
    with pytest.raises(ValueError, match="scores of trials are for simulations"):
        rounds.tune(X, y, domain=DOMAIN, grid=GRID, epsilon=1.0, delta=1e-6, diagnostics=True)


def test_a_search_is_the_selection_of_its_estimator():
    X, y = numbers(3_000, 10)
    own = dict(trials=6, law="poisson")
    model = LogisticRegression(epsilon=9.0, domain=DOMAIN, epochs=2, secure=False, random_state=3)
    search = PrivateSearchCV(model, {**GRID, "alpha": [0, 0.01], "momentum": [0.0, 0.5]}, epsilon=2.0, delta=1e-6, **own).fit(X, y)
    grid = {**GRID, "regularization": [0, 0.01], "momentum": [0.0, 0.5]}
    run = rounds.tune(X, y, domain=DOMAIN, grid=grid, epsilon=2.0, delta=1e-6, epochs=2, loss="logistic", seed=3, **own)
    assert search.best_estimator_.outcome_["model_sha256"] == hash_of(run)
    assert search.privacy_ == run.privacy and search.privacy_["claim"] == "simulation"
    # The best score wins, and its settings are told as they were given.
    tried, scores = search.cv_results_["params"], search.cv_results_["mean_test_score"]
    assert len(tried) == len(scores) > 1 and tried[int(np.nanargmax(scores))] == search.best_params_
    best = search.best_estimator_
    for name in ("learning_rate", "clip_norm", "alpha"):
        assert getattr(best, name) == search.best_params_[name] and getattr(model, name) in (None, 0.0)
    assert best.options["momentum"] == search.best_params_["momentum"]
    assert search.score(X, y) == best.score(X, y) and np.array_equal(search.predict_proba(X), best.predict_proba(X))
    assert search.classes_.tolist() == [0, 1] and search.n_features_in_ == 10


def test_a_release_of_a_search_has_no_score():
    X, y = numbers(3_000, 10)
    search = PrivateSearchCV(LogisticRegression(bounds=(-1, 1), classes=[0, 1]), GRID, epsilon=1.0, delta=1e-6, trials=3).fit(X, y)
    assert search.privacy_["claim"] == "release" and search.privacy_["epsilon"] <= 1.0
    assert not hasattr(search, "cv_results_") and not hasattr(search, "best_score_")
    with pytest.raises(AttributeError, match="of a release the winner alone is told.*secure=False"):
        search.cv_results_
    assert search.outcome_["privacy"] == search.privacy_ and search.outcome_ is search.best_estimator_.outcome_
    assert "trials" not in search.best_estimator_.outcome_ and not hasattr(search.best_estimator_, "_selection")
    assert set(search.best_params_) == set(GRID) and search.score(X, y) > 0.6
    numbers_of = Ridge(bounds=(-1, 1), target_bounds=(-10, 10))
    assert PrivateSearchCV(numbers_of, GRID, trials=3).fit(X, X.sum(axis=1)).predict(X).shape == (3_000,)
    assert not hasattr(PrivateSearchCV(numbers_of, GRID), "predict_proba")


def test_data_frames_and_units_are_searched_too():
    rows = frame(4_000)
    model = LogisticRegression(epsilon=2.0, domain=rounds.Domain.parse(SCHEMA))
    search = PrivateSearchCV(model, {"learning_rate": [0.5, 2.0]}, trials=2).fit(rows, "stays", unit=rows["person"])
    assert search.privacy_["unit"] == "unit" and search.privacy_["claim"] == "release"


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([PrivateSearchCV(LogisticRegression(secure=False), {"learning_rate": [0.5, 2.0]}, trials=1.5)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "estimator, grid, error, told",
    [
        (make_pipeline(StandardScaler(), LogisticRegression()), GRID, TypeError, "Pipeline"),
        (LogisticRegression(bounds=(-1, 1), classes=[0, 1]), {"learning_rate": [1.0]}, ValueError, "one point"),
        (LogisticRegression(bounds=(-1, 1), classes=[0, 1]), {"learning_rate": 1.0}, TypeError, "list of values"),
        (LogisticRegression(bounds=(-1, 1), classes=[0, 1]), {"learning_rate": "1,2"}, TypeError, "list of values"),
        (LogisticRegression(bounds=(-1, 1), classes=[0, 1]), {"lerning_rate": [1, 2]}, ValueError, "no trial .* draws that"),
        (LogisticRegression(bounds=(-1, 1), classes=[0, 1], clip_norm=1.0), GRID, ValueError, "`clip_norm` is given too"),
        (LogisticRegression(bounds=(-1, 1), classes=[0, 1], algorithm="sgd"), GRID, ValueError, "nothing to pay for"),
        (LogisticRegression(classes=[0, 1]), GRID, ValueError, "`bounds` is missing"),
    ],
)
def test_what_is_no_search_is_refused_with_the_remedy(estimator, grid, error, told):
    X, y = numbers(600, 10)
    with pytest.raises(error, match=told):
        PrivateSearchCV(estimator, grid, trials=3).fit(X, y)


def test_warnings_of_folds_are_of_the_budget_of_a_search_and_come_once():
    X, y = numbers(600, 10)
    inner = LogisticRegression(epsilon=0.5, delta=1e-6, bounds=(-1, 1), classes=[0, 1])

    def told(call):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            call()
        return [str(one.message) for one in found]

    own = PrivateSearchCV(inner, {"alpha": [0.0, 0.1]}, epsilon=3.0, delta=1e-5, trials=2)
    for search, budget in [(own, "(6, 2e-05)-DP"), (PrivateSearchCV(inner, {"alpha": [0.0, 0.1]}, trials=2), "(1, 2e-06)-DP")]:
        for jobs in (1, 2):
            found = told(lambda: cross_val_score(search, X, y, cv=KFold(3), n_jobs=jobs))
            assert len(found) == 1 and f"each row takes part in at most 2 releases: together they are {budget}" in found[0], found
    found = told(lambda: GridSearchCV(own, {"estimator__epochs": [1, 2]}, cv=KFold(3)).fit(X, y))
    assert len(found) == 1 and "at most 5 releases: together they are (15, 5e-05)-DP" in found[0], found
    found = told(lambda: GridSearchCV(own, {"estimator": [clone(inner)]}, cv=KFold(3)).fit(X, y))
    assert len(found) == 1 and "whose budgets the grid decides" in found[0], found
    assert told(lambda: own.fit(X, y)) == []
    simulated = PrivateSearchCV(LogisticRegression(secure=False), {"alpha": [0.0, 0.1]}, trials=2)
    assert told(lambda: cross_val_score(simulated, X, y, cv=KFold(3))) == []


def test_no_number_of_trials_is_refused_by_name():
    X, y = numbers(600, 10)
    with pytest.raises(TypeError, match="`trials` is a number, not None: give trials=10.0$"):
        PrivateSearchCV(LogisticRegression(bounds=(-1, 1), classes=[0, 1]), GRID, trials=None).fit(X, y)


def test_a_step_before_a_search_voids_its_claim():
    X, y = numbers(600, 10)
    search = PrivateSearchCV(LogisticRegression(bounds=(-3, 3), classes=[0, 1]), GRID, trials=3)
    with pytest.raises(ValueError, match="steps of a pipeline"):
        make_pipeline(StandardScaler(), search).fit(X, y)
    # And before a search of scikit-learn's own, in whatever process its fits are.
    with pytest.raises(ValueError, match="steps of a pipeline"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inner = GridSearchCV(search.estimator, {"alpha": [0.0, 0.1]}, cv=2, n_jobs=2, error_score="raise")
        make_pipeline(StandardScaler(), inner).fit(X, y)


def test_an_interrupted_selection_tells_no_trial_and_goes_on(tmp_path):
    kept = tmp_path / "run.ckpt"
    X, y = numbers(2_000, 500)
    domain = rounds.Domain.matrix(500, (-1.0, 1.0), classes=["0", "1"])
    # Trials of a second or more after a calibration of milliseconds: the signal comes while they run.
    settings = dict(domain=domain, algorithm="dp-ftrl", grid=GRID, trials=8, epsilon=1.0, delta=1e-6, epochs=400, batch_size=50, seed=1)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    stages = []

    def interrupt(*told):
        stages.append(told)
        if told[0] == "trials":
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="stopped before its end.*resume"):
        rounds.tune(X, y, **settings, checkpoint=kept, progress=interrupt)
    signal.signal(signal.SIGINT, before)
    assert kept.is_file()
    assert {stage for stage, *_ in stages} <= {"loading", "planning", "trials"} and all(done == 0 for _, done, _ in stages)
    resumed = rounds.tune(X, y, **settings, checkpoint=kept, resume=kept)
    assert hash_of(resumed) == hash_of(rounds.tune(X, y, **settings)) and not kept.exists()
