"""Estimators by scikit-learn's rules."""

import json
import pickle
import warnings

import numpy as np
import pytest
from conftest import SCHEMA, frame, numbers
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import BaggingClassifier, StackingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import RFE
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    RandomizedSearchCV,
    ShuffleSplit,
    TimeSeriesSplit,
    cross_val_predict,
    cross_val_score,
    permutation_test_score,
    validation_curve,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, Normalizer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import rounds
from rounds import HuberRegressor, LinearSVC, LogisticRegression, Ridge

CLASSIFIERS = [LogisticRegression, LinearSVC]
REGRESSORS = [Ridge, HuberRegressor]


# Exceptions are none. By their tags these estimators claim no good scores on the checks' few rows (`poor_score`: noise of ε = 1 on a
# hundred rows), and LinearSVC has two classes (`multi_class`: the hinge loss has no more).
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([kind(secure=False) for kind in CLASSIFIERS + REGRESSORS])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def rows(count=4_000):
    X, y = numbers(count, 5)
    return X, y, X @ np.arange(5.0)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_classifier_releases_with_its_statement(kind):
    X, y, _ = rows()
    model = kind(epsilon=2.0, bounds=(-1, 1), classes=[0, 1], epochs=20).fit(X, y)
    assert model.privacy_["claim"] == "release" and model.privacy_["epsilon"] <= 2.0
    assert json.loads(model.privacy_.json()) == model.privacy_
    assert "claim: release" in str(model.privacy_)
    assert model.score(X, y) > 0.85
    assert model.coef_.shape == (1, 5) and model.classes_.tolist() == [0, 1] and model.n_features_in_ == 5
    assert np.allclose(model.decision_function(X), X @ model.coef_[0] + model.intercept_, atol=1e-2)
    assert "diagnostics" not in model.outcome_


@pytest.mark.parametrize("kind", REGRESSORS)
def test_a_regressor_releases_with_its_statement(kind):
    X, _, y = rows()
    model = kind(epsilon=2.0, bounds=(-1, 1), target_bounds=(-10, 10), epochs=20).fit(X, y)
    assert model.privacy_["claim"] == "release"
    assert model.score(X, y) > 0.7
    assert np.allclose(model.predict(X), X @ model.coef_ + model.intercept_, atol=1e-2)
    with pytest.raises(ValueError, match="target_bounds"):
        kind(bounds=(-1, 1)).fit(X, y)


def test_coefficients_are_those_of_raw_values():
    X, y, _ = rows()
    raw = 50 + 20 * X
    model = LogisticRegression(bounds=(20, 80), classes=[0, 1], secure=False, random_state=1).fit(raw, y)
    assert np.allclose(model.decision_function(raw), raw @ model.coef_[0] + model.intercept_, atol=1e-2)


def test_a_release_needs_what_is_known_without_the_rows():
    X, y, _ = rows()
    with pytest.raises(ValueError, match="`bounds` is missing"):
        LogisticRegression(classes=[0, 1]).fit(X, y)
    with pytest.raises(ValueError, match="`classes` is missing"):
        LogisticRegression(bounds=(-1, 1)).fit(X, y)
    model = LogisticRegression(secure=False).fit(X, y)
    assert model.privacy_["claim"] == "none"
    # The type of an array declares nothing.
    X = (127 * (X + 1)).astype(np.uint8)
    with pytest.raises(ValueError, match="`bounds` is missing"):
        LogisticRegression(classes=[0, 1]).fit(X, y)
    stored = [LogisticRegression(bounds="bytes", classes=[0, 1]).fit(X.astype(kind), y) for kind in (np.uint8, np.int64, np.float32)]
    assert all(one.privacy_["claim"] == "release" and one.model_.domain == stored[0].model_.domain for one in stored)
    assert stored[0].model_.domain.storage == "bytes" and stored[0].score(X, y) > 0.8
    other = LogisticRegression(bounds=(0, 255), classes=[0, 1]).fit(X, y)
    assert other.model_.domain.storage == "dense"


