"""The functions of the package: each is one call of the library."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from . import _builds

_builds.load()

from . import _rounds  # noqa: E402
from ._rounds import Domain as Domain, Model as Model, Rows  # noqa: E402
from ._rows import checked, is_frame, lines_of, names_of, not_finite, rows_of, with_unit, word  # noqa: E402

Progress = Callable[[str, int, int], object]


def _is_fixed(self: Any, *_: Any, **__: Any) -> Any:
    raise TypeError("a statement says what was released, and does not change; json.loads(privacy.json()) is a copy that does")


class _Lines(list):  # type: ignore[type-arg]
    """A list of a statement."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = append = extend = insert = pop = remove = clear = sort = reverse = _is_fixed

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self),)


def _fixed(value: Any) -> Any:
    """A copy of a part of a statement that does not change."""
    return Privacy(value) if isinstance(value, dict) else _Lines(map(_fixed, value)) if isinstance(value, list) else value


class Privacy(dict):  # type: ignore[type-arg]
    """A privacy statement: a dictionary with the keys of the command's documents, which prints as text.

    Examples
    --------
    >>> print(Privacy(claim="none", reason="nothing is declared"))
    claim: none
    reason: nothing is declared
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__((name, _fixed(value)) for name, value in dict(*given, **named).items())

    __setitem__ = __delitem__ = __ior__ = update = pop = popitem = clear = setdefault = _is_fixed

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)

    def __str__(self) -> str:
        def text(value: Any) -> str:
            if not isinstance(value, dict):
                return str(value)
            return ", ".join(f"{name.replace('_', ' ')} {text(part)}" for name, part in value.items() if name != "mechanisms")

        shown: list[str] = []
        for key, value in self.items():
            if value is None or key == "mechanisms":
                continue
            if value == "simulation":
                value = "simulation: anybody can draw its noise again, so it protects nobody"
            lines = value if isinstance(value, list) else [value]
            shown.extend(f"{key.replace('_', ' ')}: {text(line)}" for line in lines)
        return "\n".join(shown)

    def json(self) -> str:
        """The statement as JSON."""
        return json.dumps(self, ensure_ascii=False)


class Run:
    """A run that is finished.

    Attributes
    ----------
    model : Model
        The model: `rounds.predict` and `rounds.evaluate` take it, `model.write(path)` keeps it with its statement.
    outcome : dict
        The document of the command's ``--json``: ``plan`` (what the algorithm chose), ``parameters`` (what was given), ``model_sha256``,
        ``rounds``, and of a simulation ``diagnostics`` of the training rows and ``test_accuracy`` or ``test_errors``, under ``held_out`` where no
        test rows were given: those of the same run on four fifths of the rows.
    privacy : Privacy
        The statement.
    """

    def __init__(self, model: Model, outcome: dict[str, Any]) -> None:
        self.model = model
        self.outcome = outcome
        self.privacy = Privacy(outcome["privacy"])

    def __repr__(self) -> str:
        epsilon = self.privacy.get("epsilon")
        return f"<rounds.Run of {self.outcome['algorithm']}, claim {self.privacy['claim']}, ε = {epsilon}>"


class Bar:
    """Progress as a line on stderr; a stream that is closed ends the line and no run."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = sys.stderr if stream is None else stream

    def __call__(self, stage: str, done: int, rounds: int) -> None:
        text = f"{stage} {done}/{rounds}" if stage == "rounds" else stage
        try:
            self.stream.write(f"\r{text:<40}" + ("\n" if stage == "publishing" else ""))
            self.stream.flush()
        except (ValueError, OSError, AttributeError):
            pass


