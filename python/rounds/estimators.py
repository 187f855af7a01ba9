"""Estimators by scikit-learn's rules. Only this module imports scikit-learn."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import column_or_1d, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _rows
from ._core import Domain, Model, Privacy, _probabilities, train, tune, words_of

_STEPS = "rows went through steps of a pipeline, which may read all of them, or fail by a value: what is claimed would not hold"
# Of scikit-learn's own estimators, and what stands for it.
_INSTEAD = {
    "C": "`alpha` is λ of the regulariser beside the mean loss, 1/(C·n) for n rows whose features the bounds scale to [−1, 1]",
    "max_iter": "`epochs` says how long it trains",
    "sample_weight": "rows have no weights, since the noise is for what each adds at most",
}
# Settings of `rounds.train` that an estimator has elsewhere.
_ELSEWHERE = {
    "seed": "`random_state` of the estimator",
    "regularization": "`alpha` of the estimator",
    "loss": "the kind of estimator",
    "unit": "`unit` of fit",
    "holds_out": "fit, which holds out no row",
}
# Functions that fit a copy on each of several parts of the rows.
_VALIDATIONS = ("cross_validate", "cross_val_predict", "learning_curve", "permutation_test_score", "validation_curve")
# Estimators that a call of one of these has been warned of, by what the call alone holds.
_WARNED: weakref.WeakKeyDictionary[Any, weakref.WeakSet[Any]] = weakref.WeakKeyDictionary()
# Parts of scikit-learn that hand on rows as they are, each at most once.
_HANDS_ON = ("sklearn.base", "sklearn.model_selection", "sklearn.pipeline", "sklearn.utils")


def _frames() -> Iterator[Any]:
    """The calls around the one that asks, the innermost first."""
    frame = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back  # type: ignore[assignment]


def _refuse_unknown(kind: type, given: Mapping[str, Any]) -> None:
    for name in given:
        told = _INSTEAD.get(name, "its settings are in its help, and `options` takes others of rounds.train")
        raise TypeError(f"{kind.__name__} has no `{name}`: {told}")


@dataclass(eq=False, repr=False)
class _Private(BaseEstimator):  # type: ignore[misc]
    """What the estimators share: settings, fits, outputs."""

    _loss: ClassVar[str]
    # The setting that declares the label.
    _label: ClassVar[str]

    epsilon: float = 1.0
    delta: float = 1e-5
    _: KW_ONLY
    domain: Domain | None = None
    bounds: tuple[float, float] | str | None = None
    alpha: float = 0.0
    algorithm: str = "dp-sgd"
    epochs: float | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    clip_norm: float | None = None
    options: dict[str, Any] | None = None
    secure: bool = True
    random_state: int | None = None
    threads: int | None = None
    verbose: bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_clone__(self) -> Any:
        _warn_of_copies(self)
        copy = BaseEstimator.__sklearn_clone__(self)
        changed = self._changed()
        if changed:
            # It may be fitted in another process, which does not see what is around it.
            copy._changed_before = changed
        return copy

    def __getstate__(self) -> Any:
        if getattr(self, "_is_training", False):
            raise TypeError("this estimator is training: pickle it when `fit` has ended")
        return super().__getstate__()

    @property
    def partial_fit(self) -> Any:
        """Refused: each call would spend the budget again on rows that may be the same."""
        raise AttributeError(
            "partial_fit: a budget is for all rounds together, and each call would spend one of its own; "
            "use fit, with `checkpoint` and `resume` in `options` for a run that stops and goes on"
        )

    def _is_secret(self) -> bool:
        return bool(self.secure) and self.random_state is None

    def _is_release(self) -> bool:
        if self.random_state is not None and self.secure:
            warnings.warn(
                f"random_state={self.random_state}: a simulation, whose noise anybody can draw again; leave it out for a release",
                UserWarning,
                stacklevel=3,
            )
        return self._is_secret()

    def _seed(self) -> int:
        state = self.random_state
        if state is None:
            return 1
        if isinstance(state, np.random.RandomState):
            return int(state.randint(2**31 - 1))
        return int(_rows.checked({"random_state": state})["random_state"])

    def _settings(self) -> dict[str, Any]:
        """Settings of `rounds.train`."""
        if not isinstance(self.options, (Mapping, type(None))):
            raise TypeError(f"`options` is a dictionary of settings of rounds.train, not a {type(self.options).__name__}")
        own = self.get_params(deep=False)
        for name in self.options or {}:
            if name in _ELSEWHERE or name in own:
                raise ValueError(f"`{name}` of `options` is settled by {_ELSEWHERE.get(name, f'`{name}` of the estimator')}: leave it out here")
        names = ("epsilon", "delta", "algorithm", "epochs", "batch_size", "learning_rate", "clip_norm", "threads", "verbose")
        return {**(self.options or {}), **{name: own[name] for name in names}, "regularization": float(_rows.checked({"alpha": self.alpha}, "alpha")["alpha"])}

    def _target(self, y: Any) -> tuple[Any, str, dict[str, Any], bool]:
        """Labels, the loss, the declaration of the label, and whether that was read off the rows."""
        raise NotImplementedError

    def _has_columns(self) -> bool:
        return self.domain is not None and self.domain.columns is not None

    def _validated(self, X: Any, *, reset: bool) -> Any:
        """Rows as scikit-learn checks them; those of a domain with named columns are left to it."""
        is_frame = _rows.is_frame(X)
        if self._has_columns():
            if not is_frame:
                raise TypeError("the domain has named columns: give a data frame with these")
            if reset:
                self.feature_names_in_ = np.array([name for name, _ in self.domain.columns], dtype=object)  # type: ignore
                self.n_features_in_ = len(self.feature_names_in_)
            return X
        if self._is_secret():
            if reset and self.domain is None and self.bounds is None and is_frame:
                raise ValueError("a release of a data frame needs the domain of its columns, `domain`: `rounds.Schema.draft(df)` drafts a schema "
                                 "for you to check; or give the `bounds` that all its columns share, which are numbers then")
            # scikit-learn's own checks show values. These have a place for each: no row of a release can fail.
            rows = _rows.sparse(X)
            rows = _rows.dense(X) if rows is None else rows
            validate_data(self, X if is_frame else rows, reset=reset, skip_check_array=True)
            return rows
        is_declared = self.domain is not None or self.bounds is not None
        dtype = None if getattr(X, "dtype", None) in (np.uint8, np.float32) else np.float64
        return validate_data(self, X, reset=reset, accept_sparse="csr", dtype=dtype, order="C", ensure_all_finite=not is_declared)

    def _labels(self, y: Any, X: Any) -> Any:
        """Labels as scikit-learn checks them; of a release a label that is none makes a null row."""
        if y is None:
            raise ValueError("This estimator requires y to be passed, but the target y is None")
        if _rows.is_frame(X) and isinstance(y, str):
            return _rows.label_of(X, y, self.domain)
        if self._is_secret():
            return _rows.array(y)
        if _rows.is_frame(X):
            return np.asarray(y)
        y = column_or_1d(y, warn=True)
        if y.dtype.kind in "fc" and not np.isfinite(y).all():
            raise ValueError("Input y contains NaN or infinity; leave these rows out")
        if len(y) != X.shape[0]:
            raise ValueError(f"Found input variables with inconsistent numbers of samples: {[X.shape[0], len(y)]}")
        return y

    def fit(self, X: Any, y: Any, *, unit: Any = None, **others: Any) -> Any:
        """Trains the model on rows `X` with the classes or numbers `y`; `unit` has the id of each row's unit, a person say, or names a column of them.

        Returns
        -------
        self
        """
        if self.domain is not None and not isinstance(self.domain, Domain):
            raise TypeError(f"`domain` is a rounds.Domain, not {type(self.domain).__name__}: Domain.read(path) and Domain.parse(text) make one")
        if self.domain is not None and self.bounds is not None:
            raise ValueError("`bounds` is for arrays without a `domain`, which declares its own: leave one of them out")
        if not isinstance(self.secure, (bool, np.bool_)):
            raise TypeError(f"`secure` is True or False, not {self.secure!r}")
        # Without weights scikit-learn's own parts give None.
        _refuse_unknown(type(self), {name: value for name, value in others.items() if name != "sample_weight" or value is not None})
        settings, secure = self._settings(), self._is_release()
        changed = self._changed()
        if self.secure and changed:
            raise ValueError(
                f"{changed}. Fit on rows as they are: a domain declares bounds and categories, and `options` take features of each row "
                '({"clip_features": "l2=1"}, {"features": "pca"}). Rows that other functions made, each of one row alone and for every value, are given '
                "as an array. Or give secure=False for a simulation that claims nothing"
            )
        # One step, whatever other threads do.
        if self.__dict__.setdefault("_is_training", mine := object()) is not mine:
            raise RuntimeError("this estimator is training in another thread; its copies (sklearn.base.clone) can train at once")
        try:
            X = self._validated(X, reset=True)
            y, loss, label, is_read = self._target(self._labels(y, X))
            by_steps = changed == _STEPS
            domain = self.domain
            if domain is None:
                domain = self._declared(X, label, secure, is_read or by_steps)
            elif by_steps:
                raise ValueError(f"{_STEPS}. Give `domain` to rows as they are")
            selection = getattr(self, "_selection", {})
            run = (tune if selection else train)(
                X,
                y,
                domain=domain,
                unit=unit,
                seed=None if secure else self._seed(),
                loss=loss,
                holds_out=False,
                **settings,
                **selection,
            )
            self.model_: Model = run.model
            self.outcome_ = run.outcome
            self.privacy_ = run.privacy
            self.n_iter_ = int(run.outcome["rounds"])
            if by_steps:
                void = dict(claim="none", epsilon=None, delta=None, replace_one=None, reason=_STEPS)
                self.privacy_ = Privacy({**run.privacy, **void})
            self._set_coefficients(domain)
        finally:
            self.__dict__.pop("_is_training", None)
        return self

    def _judged(self, X: Any, y: Any) -> Any:
        """Labels to score on; `y` may name a column."""
        y = _rows.column_of(X, y) if isinstance(y, str) and _rows.is_frame(X) else y
        values = _rows.array(y)
        missing = np.isnan(_rows.numbers(values)) if isinstance(self, RegressorMixin) else _rows.words(values)[1] < 0
        if missing.any():
            raise ValueError("y has missing labels, of which no score is known: leave these rows out, or take rounds.evaluate(model, X, y), "
                             "which leaves them out and counts them")
        return y

    def _changed(self) -> str | None:
        """Why the rows of this fit are not those that were given, if what runs around it has changed them."""
        for frame in _frames():
            module, owner = frame.f_globals.get("__name__") or "", frame.f_locals.get("self")
            is_pipeline = isinstance(owner, Pipeline) and frame.f_code.co_name.startswith("fit")
            if is_pipeline and any(step is not None and not isinstance(step, str) for _, step in owner.steps[:-1]):
                return _STEPS
            if module.startswith("sklearn.") and not module.startswith(_HANDS_ON):
                return f"rows came through {module}, which may repeat or change them: what is claimed would not hold"
        return getattr(self, "_changed_before", None)

    def _declared(self, X: Any, label: dict[str, Any], secure: bool, is_read: bool) -> Domain | None:
        """The domain of an array with `bounds`; of a simulation without them one that is read off the rows."""
        is_sparse = not hasattr(X, "flags")
        is_bytes = isinstance(self.bounds, str) and self.bounds == "bytes"
        bounds, storage = None if is_bytes or self.bounds is None else _rows.pair("bounds", self.bounds), "sparse" if is_sparse else "dense"
        if is_bytes or (bounds is None and not secure and X.dtype == np.uint8 and not is_sparse):
            bounds, storage = (0.0, 255.0), "sparse" if is_sparse else "bytes"
        if secure and (bounds is None or is_read):
            missing = "bounds" if bounds is None else self._label
            raise ValueError(
                f"a release needs what is known without the rows, and `{missing}` is missing: give `domain`, or `bounds` and "
                f"`{self._label}`; secure=False runs a simulation that reads them off the rows and claims nothing"
            )
        drafted = "the rows of fit" if is_read or self.bounds is None else None
        if bounds is None:
            values = X.data if is_sparse else X
            largest = float(np.max(np.abs(values), initial=0.0)) or 1.0
            bounds = (-largest, largest)
        return Domain.matrix(X.shape[1], bounds, storage=storage, drafted=drafted, **label)

    def _set_coefficients(self, domain: Domain | None) -> None:
        """Coefficients of raw values within the bounds; of named columns, of their features."""
        weights = self.model_.weights().astype(np.float64)
        coefficients, intercept = weights[:, :-1], weights[:, -1]
        affine = domain.affine if domain is not None else None
        if affine is not None:
            offset, factor = affine
            intercept = intercept + offset * coefficients.sum(axis=1)
            coefficients = coefficients * factor
        self.coef_, self.intercept_ = coefficients, intercept

    def _outputs(self, X: Any) -> Any:
        check_is_fitted(self, "model_")
        X = self._validated(X, reset=False)
        if not self._has_columns() and hasattr(X, "flags") and self.model_.domain is not None and self.model_.domain.storage == "sparse":
            from scipy.sparse import csr_array

            X = csr_array(X)
        elif not hasattr(X, "flags") and not self._has_columns() and self.model_.domain is not None and self.model_.domain.storage != "sparse":
            X = X.toarray()
        return self.model_.outputs(_rows.rows_of(X, None, self.model_.domain, explain=True))


def _warn_of_copies(copied: Any) -> None:
    """Says what the fits of the calls around spend together, of an estimator or of a private search, which one of these copies."""
    estimator = copied.estimator if isinstance(copied, PrivateSearchCV) else copied
    if not isinstance(estimator, _Private) or not estimator._is_secret():
        return
    for frame in _frames():
        search = frame.f_locals.get("self")
        if isinstance(search, PrivateSearchCV) and search is not copied:
            # Its budget is that of all of its fits.
            return
        if frame.f_code.co_name in _VALIDATIONS and frame.f_globals.get("__name__") == "sklearn.model_selection._validation":
            _warn_of_validation(frame.f_code.co_name, copied, estimator, frame.f_locals)
        if frame.f_code.co_name == "fit" and hasattr(search, "cv") and hasattr(search, "refit"):
            # Its first copy is that of its own setting.
            if any(part is copied for part in search.get_params().values()):
                _warn_of_search(search, copied, estimator, frame.f_locals.get("params"))


def _warn_of_validation(name: str, copied: Any, estimator: _Private, call: Mapping[str, Any]) -> None:
    """Says once what the fits of a cross-validation spend together; `call` has its local names."""
    _refuse_ledger(name, estimator)
    # The first score of permutation_test_score is that of rows as they are; those of other orders follow.
    if "score" in call:
        return
    if "parallel" in call:
        warned = _WARNED.setdefault(call["parallel"], weakref.WeakSet())
        if copied in warned:
            return
        warned.add(copied)
    told = "fits many releases, each at the estimator's own budget"
    if name in ("cross_validate", "cross_val_predict") and call.get("estimator") is copied:
        kind = type(call["cv"])
        # Of other classes the name may mean something else.
        folds = getattr(call["cv"], "n_splits", None) if kind.__module__.startswith("sklearn.") else None
        told = _of_folds(copied, estimator, kind, folds, call.get("params"))
    warnings.warn(
        f"{name} {told}. Its scores are covered by nothing. Judge a release on public rows, or cross-validate simulations (secure=False)",
        UserWarning,
        stacklevel=5,
    )


def _refuse_ledger(name: str, estimator: _Private) -> None:
    if isinstance(estimator.options, Mapping) and estimator.options.get("ledger") is not None:
        raise ValueError(f"{name} fits on parts of the rows, and a ledger counts runs on all of them: leave `ledger` out of `options`, or choose by "
                         "rounds.PrivateSearchCV, which is one run")


def _of_folds(
    copied: Any, estimator: _Private, kind: type, folds: Any, given: Any, *, candidates: int = 1, refit: bool = False, varies: bool = False
) -> str:
    """What is known of a release of each candidate on each of some folds together, and of one more on all rows; `given` are arguments of `fit`."""
    from sklearn import model_selection as known

    ignores_labels = kind in (known.KFold, known.ShuffleSplit, known.TimeSeriesSplit, known.LeaveOneOut)
    domain = estimator.domain
    # Of a private search by default the estimator's.
    epsilon, delta = (getattr(estimator if getattr(copied, name) is None else copied, name) for name in ("epsilon", "delta"))
    # Positions of the others follow from how many rows there are.
    moves = "unit" in (given or {}) or (domain is not None and (domain.unit is not None or domain.relation == "add-remove"))
    told = "fits many releases, each at the estimator's own budget"
    if isinstance(folds, int):
        # A plain split leaves each row out once; others may do without, and a unit's rows lie in several parts.
        leaves_out = kind in (known.KFold, known.StratifiedKFold) and not moves
        fits = candidates * (max(folds - 1, 1) if leaves_out else folds) + refit
        told = f"{candidates} candidates on" if candidates > 1 else "a release on each of"
        told = f"fits {told} {folds} folds, and each {'row' if leaves_out else 'unit'} takes part in at most {fits} releases"
        if varies:
            told += ", whose budgets the grid decides: they add up"
        elif ignores_labels and not moves and epsilon is not None and "noise_multiplier" not in (estimator.options or {}):
            told += f": together they are ({fits * float(epsilon):g}, {fits * float(delta):g})-DP at the estimator's own budget, by basic composition"
    if moves:
        told += "; no guarantee is known of them together, since one row or unit more or less moves those of others between folds"
    elif not ignores_labels:
        told += f"; no guarantee is known of them together, as folds of {kind.__name__} may follow labels: one row then moves others. KFold's do not"
    return told


def _warn_of_search(search: Any, copied: Any, estimator: _Private, given: Any) -> None:
    """Says what the fits of a search spend together; `given` are further arguments of its fit."""
    _refuse_ledger(type(search).__name__, estimator)
    from sklearn import model_selection as known

    # By the kind of estimator a number of folds is one of StratifiedKFold.
    by_number = known.StratifiedKFold if isinstance(estimator, ClassifierMixin) else known.KFold
    kind = by_number if search.cv is None or isinstance(search.cv, int) else type(search.cv)
    # A setting, and never what scikit-learn counted: folds by groups or one for each row follow from private rows.
    own = getattr(search.cv, "n_splits", None) if kind.__module__.startswith("sklearn.") else None
    folds = search.cv if isinstance(search.cv, int) else 5 if search.cv is None else own
    candidates, varies = 1, False
    if type(search) in (known.GridSearchCV, known.RandomizedSearchCV):
        grid = search.param_distributions if hasattr(search, "param_distributions") else search.param_grid
        candidates = search.n_iter if type(search) is known.RandomizedSearchCV else len(known.ParameterGrid(grid))
        budgets = ("epsilon", "delta", "options", "secure")
        lists = [item for part in ([grid] if isinstance(grid, Mapping) else grid) for item in part.items()]
        # An estimator in a list has a budget of its own.
        varies = any(str(name).endswith(budgets) or any(hasattr(one, "get_params") for one in (values if isinstance(values, (list, tuple)) else ()))
                     for name, values in lists)  # fmt: skip
    else:
        folds = None
    told = _of_folds(copied, estimator, kind, folds, given, candidates=candidates, refit=bool(search.refit), varies=varies)
    warnings.warn(
        f"{type(search).__name__} {told}. The scores that choose among them are "
        "of private rows and covered by nothing: rounds.PrivateSearchCV pays for them all at once; or choose on public rows, or in simulations "
        "(secure=False)",
        UserWarning,
        stacklevel=6,
    )


def _list_of_classes(given: Any) -> Any:
    """Declared classes as an array; one of objects where NumPy's type would change their words, as that of ["a", 1.0] does."""
    is_list = hasattr(given, "__len__") and hasattr(given, "__getitem__") and not isinstance(given, (str, bytes, Mapping)) and getattr(given, "ndim", 1) == 1
    if not is_list or any(hasattr(one, "__len__") and not isinstance(one, (str, bytes)) for one in given):
        shown = repr(given) if isinstance(given, (str, int, float)) else f"a {type(given).__name__}"
        raise TypeError(f"`classes` is a list of the classes in their order, as classes=[\"no\", \"yes\"], not {shown}")
    classes = np.asarray(given)
    words = [_rows.word(value) for value in _rows._each(classes)]
    return classes if [_rows.word(value, words) for value in given] == words else np.fromiter(given, dtype=object, count=len(given))


