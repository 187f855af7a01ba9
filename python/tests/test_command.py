"""The same inputs and seed give the model of the command, bit for bit."""

import os
from pathlib import Path

import numpy as np
import pytest
from conftest import SCHEMA, frame, numbers

import rounds

ARGUMENTS = ["--epsilon", "1", "--delta", "1e-6", "--seed", "3", "--epochs", "2"]
SETTINGS = dict(epsilon=1.0, delta=1e-6, seed=3, epochs=2)


def hash_of(run):
    return run.outcome["model_sha256"]


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
@pytest.mark.parametrize("unit", [False, True])
def test_data_frames(command, tmp_path, library, unit):
    table = frame(2_000)
    table.to_csv(tmp_path / "rows.csv", index=False)
    schema = SCHEMA.replace('drop = ["person"]', 'unit = "person"') if unit else SCHEMA
    (tmp_path / "schema.toml").write_text(schema)
    if library == "polars":
        import polars

        table = polars.from_pandas(table)
    elif library == "arrow":
        import pyarrow

        table = pyarrow.Table.from_pandas(table)
    found = command("train", "--data", tmp_path / "rows.csv", *ARGUMENTS)
    run = rounds.train(table, domain=rounds.Domain.parse(schema), **SETTINGS)
    assert hash_of(run) == found["model_sha256"]
    assert run.privacy["epsilon"] == found["privacy"]["epsilon"]
    assert run.privacy["unit"] == found["privacy"]["unit"]
    # And by the file itself.
    assert hash_of(rounds.train(tmp_path / "rows.csv", **SETTINGS)) == found["model_sha256"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "int16"])
def test_arrays(command, tmp_path, dtype):
    X, y = numbers(1_500, 100)
    bounds = (-1.0, 1.0)
    if dtype == "uint8":
        X, bounds = np.round(127.5 * (X + 1)), (0.0, 255.0)
    if dtype == "int16":
        X, bounds = np.round(500 * X), (-300.0, 300.0)
    X = X.astype(dtype)
    if dtype.startswith("float"):
        X[::97, 3], X[5, 7], X[6, 7] = np.nan, np.inf, -np.inf
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    storage = "bytes" if dtype == "uint8" else "dense"
    domain = rounds.Domain.matrix(100, bounds, classes=["0", "1"], storage=storage)
    (tmp_path / "schema.toml").write_text(domain.toml())
    found = command("train", "--data", tmp_path / "rows.npz", *ARGUMENTS)
    assert hash_of(rounds.train(X, y, domain=domain, **SETTINGS)) == found["model_sha256"]
    # Another order in memory is another array, and the same rows.
    assert hash_of(rounds.train(np.asfortranarray(X), y, domain=domain, **SETTINGS)) == found["model_sha256"]


def test_sparse_rows(command, tmp_path):
    from scipy.sparse import random_array
    from sklearn.datasets import dump_svmlight_file

    X = random_array((1_200, 60), density=0.1, format="csr", rng=np.random.default_rng(1), dtype=np.float32)
    y = (np.asarray(X.sum(axis=1)).ravel() > 3).astype(int)
    dump_svmlight_file(X, y, str(tmp_path / "rows.libsvm"), zero_based=False)
    domain = rounds.Domain.matrix(60, (0.0, 1.0), classes=["0", "1"], storage="sparse")
    (tmp_path / "schema.toml").write_text(domain.toml())
    found = command("train", "--data", tmp_path / "rows.libsvm", *ARGUMENTS)
    assert hash_of(rounds.train(X, y, domain=domain, **SETTINGS)) == found["model_sha256"]
    assert hash_of(rounds.train(X.tocoo().tocsc(), y, domain=domain, **SETTINGS)) == found["model_sha256"]


def test_mnist_from_bytes(command):
    folder = Path(os.environ.get("ROUNDS_DATA", "")) / "mnist"
    if not (folder / "train-images-idx3-ubyte.gz").is_file():
        pytest.skip("ROUNDS_DATA has no MNIST")
    import gzip

    def bytes_of(name, header):
        return np.frombuffer(gzip.decompress((folder / name).read_bytes()), np.uint8)[header:]

    X = bytes_of("train-images-idx3-ubyte.gz", 16).reshape(-1, 784)
    y = bytes_of("train-labels-idx1-ubyte.gz", 8)
    found = command("train", "--data", "mnist", "--data-dir", folder.parent, "--epsilon", "1")
    run = rounds.train(X, y, domain=rounds.Domain.of("mnist", folder.parent), epsilon=1.0, seed=1, holds_out=False)
    assert hash_of(run) == found["model_sha256"]
    estimator = rounds.LogisticRegression(1.0, classes=range(10), random_state=1, secure=False).fit(X, y)
    assert estimator.outcome_["model_sha256"] == found["model_sha256"]


def test_predictions_and_quality(command, tmp_path):
    frame(2_000).to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    new = frame(300, seed=5)
    new.loc[3, "plan"] = "a third one"
    new.to_csv(tmp_path / "new.csv", index=False)
    model = tmp_path / "model"
    run = rounds.train(tmp_path / "rows.csv", model=model, **SETTINGS)
    told = command("predict", model, tmp_path / "new.csv")["predictions"]
    for found in (rounds.predict(model, new), rounds.predict(run.model, tmp_path / "new.csv")):
        assert [one or None for one in found.tolist()] == told
    assert told[3] is None
    quality = command("evaluate", model, tmp_path / "new.csv")
    found = rounds.evaluate(run.model, new)
    assert {key: quality[key] for key in ("accuracy", "auc", "rows", "left_out")} == {
        key: found[key] for key in ("accuracy", "auc", "rows", "left_out")
    }


def test_questions(command, tmp_path):
    told = command("account", "subsampled-gaussian", "--noise-multiplier", 1, "--delta", 1e-5, "--sampling-rate", 0.01, "--steps", 1000)
    found = rounds.account("subsampled-gaussian", noise_multiplier=1.0, delta=1e-5, sampling_rate=0.01, steps=1000)
    assert found["epsilon"] == pytest.approx(told["epsilon"], rel=1e-12)
    told = command("account", "gaussian", "--epsilon", 2, "--delta", 1e-6, "--steps", 3)
    assert rounds.account("gaussian", epsilon=2, delta=1e-6, steps=3)["noise_multiplier"] == told["noise_multiplier"]
    told = command("factorize", "--rounds", 40, "--epochs", 4, "--method", "banded=5")
    assert rounds.factorize(40, epochs=4, method="banded=5")["rms_error"] == pytest.approx(told["rms_error"], rel=1e-12)
    told = command("audit", "--algorithm", "dp-gd", "--runs", 400, "--threads", 1)
    told = told if isinstance(told, list) else [told]
    found = rounds.audit("dp-gd", runs=400, threads=1)
    assert [one["lower_bound_epsilon"] for one in found] == [one["lower_bound_epsilon"] for one in told]


def test_releases_verify_and_compose(command, tmp_path):
    X, y = numbers(3_000, 10)
    domain = rounds.Domain.matrix(10, (-1.0, 1.0), classes=["0", "1"])
    places = [tmp_path / "one", tmp_path / "two"]
    for place in places:
        assert rounds.train(X, y, domain=domain, epsilon=1.0, delta=1e-6, model=place).privacy["claim"] == "release"
    assert rounds.verify(places[0])["holds"]
    assert command("account", "--statement", places[0])["holds"]
    together = rounds.compose(places)["together"]
    told = command("account", "--compose", *places)
    assert together["epsilon"] == told["epsilon"] < 2.0