def _text(name: str, value: Any) -> str:
    """The text of a setting, as the command line has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, os.PathLike):
        return os.fspath(value)  # type: ignore[no-any-return]
    if isinstance(value, (list, tuple)) and name in ("drop", "classes"):
        return "\n".join(str(one) for one in value)
    if isinstance(value, (list, tuple)):
        return ",".join(str(one) for one in value)
    if name in ("epsilon", "delta", "noise_multiplier", "learning_rate", "clip_norm", "epochs"):
        return repr(float(value))
    return str(value)


def _told(warned: Sequence[str]) -> None:
    for warning in warned:
        warnings.warn(warning, UserWarning, stacklevel=3)


def train(
    data: Any,
    y: Any = None,
    *,
    domain: Domain | str | os.PathLike[str] | None = None,
    unit: Any = None,
    test: Any = None,
    epsilon: float | None = None,
    delta: float = 1e-5,
    algorithm: str = "dp-sgd",
    seed: int | None = None,
    threads: int | None = None,
    verbose: bool = False,
    progress: Progress | None = None,
    name: str = "arrays",
    **settings: Any,
) -> Run:
    """Trains a private linear model: the run of ``rounds train`` with the same settings.

    Without a `seed` the run is a release: noise and sampling come from a key of the operating system, and what a release must not
    do is refused. With one it is a simulation that anyone can repeat, with the noise.

    Parameters
    ----------
    data : array, sparse matrix, data frame, str or path
        Rows, or the name of a data set or the path of a file or folder. An array of bytes in C order is read where it lies, and must
        not be changed during the call; rows of a declared domain that are no bytes are encoded, which copies them once.
    y : array or str, optional
        Labels, or the name of the label's column. By default the label that the domain declares.
    domain : Domain, str or path, optional
        What is known of the rows without looking at them; a path is that of a schema. A release needs one.
    unit : array or str, optional
        The id of each row's unit, a person say, or the name of a column of ids (of a file, always), which the statement has then. All rows of a unit
        are protected together.
    test : tuple of rows and labels, or path, optional
        Rows to test on: of a simulation, or of a file whose schema declares them public (``[test] public = true``).
    epsilon, delta : float
        The budget.
    algorithm : str
        One of ``rounds list algorithms``.
    seed : int, optional
        The seed of a simulation.
    threads : int, optional
        Threads, by default all cores. The model does not depend on them.
    verbose : bool
        Shows progress on stderr.
    progress : callable, optional
        Called with a stage, the rounds that are done and their number, at most twenty times a second; in a release with stages alone, since
        the time of a round depends on rows. What it raises stops the run.
    name : str
        The name of rows in memory, in documents.
    **settings
        The command's other flags with underscores (`epochs`, `batch_size`, `learning_rate`, `clip_norm`, `loss`, `checkpoint`,
        `resume`, `model`, …), and parameters of the algorithm: ``python -m rounds train --help`` and ``python -m rounds list algorithms ID``
        describe them. ``allow_weak_privacy=True`` makes a release that is refused else, since it protects next to nothing: with ε above 10, or with δ of
        1/n and more (1/N under add-remove), by which a whole row may be told.

    Returns
    -------
    Run

    Raises
    ------
    ValueError
        Settings or rows that are refused, with the remedy. No message of a release shows a value of a row.
    KeyboardInterrupt
        After the round in which it came. With `checkpoint` the message names the file, and ``resume=FILE`` goes on. A run that is done when it comes is
        given as any other, with a warning: its budget is spent.

    Examples
    --------
    >>> import rounds
    >>> run = rounds.train("synthetic-logistic", epsilon=1.0, seed=1, epochs=2)
    >>> run.privacy["claim"]
    'simulation'
    """
    given = checked({"epsilon": epsilon, "delta": delta, "algorithm": algorithm, "seed": seed, "threads": threads, **settings}, "delta")
    seed, threads = given.pop("seed"), given.pop("threads")
    if given.get("ledger") is not None and seed is not None:
        raise ValueError("`ledger` counts releases, and a seed (of an estimator random_state, or secure=False) makes a simulation: leave one out")
    if "secure" in given:
        raise TypeError("`secure` follows from `seed`: leave `seed` out for a release")
    given.update({"secure": True} if seed is None else {"seed": seed})
    holds_out, selection = bool(given.pop("holds_out", True)), given.pop("_selection", None)
    rows = test_rows = None
    if isinstance(data, (str, os.PathLike)):
        place = os.fspath(data)
        if not isinstance(unit, (str, type(None))) or not isinstance(y, (str, type(None))):
            raise TypeError("`y` and `unit` of a file are the names of its columns")
        if y is not None:
            given["label"] = y
        if isinstance(domain, Domain):
            raise TypeError("the domain of a file is a schema: give its path")
        given.update({"schema": domain, "unit": unit, "test": test})
    else:
        place = name
        if domain is not None and not isinstance(domain, Domain):
            domain = Domain.read(os.fspath(domain))
        if unit is not None and domain is not None and domain.unit is None:
            domain = with_unit(domain, unit, data, y)
        if domain is not None and y is None:
            y = domain.label_column
        if y is None:
            raise ValueError("`y`, the labels of the rows, is missing")
        rows = rows_of(data, y, domain, unit, name=name, explain=seed is not None)
        if seed is not None and domain is not None:
            _told(not_finite(data, domain))
        if isinstance(test, (str, os.PathLike)):
            raise TypeError("`test` of rows in memory is a pair of rows and labels")
        if test is not None and seed is None:
            raise ValueError("`test`: nothing shows that rows in memory are public, and a release tells nothing of others: evaluate the model on them afterwards")
        if test is not None:
            test_rows = rows_of(test[0], test[1], domain, name=name, explain=seed is not None)
    texts = [(key, _text(key, value)) for key, value in given.items() if value is not None]
    if verbose and progress is None:
        progress = Bar()
    model, document, warned = _rounds.train(place, texts, rows, test_rows, threads, progress, holds_out, selection)
    _told(warned)
    run = Run(model, json.loads(document))
    null_rows = (run.outcome.get("diagnostics") or {}).get("null_rows") if rows is not None else None
    if null_rows:
        _told([f"{null_rows} rows add nothing: a value or a label is missing, or none that the domain declares"])
    return run


def tune(
    data: Any,
    y: Any = None,
    *,
    grid: Mapping[str, Iterable[Any]],
    trials: float = 10.0,
    law: str = "geometric",
    score_on: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> Run:
    """Trains the best of a random number of models with settings from a grid, at one ε for all of them: the run of ``rounds tune``.

    Each trial draws a value of every list, trains, and scores its model on the training rows, with noise that `epsilon` pays for, too.
    Of a release only the winner leaves: neither the number of trials nor any score does.

    Parameters
    ----------
    data, y
        As of `train`.
    grid : dict
        Lists of values by the names of settings that trials draw: ``{"learning_rate": [0.5, 1, 2], "clip_norm": [0.5, 1]}``.
    trials : float
        The expected number of trials, above 1. The true one is random.
    law : str
        The law of the number of trials: geometric, logarithmic, poisson, or η of a truncated negative binomial.
    score_on : str or path, optional
        A file of public rows to score on, without noise.
    **settings
        As of `train`; `epsilon` and `delta` are those of all trials together. With `seed` and ``diagnostics=True`` the document has every
        trial under ``trials``.

    Returns
    -------
    Run
        The winner's; its settings stand in ``outcome["parameters"]``.

    Examples
    --------
    >>> import rounds
    >>> run = rounds.tune("synthetic-logistic", grid={"learning_rate": [0.5, 2]}, trials=2, epsilon=1.0, epochs=1, seed=1)
    >>> run.outcome["parameters"]["set learning-rate"] in ("0.5", "2"), run.privacy["epsilon"] <= 1.0
    (True, True)
    """
    lists = [(name.replace("_", "-"), words_of(name, values)) for name, values in grid.items()]
    return train(data, y, _selection=(lists, float(checked({"trials": trials}, "trials")["trials"]), str(law), score_on), **settings)


def words_of(name: str, values: Any) -> list[str]:
    """The values of a setting that trials draw, as the command line has them."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"`{name}` of the grid is a list of values, not {values!r}: trials draw each of them with the same probability")
    return [str(value).lower() if isinstance(value, bool) else word(value) for value in values]