@dataclass(eq=False, repr=False, kw_only=True)
class _Classifier(ClassifierMixin, _Private):  # type: ignore[misc]
    _label = "classes"

    classes: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Scores follow the noise of a small budget.
        tags.classifier_tags.poor_score = True
        return tags

    def _classes_of(self, y: Any) -> tuple[Any, bool]:
        """The classes, and whether they were read off the rows. Those of a domain follow from it alone, their type too."""
        declared = None if self.domain is None else self.domain.classes
        if self.domain is not None and declared is None:
            raise ValueError(f"the domain declares no classes, which {type(self).__name__} learns: declare them, or take Ridge or HuberRegressor, which learn numbers")
        if self.classes is not None:
            classes = _list_of_classes(self.classes)
            if declared is not None and [_rows.word(value, declared) for value in _rows._each(classes)] != declared:
                raise ValueError(f"`classes` beside a domain are its classes in its order: {declared}")
            return classes, False
        if declared is not None:
            if sorted(declared) == ["False", "True"]:
                return np.array([name == "True" for name in declared]), False
            are_integers = all(name.removeprefix("-").isdecimal() and str(int(name)) == name for name in declared)
            return np.array([int(name) for name in declared] if are_integers else declared), False
        return (np.array([0, 1]) if self._is_secret() else np.unique(y)), True

    def _target(self, y: Any) -> tuple[Any, str, dict[str, Any], bool]:
        if not self._is_secret() and self.domain is None and self.classes is None:
            if (_rows.words(_rows.array(y))[1] < 0).any():
                raise ValueError("Input y contains NaN or missing labels: leave these rows out, or declare `classes`, by which they add nothing")
            check_classification_targets(y)
        self.classes_, is_read = self._classes_of(y)
        if len(self.classes_) < 2:
            raise ValueError(f"the classifier needs at least two classes, and there is one class alone: {self.classes_.tolist()}")
        loss = self._loss
        if loss == "logistic" and len(self.classes_) > 2:
            loss = "softmax"
        if loss == "hinge" and len(self.classes_) > 2:
            raise ValueError("Only binary classification is supported: the hinge loss has two classes; take LogisticRegression for more. "
                             f"The type of the target is multiclass, with {len(self.classes_)} classes")
        names = [_rows.word(value) for value in _rows._each(self.classes_)]
        if "" in names:
            raise ValueError(f"{self.classes_.tolist()[names.index('')]!r} is no class, for missing labels have its name, which is empty (as are floats from 2^53 on): "
                             "leave it out of the classes, or give it a name, \"none\" say, in the rows as well")
        return y, loss, {"classes": names}, is_read

    def decision_function(self, X: Any) -> Any:
        """Outputs of the rows: `[n]` of two classes, else `[n, K]`."""
        outputs = self._outputs(X)
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy on rows `X` with the classes `y`. No privacy statement covers it."""
        return float(super().score(X, self._judged(X, y), sample_weight))

    def predict(self, X: Any) -> Any:
        """Classes of the rows."""
        outputs = self._outputs(X)
        places = (outputs[:, 0] >= 0).astype(int) if outputs.shape[1] == 1 else outputs.argmax(axis=1)
        return self.classes_[places]


class LogisticRegression(_Classifier):
    """Private logistic regression: of two classes the logistic loss, of more softmax.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    domain : Domain, optional
        What is known of the rows without looking at them. A domain with named columns takes data frames.
    bounds : tuple of two floats or "bytes", optional
        Public bounds of all values of an array, instead of a domain; values outside are cut to them, NaN is 0. ``"bytes"`` keeps values
        from 0 to 255 as bytes; others are rounded to these.
    classes : list, optional
        The classes in order, known without the rows. A release needs them, or a domain; beside a domain they are its classes with their type,
        by default booleans where the names are False and True, integers where all are, and else text.
    alpha : float
        λ of the regulariser (λ/2)‖w‖² beside the mean loss.
    algorithm : str
        One of ``rounds list algorithms``.
    epochs, batch_size, learning_rate, clip_norm : optional
        By default the algorithm's.
    options : dict, optional
        Other settings of `rounds.train`: ``{"sampling": "shuffled", "checkpoint": "run.ckpt"}``, or ``{"allow_weak_privacy": True}``
        for a release with ε above 10 or δ of 1/n and more.
    secure : bool
        A release: noise from a key of the operating system, and no statistic of the rows told. False is a simulation.
    random_state : int, optional
        The seed of a simulation; with it a run is never a release.
    threads : int, optional
        Threads, by default all cores.
    verbose : bool
        Shows progress on stderr.

    Attributes
    ----------
    privacy_ : Privacy
        The statement, which prints as text; ``privacy_.json()`` is the document.
    coef_, intercept_ : arrays
        Of raw values within the bounds; of named columns, of the features of the domain.
    classes_, n_features_in_, feature_names_in_, model_, outcome_
        As usual; the model and the document of the run, as of `Run` but without ``held_out``: `fit` trains once, on all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from rounds import LogisticRegression
    >>> X = np.tile([[0.5, -1.0], [-0.5, 1.0]], (2000, 1))
    >>> model = LogisticRegression(epsilon=1.0, bounds=(-1, 1), classes=["no", "yes"]).fit(X, np.tile(["no", "yes"], 2000))
    >>> model.predict(X[:2]).tolist(), model.privacy_["claim"]
    (['no', 'yes'], 'release')
    """

    _loss = "logistic"

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes, `[n, K]`."""
        return _probabilities(self._outputs(X))

    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of the probabilities."""
        return np.log(self.predict_proba(X))


class LinearSVC(_Classifier):
    """Private linear support vector machine of two classes: the hinge loss.

    Parameters and attributes are those of `LogisticRegression`.
    """

    _loss = "hinge"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class _Regressor(RegressorMixin, _Private):  # type: ignore[misc]
    _label = "target_bounds"

    target_bounds: tuple[float, float] | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def _loss_of(self, span: float) -> str:
        return self._loss

    def _target(self, y: Any) -> tuple[Any, str, dict[str, Any], bool]:
        if self.domain is not None and self.domain.label_bounds is None:
            raise ValueError(f"the domain declares no bounds of the label, and {type(self).__name__} learns numbers: declare them, or take LogisticRegression "
                             "or LinearSVC, which learn classes")
        if not self._is_secret():
            words, y = y, _rows.numbers(y)
            if words.dtype.kind in "OUS" and (np.isnan(y) & (_rows.words(words)[1] >= 0)).any():
                raise ValueError(f"y has words that are no numbers, which {type(self).__name__} learns: LogisticRegression learns classes")
        bounds, is_read = None if self.target_bounds is None else _rows.pair("target_bounds", self.target_bounds), False
        if self.domain is not None:
            bounds = self.domain.label_bounds
        if bounds is None:
            is_read = True
            lo, hi = (0.0, 1.0) if self._is_secret() else (float(y.min()), float(y.max()))
            bounds = (lo, hi) if lo < hi else (lo - 0.5, lo + 0.5)
        lo, hi = map(float, bounds)
        return y, self._loss_of(hi - lo), {"label_bounds": (lo, hi)}, is_read

    def _set_coefficients(self, domain: Domain | None) -> None:
        super()._set_coefficients(domain)
        assert domain is not None and domain.label_bounds is not None
        lo, hi = domain.label_bounds
        # An output of −1 is the lower bound, 1 the upper one.
        self.coef_ = (0.5 * (hi - lo) * self.coef_)[0]
        self.intercept_ = float(lo + 0.5 * (self.intercept_[0] + 1.0) * (hi - lo))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² on rows `X` with the numbers `y`. No privacy statement covers it."""
        return float(super().score(X, self._judged(X, y), sample_weight))

    def predict(self, X: Any) -> Any:
        """Numbers of the rows, in the units of `y`."""
        return self._outputs(X)[:, 0]