@pytest.mark.parametrize("kind", [LogisticRegression, Ridge])
def test_no_row_of_a_release_can_fail_or_is_shown(kind):
    X, y, number = rows()
    label = {"classes": [0, 1]} if kind is LogisticRegression else {"target_bounds": (-10, 10)}
    y = (y if kind is LogisticRegression else number).astype(object)
    X[0, 0], X[1, 0], X[2, 0] = np.nan, np.inf, 31337.0
    y[3], y[4], y[5], y[6] = "planted-31337", None, float("nan"), 0.5
    assert kind(bounds=(-1, 1), **label).fit(X, y).privacy_["claim"] == "release"
    words = X.astype(object)
    for place, value in enumerate(VALUES):
        words[place, 1] = y[10 + place] = value
    for data in (words, words.tolist(), words[:, :1].astype(str)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert kind(bounds=(-1, 1), **label).fit(data, y).privacy_["claim"] == "release"
    planted = X.astype(complex)
    planted[7, 1] = 31337
    for data, target, given in [(X, y, label), (words, y, {}), (planted, y, dict(bounds=(-1, 1), **label)), (X, planted, dict(bounds=(-1, 1), **label))]:
        with pytest.raises((ValueError, TypeError)) as refusal:
            kind(**given).fit(data, target)
        assert "31337" not in str(refusal.value) and refusal.value.__context__ is None, refusal.value


class Raises:
    """A value whose every use fails."""

    def __str__(self):
        raise ValueError("planted-31337")

    __repr__ = __eq__ = __hash__ = __float__ = __str__


VALUES = ["planted-31337", 10**400, 10**5000, [31337], {}, "\ud800", 31337j, Raises(), np.zeros(3), np.array([31337.0]), np.complex128(1), b"\xff"]


def test_what_a_release_tells_of_classes_follows_from_what_is_declared():
    X, y, _ = rows()
    domain = rounds.Domain.matrix(5, (-1.0, 1.0), classes=["0", "1"])
    missing = y.astype(float)
    missing[3] = np.nan
    odd = y.astype(object)
    odd[3] = "?"
    for given in (y, missing, odd, y.astype(bool), y.tolist(), y.astype(str)):
        model = LogisticRegression(domain=domain, epochs=30).fit(X, given)
        assert model.classes_.dtype == int and model.predict(X).dtype == int and model.score(X, y) > 0.7
    named = LogisticRegression(domain=domain, classes=["0", "1"], epochs=30).fit(X, y)
    assert named.predict(X).dtype.kind == "U" and named.score(X, y.astype(str)) > 0.7
    with pytest.raises(ValueError, match="in its order"):
        LogisticRegression(domain=domain, classes=["1", "0"]).fit(X, y)
    # True is 1 where the classes are numbers, and itself where they are words.
    for classes in ([0, 1], [False, True]):
        assert LogisticRegression(bounds=(-1, 1), classes=classes, epochs=30).fit(X, y.astype(bool)).score(X, y.astype(type(classes[0]))) > 0.7


def test_simulations_tell_once_of_values_that_are_none():
    X, y, _ = rows()
    X[0, 0], X[1, 0] = np.nan, np.inf
    odd = np.where(np.arange(len(y)) == 5, 7, y)
    with pytest.warns(UserWarning) as told:
        LogisticRegression(bounds=(-1, 1), classes=[0, 1], secure=False).fit(X, odd)
    told = [str(one.message) for one in told]
    assert len(told) == 3 and "1 values are NaN" in told[0] and "1 values are infinite" in told[1] and "1 rows add nothing" in told[2]


def test_a_random_state_is_a_simulation():
    X, y, _ = rows()
    with pytest.warns(UserWarning, match="a simulation"):
        model = LogisticRegression(bounds=(-1, 1), classes=[0, 1], random_state=3).fit(X, y)
    assert model.privacy_["claim"] == "simulation"
    again = LogisticRegression(bounds=(-1, 1), classes=[0, 1], random_state=3, secure=False).fit(X, y)
    assert again.outcome_["model_sha256"] == model.outcome_["model_sha256"]


def test_partial_fit_is_refused_with_the_reason():
    assert not hasattr(LogisticRegression(), "partial_fit")
    with pytest.raises(AttributeError, match="spend"):
        LogisticRegression().partial_fit(*rows()[:2])


def test_a_step_before_an_estimator_voids_the_claim():
    X, y, _ = rows()
    release = LogisticRegression(bounds=(-3, 3), classes=[0, 1])
    for fitted in (StandardScaler(), ColumnTransformer([("scaled", MinMaxScaler(), [0, 1])]), make_pipeline(StandardScaler())):
        with pytest.raises(ValueError, match="steps of a pipeline"):
            make_pipeline(fitted, clone(release)).fit(X, y)
        simulated = make_pipeline(fitted, clone(release).set_params(secure=False)).fit(X, y)
        assert simulated[-1].privacy_["claim"] == "none" and "steps of a pipeline" in simulated[-1].privacy_["reason"]
        assert json.loads(simulated[-1].model_.header())["privacy"]["claim"] == "none"
    # Those that learn nothing may fail or warn by a value, and show it.
    for step in (Normalizer(), FunctionTransformer(), FunctionTransformer(np.tanh), FunctionTransformer(np.frompyfunc(lambda value: 1 / value, 1, 1)),
                 ColumnTransformer([("kept", "passthrough", [0, 1])])):  # fmt: skip
        with pytest.raises(ValueError, match="steps of a pipeline.*Fit on rows as they are.*clip_features.*given as an array"):
            make_pipeline(step, clone(release)).fit(X, y)
    grid = GridSearchCV(clone(release), {"alpha": [0.0]}, cv=2, error_score="raise")
    inside = TransformedTargetRegressor(Ridge(bounds=(-3, 3), target_bounds=(-3, 3)), transformer=StandardScaler())
    for whole in (
        make_pipeline(StandardScaler(), grid),
        make_pipeline(StandardScaler(), OneVsRestClassifier(clone(release))),
        make_pipeline(StandardScaler(), CalibratedClassifierCV(clone(release), cv=2)),
        make_pipeline(StandardScaler(), make_pipeline(Normalizer(), clone(release))),
        make_pipeline(StandardScaler(), inside),
        inside,
        RFE(clone(release), n_features_to_select=2),
    ):
        with pytest.raises(ValueError, match="steps of a pipeline|may repeat or change"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole.fit(X, y)
    assert make_pipeline("passthrough", None, clone(release)).fit(X, y)[-1].privacy_["claim"] == "release"
    for options in ({"clip_features": "l2=1"}, {"features": "pca:count=2"}):
        assert clone(release).set_params(options=options).fit(X, y).privacy_["claim"] == "release"

    class Trainer:
        """Its steps are those of no pipeline."""

        steps = [("warmup", 100), 7, StandardScaler()]

        def fit(self, X, y):
            return clone(release).fit(X, y)

    assert Trainer().fit(X, y).privacy_["claim"] == "release"


def test_one_estimator_trains_once_at_a_time_and_its_settings_and_statement_are_what_they_say():
    X, y, _ = rows(600)
    model = LogisticRegression(bounds=(-1, 1), classes=[0, 1])
    model._is_training = object()
    with pytest.raises(RuntimeError, match="another thread"):
        model.fit(X[:, :2], y)
    # It left the fit under way as it was.
    assert not hasattr(model, "n_features_in_") and hasattr(model, "_is_training")
    del model._is_training
    with pytest.raises(TypeError, match="`secure` is True or False, not 'False'"):
        clone(model).set_params(secure="False").fit(X, y)
    stated = model.fit(X, y).privacy_
    with pytest.raises(TypeError, match="does not change"):
        stated["epsilon"] = 0.01
    with pytest.raises(TypeError, match="does not change"):
        stated.update(epsilon=0.01)
    kept = json.dumps(stated)
    for change in (lambda: stated["public"].append("all"), lambda: dict(stated)["mechanisms"].clear(), lambda: stated["replace_one"].update(epsilon=0.0),
                   lambda: stated["mechanisms"][0].pop("name", 0), lambda: stated["public"].__setitem__(0, "")):  # fmt: skip
        with pytest.raises(TypeError, match="does not change"):
            change()
    # Nor by the document that it is from.
    model.outcome_["privacy"]["public"].append("all")
    assert json.dumps(stated) == kept
    assert pickle.loads(pickle.dumps(stated)) == stated and not hasattr(model, "_is_training")


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_may_repeat_or_change_rows_is_no_release(jobs):
    X, y, _ = rows(600)
    release = LogisticRegression(bounds=(-1, 1), classes=[0, 1])
    for around in (OneVsRestClassifier, CalibratedClassifierCV):
        with pytest.raises(ValueError, match="may repeat or change them"):
            around(release, n_jobs=jobs).fit(X, y)
        around(clone(release).set_params(secure=False), n_jobs=jobs).fit(X, y)
    with pytest.raises(ValueError, match="may repeat or change them"):
        StackingClassifier([("any", GaussianNB())], release, n_jobs=jobs).fit(X, y)
    # Seeds of its parts make no simulations of releases.
    with pytest.raises(ValueError, match="may repeat or change them"):
        BaggingClassifier(release, n_estimators=2).fit(X, y)
    bag = BaggingClassifier(clone(release).set_params(secure=False), n_estimators=2).fit(X, y)
    assert {part.privacy_["claim"] for part in bag.estimators_} == {"simulation"}
    # Scores on parts of the rows are of rows as they are.
    assert len(cross_val_score(release, X, y, cv=2, n_jobs=jobs, error_score="raise")) == 2


def test_a_grid_search_warns_with_what_its_fits_spend():
    X, y, _ = rows(600)
    search = GridSearchCV(
        LogisticRegression(epsilon=0.5, delta=1e-6, bounds=(-1, 1), classes=[0, 1]), {"learning_rate": [0.1, 1.0, 3.0]}, cv=KFold(4)
    )
    with pytest.warns(UserWarning) as told:
        search.fit(X, y)
    told = [str(one.message) for one in told if "GridSearchCV" in str(one.message)]
    # Three candidates on three of four folds, and the last fit.
    assert len(told) == 1 and "10 releases" in told[0] and "(5, 1e-05)" in told[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GridSearchCV(LogisticRegression(secure=False), {"alpha": [0.0, 0.1]}, cv=3).fit(X, y)
        cross_val_score(LogisticRegression(secure=False), X, y)


@pytest.mark.parametrize(
    "cv, releases",
    [
        (3, "3 releases; no guarantee"),
        (None, "5 releases; no guarantee"),
        (KFold(3), r"3 releases: together they are \(3,"),
        (ShuffleSplit(3, random_state=0), r"4 releases: together they are \(4,"),
        (TimeSeriesSplit(3), r"4 releases: together they are \(4,"),
    ],
)
def test_the_warning_of_a_search_understates_nothing(cv, releases):
    X, y, _ = rows(600)
    with pytest.warns(UserWarning, match=releases):
        GridSearchCV(LogisticRegression(bounds=(-1, 1), classes=[0, 1]), {"alpha": [0.0]}, cv=cv).fit(X, y)


def test_the_warning_of_a_search_never_fails():
    X, y, _ = rows(600)
    with pytest.warns(UserWarning, match="3 releases: together"):
        GridSearchCV(Ridge(bounds=(-1, 1), target_bounds=(-3, 3)), {"alpha": [0.0]}, cv=3).fit(X, X.sum(axis=1))
    with pytest.warns(UserWarning, match="many releases"):
        HalvingGridSearchCV(LogisticRegression(bounds=(-1, 1), classes=[0, 1]), {"alpha": [0.0, 0.1]}, cv=2, factor=2).fit(X, y)
    model = LogisticRegression(bounds=(-1, 1), classes=[0, 1])
    splits = KFold(3).split(X)
    for search, given in [
        (GridSearchCV(model, {"alpha": [0.0]}, cv=splits), {}),
        (GridSearchCV(model, {"alpha": [0.0]}, cv=LeaveOneGroupOut()), {"groups": np.arange(600) % 3}),
        (RandomizedSearchCV(model, {"alpha": [0.0, 0.1, 0.2]}, n_iter=1, cv=PredefinedSplit(np.arange(600) % 3)), {}),
    ]:
        # How many folds there are follows from private rows or from what nobody sees before they are made: not told.
        with pytest.warns(UserWarning, match="fits many releases, each at") as told:
            search.fit(X, y, **given)
        assert not any("folds, and each" in str(one.message) for one in told)


def test_the_warning_of_a_search_counts_units_and_leaves_budgets_of_a_grid_open():
    X, y, _ = rows(600)
    model = LogisticRegression(bounds=(-1, 1), classes=[0, 1], domain=None)
    by_unit = LogisticRegression(domain=rounds.Domain.matrix(5, (-1.0, 1.0), classes=["0", "1"]).by_unit(), batch_size=20)
    people = np.arange(600) // 3
    # A person's rows lie in all three folds: three fits a candidate.
    with pytest.warns(UserWarning, match="each unit takes part in at most 7 releases; no guarantee"):
        GridSearchCV(clone(by_unit), {"alpha": [0.0, 0.1]}, cv=KFold(3)).fit(X, y, unit=people)
    with pytest.warns(UserWarning, match="each unit takes part in at most 4 releases"):
        GridSearchCV(model, {"alpha": [0.0]}, cv=KFold(3)).fit(X, y, unit=people)
    with pytest.warns(UserWarning, match="whose budgets the grid decides") as told:
        GridSearchCV(model, {"epsilon": [0.5, 2.0]}, cv=KFold(3)).fit(X, y)
    assert not any("together they are" in str(one.message) for one in told)


def test_a_cross_validation_warns_once_with_what_its_fits_spend():
    X, y, _ = rows(600)
    model = LogisticRegression(0.5, 1e-6, bounds=(-1, 1), classes=[0, 1])
    kept = LogisticRegression(domain=rounds.Domain.matrix(5, (-1.0, 1.0), classes=["0", "1"], relation="add-remove", public_rows=600))

    def told(estimator, cv, score=cross_val_score, **given):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            score(estimator, X, y, cv=cv, **given)
        return [str(one.message) for one in found if "fits" in str(one.message)]

    one = [r"cross_validate fits a release on each of 4 folds, and each row takes part in at most 3 releases: together they are (1.5, 3e-06)-DP"]
    for found, expected in [
        (told(model, KFold(4)), one),
        # Another call spends again.
        (told(model, KFold(4)), one),
        (told(model, KFold(4), n_jobs=2), one),
        (told(model, KFold(4), cross_val_predict), [one[0].replace("cross_validate", "cross_val_predict")]),
        (told(model, 3), ["cross_validate fits a release on each of 3 folds, and each row takes part in at most 2 releases; no guarantee is known"]),
        (told(kept, KFold(3)), ["cross_validate fits a release on each of 3 folds, and each unit takes part in at most 3 releases; no guarantee is known"]),
        (told(make_pipeline("passthrough", model), KFold(3)), ["cross_validate fits many releases, each at the estimator's own budget. "]),
    ]:
        assert len(found) == 1 and found[0].startswith(expected[0]), found
    assert len(told(model, KFold(3), validation_curve, param_name="epochs", param_range=[1, 2])) == 1
    assert len(told(model, KFold(3), permutation_test_score, n_permutations=3)) == 1
    assert len(told(model, KFold(3), permutation_test_score, n_permutations=3, n_jobs=2)) == 1


def test_no_part_of_the_rows_is_booked_in_a_ledger_of_all(tmp_path):
    X, y, _ = rows(600)
    domain = rounds.Domain.matrix(5, (-1.0, 1.0), classes=["0", "1"])
    rounds.new_ledger(tmp_path / "budget", data="arrays", domain=domain, rows=600, epsilon=9.0, delta=1e-3)
    model = LogisticRegression(0.5, 1e-6, domain=domain, options={"ledger": tmp_path / "budget"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in (
            lambda: cross_val_score(model, X, y),
            lambda: cross_val_predict(model, X, y),
            lambda: cross_val_score(make_pipeline("passthrough", model), X, y),
            lambda: GridSearchCV(model, {"alpha": [0.0, 0.1]}).fit(X, y),
        ):
            with pytest.raises(ValueError, match="fits on parts of the rows, and a ledger counts runs on all of them: leave `ledger` out"):
                call()
        assert rounds.ledger(tmp_path / "budget")["runs"] == []
        assert clone(model).fit(X, y).privacy_["claim"] == "release"


def test_missing_labels_are_refused_by_name_where_a_score_needs_them():
    X, y, _ = rows(600)
    words = np.array(["no", "yes"], dtype=object)[y]
    words[3] = None
    model = LogisticRegression(bounds=(-1, 1), classes=["no", "yes"]).fit(X, words)
    for label in (None, np.nan, ""):
        words[3] = label
        with pytest.raises(ValueError, match="missing labels.*rounds.evaluate"):
            model.score(X, words)
    with pytest.raises(ValueError, match="missing labels.*declare `classes`"):
        LogisticRegression(bounds=(-1, 1), secure=False).fit(X, words)
    found = rounds.evaluate(model, X, words)
    assert found["left_out"] == 1 and model.score(np.delete(X, 3, axis=0), np.delete(words, 3)) == pytest.approx(found["accuracy"])
    numbers = X.sum(axis=1)
    regressor = Ridge(bounds=(-1, 1), target_bounds=(-3, 3)).fit(X, numbers)
    assert regressor.score(X, numbers) < 1
    numbers[3] = np.nan
    with pytest.raises(ValueError, match="missing labels"):
        regressor.score(X, numbers)


def test_predictions_stand_in_the_order_of_the_rows_and_a_unit_may_be_named():
    table = frame(3_000).sample(frac=1, random_state=0)
    domain = rounds.Domain.parse(SCHEMA.replace('drop = ["person"]', 'unit = "person"'))
    model = LogisticRegression(epsilon=4.0, domain=domain).fit(table, table["stays"])
    without = table.drop(columns="person")
    assert (np.argsort(table["person"], kind="stable") != np.arange(3_000)).any()
    assert (model.predict_proba(table) == model.predict_proba(without)).all()
    assert (rounds.predict(model, table) == rounds.predict(model.model_, without)).all()
    assert model.score(table, table["stays"]) == model.score(without, table["stays"])
    settings = dict(epsilon=1.0, secure=False, random_state=3, domain=rounds.Domain.parse(SCHEMA))
    named, given = (LogisticRegression(**settings).fit(table, "stays", unit=unit) for unit in ("person", table["person"]))
    assert (named.coef_ == given.coef_).all() and given.privacy_["unit"] == "unit" and named.privacy_["unit"] == 'value of column "person"'


def test_settings_that_contradict_each_other_and_numbers_for_words_are_refused():
    X, y, _ = rows(200)
    with pytest.raises(TypeError, match="Domain.read"):
        LogisticRegression(domain="schema.toml").fit(X, y)
    with pytest.raises(ValueError, match="leave one of them out"):
        LogisticRegression(domain=rounds.Domain.matrix(5, (-1, 1), classes=["0", "1"]), bounds=(-1, 1)).fit(X, y)
    with pytest.raises(TypeError, match="the domain declares words, 'no', 'yes'"):
        LogisticRegression(domain=rounds.Domain.matrix(5, (-1, 1), classes=["no", "yes"]), secure=False).fit(X, y)
    table = frame(400)
    domain = rounds.Domain.parse(SCHEMA.replace('drop = ["person"]', 'unit = "person"'))
    # A statement would name the schema's unit.
    for unit in (np.arange(400), table["age"], "age"):
        with pytest.raises(ValueError, match="the domain declares its unit, the column 'person'"):
            LogisticRegression(domain=domain).fit(table, table["stays"], unit=unit)
    for fit in (lambda: rounds.train(table, "plan", domain=domain, epsilon=1.0), lambda: LogisticRegression(domain=domain).fit(table, "plan")):
        with pytest.raises(ValueError, match="the domain declares its label"):
            fit()
    with pytest.raises(TypeError, match="names of its columns") as refused:
        rounds.train("rows.csv", domain="schema.toml", unit=np.array(["P01"]), epsilon=1.0)
    assert "P01" not in str(refused.value)
    labels = np.where(y > 0, "yes", "no").astype(object)
    labels[3] = None
    simulated = LogisticRegression(bounds=(-1, 1), classes=["no", "yes"], secure=False)
    with pytest.warns(UserWarning, match="1 rows add nothing"):
        simulated.fit(X, labels)


def test_declared_classes_are_a_list_of_names_and_a_missing_label_is_none_of_them():
    X, y, _ = rows(600)
    for given in (5, "ab", {"a", "b"}, {"a": 0, "b": 1}, (one for one in "ab"), np.array([[0, 1]]), [["a"], ["b", "c"]]):
        with pytest.raises(TypeError, match="`classes` is a list of the classes in their order, as classes="):
            LogisticRegression(bounds=(-1, 1), classes=given).fit(X, y)
    empty = rounds.Domain.matrix(5, (-1.0, 1.0), classes=["a", ""])
    for given in (dict(classes=["a", None]), dict(classes=["a", np.nan]), dict(classes=["a", ""]), dict(classes=[1, np.nan]), dict(classes=[1e20, 1.0]),
                  dict(classes=[2.0**53, 1]), dict(classes=["a", 1e20])):  # fmt: skip
        for secure in (True, False):
            with pytest.raises(ValueError, match="is no class, for missing labels have its name, which is empty.*give it a name"):
                LogisticRegression(bounds=(-1, 1), secure=secure, **given).fit(X, y)
    with pytest.raises(ValueError, match="'' is no class"):
        LogisticRegression(domain=empty).fit(X, y)
    # A class keeps its word, and its type, beside classes of other types.
    for classes in (["a", 1.0], [2**63, -1], np.array([10**18, 10**18 + 1], dtype="M8[ns]"), (True, False), range(2)):
        labels = np.fromiter((classes[one] for one in y), dtype=object, count=600)
        model = LogisticRegression(bounds=(-1, 1), classes=classes, epochs=20, secure=False, random_state=1).fit(X, labels)
        assert model.outcome_["diagnostics"]["null_rows"] == 0 and model.classes_.tolist() == np.array(classes, dtype=model.classes_.dtype).tolist()


@pytest.mark.parametrize("secure", [True, False])
def test_a_domain_whose_label_is_of_the_other_kind_is_refused_before_anything_is_spent(tmp_path, secure):
    X, y, number = rows(600)
    labels = {"classes": dict(classes=["0", "1"]), "bounds": dict(label_bounds=(-3.0, 3.0))}
    for kind, own, target, others in [(Ridge, "classes", y, "LogisticRegression"), (HuberRegressor, "classes", y, "LogisticRegression"),
                                      (LogisticRegression, "bounds", number, "Ridge"), (LinearSVC, "bounds", number, "Ridge")]:  # fmt: skip
        domain, place = rounds.Domain.matrix(5, (-1.0, 1.0), **labels[own]), tmp_path / kind.__name__
        rounds.new_ledger(place, data="arrays", domain=domain, rows=600, epsilon=9.0, delta=1e-3)
        # A selection needs a ledger that is basic; without one it is refused alike.
        model = kind(domain=domain, secure=secure, options={"ledger": place} if secure else None)
        for fitted in (model, rounds.PrivateSearchCV(clone(model).set_params(options=None), {"alpha": [0.0, 0.1]}, trials=3)):
            with pytest.raises(ValueError, match=f"the domain declares no .*{kind.__name__} learns.*declare them, or take {others}"):
                fitted.fit(X, target)
        if kind in CLASSIFIERS:
            with pytest.raises(ValueError, match="declares no classes"):
                model.set_params(classes=[0, 1]).fit(X, y)
        assert rounds.ledger(place)["runs"] == []


def test_data_frames_units_and_names():
    table = frame(4_000)
    domain = rounds.Domain.parse(SCHEMA)
    model = LogisticRegression(epsilon=2.0, domain=domain).fit(table, table["stays"])
    assert model.feature_names_in_.tolist() == ["age", "plan", "income"]
    assert model.coef_.shape == (1, 4) and model.score(table, table["stays"]) > 0.7
    assert set(model.predict(table)) == {"no", "yes"}
    by_person = LogisticRegression(epsilon=2.0, domain=domain).fit(table, "stays", unit=table["person"])
    assert by_person.outcome_["n"] == 1_000 and by_person.privacy_["unit"] == "unit"


def test_sparse_rows():
    from scipy.sparse import csr_array

    X, y, _ = rows()
    X[np.abs(X) < 0.5] = 0
    model = LogisticRegression(bounds=(-1, 1), classes=[0, 1], epochs=10).fit(csr_array(X), y)
    assert model.privacy_["claim"] == "release"
    assert np.allclose(model.decision_function(csr_array(X)), model.decision_function(X))
    dense = LogisticRegression(bounds=(-1, 1), classes=[0, 1], epochs=10).fit(X, y)
    assert np.allclose(dense.decision_function(csr_array(X)), dense.decision_function(X))


def test_pickles_hold_no_key_and_none_is_made_while_training():
    X, y, _ = rows()
    model = LogisticRegression(bounds=(-1, 1), classes=[0, 1]).fit(X, y)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    refused = []

    def pickled(stage, *_):
        with pytest.raises(TypeError, match="is training"):
            pickle.dumps(model)
        refused.append(stage)

    model.set_params(options={"progress": pickled}).fit(X, y)
    assert refused and pickle.dumps(model.set_params(options=None))


@pytest.mark.parametrize(
    "change, told",
    [
        (dict(epsilon="1"), "`epsilon` is a number, not '1': give epsilon=1.0$"),
        (dict(epsilon=True), "`epsilon` is a number, not True"),
        (dict(batch_size=1.5), "`batch_size` is a whole number"),
        (dict(alpha="a"), "`alpha` is a number, not 'a': give alpha=0.01$"),
        (dict(random_state=-1, secure=False), "`random_state` is a whole number .*, not -1: give random_state=1$"),
        (dict(random_state=1.5, secure=False), "`random_state` is a whole number"),
        (dict(huber=0.0), "huber"),
        (dict(huber=None), "`huber` is a number, not None: give huber=1.35$"),
        (dict(alpha=None), "`alpha` is a number, not None: give alpha=0.01$"),
        (dict(delta=None), "`delta` is a number, not None: give delta=1e-05$"),
        (dict(bounds=(-1, "x", 1)), "`bounds` is two numbers"),
        (dict(bounds=("-1", "1")), "`bounds` is two numbers"),
        (dict(huber="1"), "`huber` is a number, not '1'"),
        (dict(bounds=(1, -1)), "bounds"),
        (dict(bounds=[(-1, 1)] * 5), "`bounds` is two numbers.*for all columns together.*a `domain` declares those of each column"),
        (dict(bounds=np.zeros((2, 5))), "`bounds` is two numbers"),
        (dict(bounds=(-1, 0, 1)), "`bounds` is two numbers"),
        (dict(bounds="byte"), "`bounds` is two numbers"),
        (dict(target_bounds=3), "`target_bounds` is two numbers, the lower one first"),
        (dict(options={"epsilon": 2.0}), "`epsilon` of `options` is settled by `epsilon` of the estimator: leave it out here"),
        (dict(options={"seed": 3}), "`seed` of `options` is settled by `random_state`"),
        (dict(options={"secure": False}), "`secure` of `options` is settled by `secure`"),
        (dict(options={"epochs": 3}), "`epochs` of `options` is settled by `epochs`"),
        (dict(options={"regularization": 1.0}), "`regularization` of `options` is settled by `alpha`"),
        (dict(options=["sampling"]), "`options` is a dictionary of settings"),
        (dict(options={"ledger": "budget"}, random_state=1, secure=False), "`ledger` counts releases.*leave one out"),
    ],
)
def test_settings_that_cannot_be_are_refused(change, told):
    X, _, y = rows(300)
    with pytest.raises((ValueError, TypeError), match=told):
        HuberRegressor(**{"bounds": (-1, 1), "target_bounds": (-10, 10), **change}).fit(X, y)


@pytest.mark.parametrize("kind", CLASSIFIERS + REGRESSORS)
def test_what_stands_for_settings_of_scikit_learn_is_said(kind):
    with pytest.raises(TypeError, match=rf"{kind.__name__} has no `C`: `alpha` is .*1/\(C·n\)"):
        kind(C=1.0)
    with pytest.raises(TypeError, match="has no `solver`: its settings are in its help, and `options`"):
        kind(solver="lbfgs")
    X, y, _ = rows(300)
    for fit in (kind().fit, rounds.PrivateSearchCV(kind(), {"alpha": [0.0, 0.1]}).fit):
        with pytest.raises(TypeError, match="has no `sample_weight`: rows have no weights"):
            fit(X, y, sample_weight=np.ones(300))
    # None are no weights.
    label = dict(classes=[0, 1]) if kind in CLASSIFIERS else dict(target_bounds=(-1, 1))
    assert kind(bounds=(-1, 1), **label).fit(X, y, sample_weight=None).privacy_["claim"] == "release"
    # The signature is as it was.
    assert "C" not in kind().get_params() and clone(kind(2.0, alpha=0.5)).get_params()["alpha"] == 0.5


def test_a_weak_release_is_one_that_is_asked_for():
    X, y, _ = rows(300)
    for weak in (dict(epsilon=20.0), dict(delta=0.01)):
        model = LogisticRegression(bounds=(-1, 1), classes=[0, 1], **weak)
        with pytest.raises(ValueError, match="allow_weak_privacy"):
            model.fit(X, y)
        assert model.set_params(options={"allow_weak_privacy": True}).fit(X, y).privacy_["claim"] == "release"


def test_words_are_no_numbers_of_a_regression():
    X, y, _ = rows(300)
    words = np.where(y > 0, "high", "low")
    for target in (words, words.astype(object)):
        with pytest.raises(ValueError, match="y has words that are no numbers, which Ridge learns: LogisticRegression"):
            Ridge(bounds=(-1, 1), secure=False).fit(X, target)
    assert Ridge(bounds=(-1, 1), secure=False).fit(X, y.astype(str)).privacy_["claim"] == "none"


def test_a_lazy_frame_and_complex_columns_are_refused():
    import pandas as pd
    import polars

    X, y, _ = rows(300)
    for secure in (True, False):
        model = LogisticRegression(bounds=(-1, 1), classes=[0, 1], secure=secure)
        with pytest.raises(TypeError, match="LazyFrame has no rows in memory yet"):
            model.fit(polars.DataFrame(X).lazy(), y)
        with pytest.raises((TypeError, ValueError), match="[Cc]omplex"):
            model.fit(pd.DataFrame(X.astype(complex)), y)
        with pytest.raises((TypeError, ValueError), match="[Cc]omplex"):
            model.fit(X, y.astype(complex))


def test_three_classes_need_softmax():
    X, _, number = rows()
    y = np.digitize(number, [-1, 1])
    model = LogisticRegression(epsilon=4.0, bounds=(-1, 1), classes=[0, 1, 2]).fit(X, y)
    assert model.predict_proba(X).shape == (len(X), 3) and np.allclose(model.predict_proba(X).sum(axis=1), 1)
    assert model.score(X, y) > 0.6
    with pytest.raises(ValueError, match="two classes"):
        LinearSVC(bounds=(-1, 1), classes=[0, 1, 2]).fit(X, y)


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_a_draft_has_the_words_that_rows_of_the_frame_have(library):
    import datetime

    import pandas as pd
    import polars
    import pyarrow

    random = np.random.default_rng(3)
    age, ok = random.integers(0, 100, 3_000), random.random(3_000) < 0.5
    moments = [[datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, 12, 30), None][one] for one in random.integers(0, 3, 3_000)]
    columns = {"age": age, "ok": ok, "since": moments, "renews": age + 40 * ok > 70}
    make = {"pandas": pd.DataFrame, "polars": polars.DataFrame, "arrow": pyarrow.table}[library]
    table = make(columns)
    text = rounds.Schema.draft(table, label="renews")
    assert 'classes = ["False", "True"]' in text and 'values = ["False", "True"]' in text
    # Dates are dropped by a draft.
    domain = rounds.Domain.parse(text.replace("drafted = true", "drafted = false"))
    model = LogisticRegression(epsilon=4.0, domain=domain).fit(table, "renews")
    label = table.column("renews") if library == "arrow" else table["renews"]
    assert model.classes_.tolist() == [False, True] and model.score(table, np.asarray(label)) > 0.9
    with pytest.raises(ValueError, match="Schema.draft"):
        LogisticRegression().fit(table, "renews")


def test_a_subclass_gives_its_base_what_it_does_not_take():
    class Mine(rounds.LogisticRegression):
        def __init__(self, epsilon=1.0):
            super().__init__(epsilon, 1e-6, bounds=(-1, 1), classes=[0, 1])

    assert Mine(2.0).bounds == (-1, 1)