def _file(given: Any) -> str:
    """The path of a model or of the document of a run."""
    if not isinstance(given, (str, os.PathLike)):
        raise TypeError(f"the path of a file is needed, not a {type(given).__name__}: `model.write(path)` of a run (`model_.write` of an estimator) writes "
                        "its model with the statement, json.dump(run.outcome, file) its document (`outcome_`)")
    path = os.fspath(given)
    try:
        with open(path, "rb") as file:
            start = file.read(9)
    except OSError:
        return path
    # A model's file begins with a length, and then a brace.
    if start.startswith(b"\x80") and not start.endswith(b"{"):
        raise ValueError(f"{path}: a pickle, which joblib.load or pickle.load reads; `model_.write(path)` of the estimator in it writes its model")
    return path


def _for_model(model: Any) -> Model:
    model = getattr(model, "model_", getattr(model, "model", model))
    return model if isinstance(model, Model) else Model.read(_file(model))


def _rows_for(model: Model, data: Any, y: Any = None) -> tuple[Rows, bool]:
    if isinstance(data, (str, os.PathLike)):
        return model.load(os.fspath(data), None, y is not False)
    return rows_of(data, None if y is False else y, model.domain, explain=True), False


def predict(model: Model | str | os.PathLike[str], data: Any, *, probabilities: bool = False) -> Any:
    """Predictions for rows.

    Parameters
    ----------
    model : Model, Run, estimator, str or path
        A model, what holds it, or its file.
    data : array, sparse matrix, data frame, str or path
        Rows with the columns of the training rows.
    probabilities : bool
        Gives the probability of each class instead, `[n, K]`.

    Returns
    -------
    array
        Names of classes, numbers in the units of the label, or probabilities. Of a category or label that the domain does not know and
        that makes its row a null row, the class is an empty name.
    """
    import numpy as np

    model = _for_model(model)
    rows, _ = _rows_for(model, data, False)
    outputs = model.outputs(rows)
    if model.classes is None:
        return outputs[:, 0].astype(np.float32)
    if probabilities:
        if not model.has_probabilities:
            raise ValueError("models of this loss have no probabilities: train with the loss logistic or softmax")
        return _probabilities(outputs)
    places = model.predicted(rows)
    names = np.array([*model.classes, ""])
    return names[places]