class Ridge(_Regressor):
    """Private linear regression with the squared loss and the regulariser (α/2)‖w‖².

    Parameters and attributes are those of `LogisticRegression`, with `target_bounds`, public bounds of `y`, in place of `classes`.
    """

    _loss = "squared"


@dataclass(eq=False, repr=False, kw_only=True)
class HuberRegressor(_Regressor):
    """Private linear regression with the Huber loss, whose threshold `huber` is in the units of `y`.

    Other parameters and attributes are those of `Ridge`.
    """

    _loss = "huber"

    huber: float = 1.35

    def _loss_of(self, span: float) -> str:
        threshold = np.float32(2.0 * float(_rows.checked({"huber": self.huber}, "huber")["huber"]) / span)
        if not (np.isfinite(threshold) and threshold > 0):
            raise ValueError(f"`huber` is a positive number, not {self.huber!r}")
        return f"huber={threshold}"


def _refusing(init: Any) -> Any:
    """Tells what stands for a setting of scikit-learn's own estimators."""

    names = inspect.signature(init).parameters

    @functools.wraps(init)
    def told(self: Any, *given: Any, **settings: Any) -> None:
        _refuse_unknown(type(self), {name: value for name, value in settings.items() if name not in names})
        init(self, *given, **settings)

    return told


for _kind in (_Private, _Classifier, _Regressor, HuberRegressor):
    setattr(_kind, "__init__", _refusing(_kind.__init__))

# Settings of estimators that the library names otherwise.
_NAMES = {"alpha": "regularization"}


def _number(text: str) -> Any:
    """The number that a text is, or the text."""
    try:
        return float(text)
    except ValueError:
        return text


def _of_best(name: str) -> Any:
    """The method of the estimator that was chosen."""

    def method(self: Any, X: Any) -> Any:
        check_is_fitted(self, "best_estimator_")
        return getattr(self.best_estimator_, name)(X)

    method.__name__, method.__doc__ = name, f"`{name}` of `best_estimator_`."
    return available_if(lambda self: hasattr(self.estimator, name))(method)


@dataclass(eq=False, repr=False)
class PrivateSearchCV(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """The best of a random number of fits with settings from lists, at one ε for all of them: `rounds.tune` for an estimator.

    Every trial draws a value of each list, trains, and is scored on the training rows with noise that the budget pays for. There are no folds.
    Of a release only the winner leaves: neither the number of trials nor any score does.

    Parameters
    ----------
    estimator : LogisticRegression, LinearSVC, Ridge or HuberRegressor
        Its own settings are those that no trial draws.
    param_distributions : dict
        Lists of values by the names of settings: `learning_rate`, `clip_norm`, `epochs`, `batch_size`, `alpha`, or parameters of the algorithm.
    epsilon, delta : float, optional
        The budget of all trials together, by default the estimator's.
    trials : float
        The expected number of trials. The true one is random.
    law : str
        The law of the number of trials: geometric, logarithmic, poisson, or η of a truncated negative binomial.
    score_on : str or path, optional
        A file of public rows to score on instead, without noise.

    Attributes
    ----------
    best_estimator_, best_params_
        The winner and its settings. To fit `best_estimator_` again would spend its budget again.
    privacy_, outcome_
        The statement of the whole selection, and the document of its run.
    cv_results_ : dict
        Of a simulation alone: ``params`` and ``mean_test_score`` of every trial, a score with its noise.

    Examples
    --------
    >>> import numpy as np
    >>> from rounds import LogisticRegression, PrivateSearchCV
    >>> X = np.tile([[0.5, -1.0], [-0.5, 1.0]], (2000, 1))
    >>> model = LogisticRegression(epsilon=1.0, bounds=(-1, 1), classes=["no", "yes"])
    >>> search = PrivateSearchCV(model, {"learning_rate": [0.5, 2.0]}, trials=3).fit(X, np.tile(["no", "yes"], 2000))
    >>> search.privacy_["claim"], search.privacy_["epsilon"] <= 1.0, search.best_params_["learning_rate"] in (0.5, 2.0)
    ('release', True, True)
    """

    estimator: Any
    param_distributions: Mapping[str, Any]
    _: KW_ONLY
    epsilon: float | None = None
    delta: float | None = None
    trials: float = 10.0
    law: str = "geometric"
    score_on: Any = None

    def __sklearn_tags__(self) -> Any:
        tags, own = super().__sklearn_tags__(), get_tags(self.estimator)
        for name in ("estimator_type", "classifier_tags", "regressor_tags", "input_tags", "target_tags"):
            setattr(tags, name, getattr(own, name))
        return tags

    def __sklearn_clone__(self) -> Any:
        _warn_of_copies(self)
        return BaseEstimator.__sklearn_clone__(self)

    def fit(self, X: Any, y: Any, *, unit: Any = None, **others: Any) -> Any:
        """Runs the trials on rows `X` with the labels `y`; `unit` has the id of each row's unit, a person say.

        Returns
        -------
        self
        """
        if not isinstance(self.estimator, _Private):
            raise TypeError(
                f"`estimator` is one of this library's, not {type(self.estimator).__name__}: another's fits are private by no statement, and "
                "steps of a pipeline would be fitted in every trial"
            )
        best = clone(self.estimator)
        best.set_params(**{name: given for name in ("epsilon", "delta") if (given := getattr(self, name)) is not None})
        lists = {_NAMES.get(name, name): values for name, values in self.param_distributions.items()}
        best._selection = dict(grid=lists, trials=self.trials, law=self.law, score_on=self.score_on)
        if not best._is_secret():
            best._selection["diagnostics"] = True
        try:
            best.fit(X, y, unit=unit, **others)
        finally:
            del best._selection
        told = {name.removeprefix("set "): text for name, text in best.outcome_["parameters"].items()}
        self.best_params_ = self._params({name: told[name.replace("_", "-")] for name in lists})
        own = best.get_params()
        best.set_params(**{name: value for name, value in self.best_params_.items() if name in own})
        others = {name: value for name, value in self.best_params_.items() if name not in own}
        best.options = {**(best.options or {}), **others} if others else best.options
        self.best_estimator_, self.privacy_, self.outcome_ = best, best.privacy_, best.outcome_
        if "trials" in best.outcome_:
            trials = best.outcome_["trials"]
            scores = [np.nan if trial["score"] is None else trial["score"] for trial in trials]
            params = [self._params({name.replace("-", "_"): text for name, text in trial["settings"]}) for trial in trials]
            self._cv_results = {"params": params, "mean_test_score": np.array(scores)}
        for name in ("classes_", "n_features_in_", "feature_names_in_"):
            if hasattr(best, name):
                setattr(self, name, getattr(best, name))
        return self

    @property
    def cv_results_(self) -> dict[str, Any]:
        """Of a simulation, ``params`` and ``mean_test_score`` of every trial."""
        check_is_fitted(self, "best_estimator_")
        if "trials" not in self.outcome_:
            raise AttributeError("cv_results_: of a release the winner alone is told, no trial and no score; a simulation (secure=False of `estimator`) has them")
        return self._cv_results

    def _params(self, texts: dict[str, str]) -> dict[str, Any]:
        """The given values that have these texts in the library."""
        found = {}
        for name, values in self.param_distributions.items():
            text = texts[_NAMES.get(name, name)]
            found[name] = next(value for value, own in zip(values, words_of(name, values)) if _number(own) == _number(text))
        return found

    predict = _of_best("predict")
    predict_proba = _of_best("predict_proba")
    predict_log_proba = _of_best("predict_log_proba")
    decision_function = _of_best("decision_function")

    def score(self, X: Any, y: Any) -> float:
        """`score` of `best_estimator_`."""
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y))