def _probabilities(outputs: Any) -> Any:
    import numpy as np

    logits = np.hstack([-0.5 * outputs, 0.5 * outputs]) if outputs.shape[1] == 1 else outputs
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def evaluate(model: Model | str | os.PathLike[str], data: Any, y: Any = None) -> dict[str, Any]:
    """The quality of a model on labelled rows, as ``rounds evaluate`` tells it. No privacy statement covers it.

    Parameters
    ----------
    model : Model, str or path
        A model or its file.
    data : array, sparse matrix, data frame, str or path
        Rows.
    y : array or str, optional
        Labels; by default the label's column.

    Returns
    -------
    dict
    """
    model = _for_model(model)
    if y is None and not isinstance(data, (str, os.PathLike)):
        y = model.domain.label_column if model.domain is not None else None
        if y is None:
            raise ValueError("`y`, the labels of the rows, is missing")
    rows, are_test_rows = _rows_for(model, data, y)
    return dict(json.loads(model.evaluate(rows, are_test_rows)))


def account(
    mechanism: str,
    *,
    delta: float,
    noise_multiplier: float | None = None,
    epsilon: float | None = None,
    steps: int = 1,
    trees: int = 1,
    sampling_rate: float | None = None,
    m: int | None = None,
    n: int | None = None,
    accountant: str | None = None,
    adjacency: str | None = None,
) -> dict[str, Any]:
    """ε of a mechanism, or the least noise for an ε.

    Parameters
    ----------
    mechanism : str
        ``gaussian``, ``subsampled-gaussian`` or ``tree``.
    delta : float
        δ.
    noise_multiplier, epsilon : float
        The noise's standard deviation over the clip norm, which gives ε; or ε, which gives the least noise.
    steps, trees : int
        Steps that read an example (in all, where batches are drawn); leaves of a tree and trees.
    sampling_rate : float, optional
        Of Poisson batches.
    m, n : int, optional
        Batches of exactly m of n examples.
    accountant, adjacency : str, optional
        As of ``rounds account``.

    Returns
    -------
    dict

    Examples
    --------
    >>> import rounds
    >>> found = rounds.account("subsampled-gaussian", noise_multiplier=1.0, delta=1e-5, sampling_rate=0.01, steps=1000)
    >>> round(found["epsilon"], 2)
    1.83
    """
    return dict(json.loads(_rounds.account(**checked(locals(), "delta", "steps", "trees"))))


def verify(
    statement: str | os.PathLike[str],
    *,
    signer: str | os.PathLike[str] | None = None,
    factorization: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Computes the statement of a release again, all of it, from a model's file or the document of a run. Of a ledger verify the models of its runs.

    Returns
    -------
    dict
        ``holds``, ``differences``, the ``statement`` that follows and what shows it.
    """
    return dict(json.loads(_rounds.verify(_file(statement), signer, factorization)))


def compose(
    statements: Sequence[str | os.PathLike[str]],
    *,
    delta: float | None = None,
    signer: str | os.PathLike[str] | None = None,
    factorization: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Verifies the statements of releases from the same rows, and computes what they guarantee together.

    Returns
    -------
    dict
        ``together`` with ε and δ of runs whose settings were fixed before the first of them (``basic`` in it has the plain sums), and ``runs``. That the
        rows were the same is not seen.
    """
    if isinstance(statements, (str, os.PathLike)):
        raise TypeError("`statements` is a list of files")
    return dict(json.loads(_rounds.compose(list(map(_file, statements)), checked({"delta": delta})["delta"], signer, factorization)))


def new_ledger(
    path: str | os.PathLike[str],
    *,
    data: str,
    domain: Domain,
    rows: int | None = None,
    epsilon: float,
    delta: float,
    filter: str = "gaussian",
) -> dict[str, Any]:
    """Makes the ledger of a data set: a budget for all releases that name it by ``ledger=path``, whatever their settings follow from.

    A run is booked before it reads a row; one that would exceed the budget is refused.

    Parameters
    ----------
    path : str or path
        A file that is not there yet.
    data : str
        The name of the rows, as runs have it: ``name=`` of rows in memory, or the file's.
    domain : Domain
        Their domain, of which the relation and the unit count.
    rows : int, optional
        Their number, or that of units, which is public; none under add-remove.
    epsilon, delta : float
        The budget of all runs together.
    filter : str
        How runs are added up: gaussian (μ²), renyi (one order) or basic (ε and δ). Of selections (`tune`, `PrivateSearchCV`) ε and δ alone are known: a
        ledger for them is basic from its begin.

    Returns
    -------
    dict
        As of `ledger`.
    """
    if not isinstance(domain, Domain):
        raise TypeError(f"`domain` is a rounds.Domain, not a {type(domain).__name__}: Domain.read(path) and Domain.parse(text) make one")
    given = checked({"rows": rows, "epsilon": epsilon, "delta": delta}, "epsilon", "delta")
    return dict(json.loads(_rounds.ledger(path, (data, domain, given["rows"], filter, given["epsilon"], given["delta"]))))


def ledger(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What was spent of a ledger.

    Returns
    -------
    dict
        ``budget``: (ε, δ) of all runs that are booked, and of those that will be, together; this is what may be stated of them. ``runs``: the
        statement, the state and the ``share`` of each. ``spent`` and ``left``: shares of the budget as its filter counts (of μ² say, of which ε is no
        multiple); no smaller ε follows from ``spent``, for whether another run was made may have followed from results. ``sha256`` of the last line:
        who keeps it can see later that no line was cut off.
    """
    return dict(json.loads(_rounds.ledger(path)))


def factorize(
    rounds: int,
    *,
    workload: str = "prefix",
    epochs: int = 1,
    method: str = "optimal",
    objective: str = "frobenius",
    lambda_tau: int | None = None,
    gap: float = 1e-6,
    out: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """The errors of a factorisation A = B·C of a workload, as ``rounds factorize`` tells them; C goes to the file `out`.

    Examples
    --------
    >>> import rounds
    >>> rounds.factorize(64, method="banded=8")["rms_error"] < rounds.factorize(64, method="identity")["rms_error"]
    True
    """
    return dict(json.loads(_rounds.factorize(**checked(locals(), "rounds", "epochs", "gap"))))


def audit(
    algorithm: str,
    *,
    runs: int = 20_000,
    seed: int = 1,
    epsilon: float | None = None,
    delta: float = 1e-5,
    adjacency: str | None = None,
    secure: bool = False,
    sabotage: str | None = None,
    threads: int | None = None,
) -> list[dict[str, Any]]:
    """Lower bounds on the privacy loss of an algorithm beside its claims, one for each of its scenes.

    ``"moments"`` is the release that whitened features follow from.

    Returns
    -------
    list of dict
        ``claimed_epsilon``, ``lower_bound_epsilon``, ``disproved`` and more; or the ``reason`` for no claim.
    """
    return list(json.loads(_rounds.audit(**checked(locals(), "runs", "seed", "delta"))))


def clipped_sum(
    X: Any, y: Any, weights: Any, *, loss: str, clip_norm: float, domain: Domain | None = None, threads: int | None = None
) -> Any:
    """The sum over rows of the gradients of a linear model, each clipped to `clip_norm` in L2.

    Parameters
    ----------
    X, y : arrays
        Rows and labels.
    weights : array `[K, d + 1]`
        The model, its bias last; ``K`` is 1 but for the loss softmax.
    loss : str
        A loss of the command.
    clip_norm : float
        The clip norm.
    domain : Domain, optional
        The domain of the rows; without one features are taken as they are.

    Returns
    -------
    array `[K, d + 1]` of float64

    Examples
    --------
    >>> import numpy as np, rounds
    >>> rounds.clipped_sum([[3.0, 4.0]], [1.0], np.zeros((1, 3)), loss="squared", clip_norm=0.5).round(3)
    array([[-0.294, -0.392, -0.098]])
    """
    import numpy as np

    weights = np.asarray(weights, dtype=np.float32)
    rows = _sum_rows(X, y, loss, domain)
    given = checked({"clip_norm": clip_norm, "threads": threads}, "clip_norm")
    found = _rounds.clipped_sum(rows, weights.ravel().tolist(), loss, given["clip_norm"], given["threads"] or 0)
    return found.reshape(weights.shape)


def _sum_rows(X: Any, y: Any, loss: str, domain: Domain | None) -> Rows:
    from ._rows import _matrix, array, labels, numbers, one_a_row

    if domain is not None:
        return rows_of(X, y, domain, explain=True)
    matrix = _matrix(X, None)
    count = len(matrix[0]) - 1 if isinstance(matrix, tuple) else len(matrix)
    given = labels(y, None, count) if loss == "softmax" else numbers(one_a_row(array(y), count))
    return Rows.of_matrix("arrays", matrix, given, None, None, True)


def instruction_set() -> str:
    """The instruction set of the kernels on this processor, in this build."""
    return _rounds.instruction_set()


class Schema:
    """Schemas: declared domains as TOML, for a person to check."""

    @staticmethod
    def draft(
        data: Any,
        *,
        label: str | None = None,
        drop: Sequence[str] = (),
        task: str | None = None,
        unit: str | None = None,
    ) -> str:
        """The text of a schema that is drafted from the rows of a data frame or a file.

        It reads the rows, so a release refuses it until a person has checked every line and has set ``drafted = false``.

        Examples
        --------
        >>> import pandas as pd, rounds
        >>> text = rounds.Schema.draft(pd.DataFrame({"age": [20, 70] * 9, "stays": ["no", "yes"] * 9}))
        >>> rounds.Domain.parse(text).columns
        [('age', 'number')]
        """
        if isinstance(data, (str, os.PathLike)):
            return _rounds.draft(data, label, list(drop), task, unit)
        import csv
        import tempfile

        if not is_frame(data):
            raise TypeError("a draft is made from a data frame or a file; declare arrays by Domain.matrix")
        if label is None and "label" not in names_of(data):
            label = names_of(data)[-1]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "frame.csv"
            with open(path, "w", newline="", encoding="utf-8") as file:
                lines = csv.writer(file)
                lines.writerow(names_of(data))
                lines.writerows(lines_of(data))
            return _rounds.draft(path, label, list(drop), task, unit).replace(f"{folder}/", "")


def restore_model(data: bytes) -> Model:
    """The model of a pickle."""
    return Model.from_bytes(data)


def restore_domain(text: str, source: str) -> Domain:
    """The domain of a pickle."""
    return Domain.restored(text, source)
