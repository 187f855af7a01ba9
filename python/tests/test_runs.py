"""Runs: interrupts, progress, threads, forks, files, and what is refused."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import warnings

import numpy as np
import pytest
from conftest import SCHEMA, frame, numbers

import rounds

DOMAIN = rounds.Domain.matrix(10, (-1.0, 1.0), classes=["0", "1"])
# Seconds of rounds, beside the 50 ms after which a callback or a signal is seen at the latest.
LONG = dict(epsilon=1.0, delta=1e-6, epochs=20_000, batch_size=100, seed=1, holds_out=False)


def train(rows=2_000, seed=1, **settings):
    X, y = numbers(rows, 10)
    return rounds.train(X, y, domain=DOMAIN, **{"epsilon": 1.0, "delta": 1e-6, "seed": seed, **settings})


def signalling(stage):
    """A callback that interrupts this process when it is told of a stage."""
    return lambda told, *_: signal.raise_signal(signal.SIGINT) if told == stage else None


@pytest.fixture
def interruptible():
    # A process that a script has started in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_a_run_that_goes_on_from_its_checkpoint(tmp_path, interruptible):
    kept = tmp_path / "run.ckpt"
    with pytest.raises(KeyboardInterrupt, match="stopped after round .*resume"):
        train(**LONG, checkpoint=kept, checkpoint_every=100_000, progress=signalling("loading"))
    assert kept.is_file()
    resumed = train(**LONG, checkpoint=kept, checkpoint_every=100_000, resume=kept)
    assert not kept.exists()
    whole = train(**LONG)
    assert resumed.outcome["model_sha256"] == whole.outcome["model_sha256"]


@pytest.mark.parametrize("seed", [1, None])
def test_an_interrupt_loses_no_run_that_is_done(interruptible, seed):
    # Nothing stops a run whose model is being published.
    with pytest.warns(UserWarning, match="interrupt came too late to stop the run"):
        run = train(seed=seed, rows=3_000, progress=signalling("publishing"))
    assert run.privacy["claim"] == ("release" if seed is None else "simulation")

    def stop(stage, *_):
        if stage == "publishing":
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        train(seed=seed, rows=3_000, progress=stop)


def test_an_interrupt_in_a_callback_is_one_too():
    def interrupt(stage, *_):
        if stage == "planning":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="stopped after round"):
        train(**LONG, progress=interrupt)


def test_progress_is_told_and_stops_a_run(capsys):
    told = []
    train(**LONG, progress=lambda *one: told.append(one))
    stages = [stage for stage, *_ in told]
    assert stages[:2] == ["loading", "planning"] and stages[-1] == "publishing"
    assert told[-1][1] == told[-1][2] > 0
    assert sum(stage == "rounds" for stage in stages) >= 2

    def stop(stage, done, _):
        if stage == "rounds" and done > 10:
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        train(**LONG, progress=stop)
    train(verbose=True)
    assert "publishing" in capsys.readouterr().err


def test_a_closed_stream_ends_no_run(monkeypatch):
    monkeypatch.setattr(sys, "stderr", open(os.devnull, "w"))
    sys.stderr.close()
    assert train(verbose=True).privacy["claim"] == "simulation"
    monkeypatch.setattr(sys, "stderr", None)
    assert train(verbose=True).privacy["claim"] == "simulation"


def test_the_interpreter_goes_on_and_two_runs_at_once_are_those_alone():
    alone = [train(seed=seed, epochs=200, holds_out=False).outcome["model_sha256"] for seed in (1, 2)]
    found, both = [None, None], threading.Barrier(2, timeout=60)

    def meet(stage, *_):
        # Neither returns before the other has begun.
        if stage == "loading":
            both.wait()

    def work(place):
        found[place] = train(seed=place + 1, epochs=200, holds_out=False, progress=meet).outcome["model_sha256"]

    threads = [threading.Thread(target=work, args=(place,)) for place in (0, 1)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert found == alone


def test_models_do_not_depend_on_threads():
    assert len({train(threads=threads).outcome["model_sha256"] for threads in (1, 2, 3)}) == 1


def _in_child(pipe):
    try:
        pipe.send(train().privacy["claim"])
    except RuntimeError as error:
        pipe.send(str(error))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method, told", [("fork", "spawn"), ("spawn", "simulation")])
def test_a_fork_after_work_is_refused_and_a_new_process_works(method, told):
    train()
    context = multiprocessing.get_context(method)
    here, there = context.Pipe()
    child = context.Process(target=_in_child, args=(there,))
    child.start()
    assert here.poll(60) and told in here.recv()
    child.join(60)


def test_a_fork_after_the_import_alone_works():
    program = """
        import multiprocessing, numpy as np, rounds
        def work(_):
            return rounds.train("synthetic-logistic", epsilon=1.0, seed=1, epochs=1).privacy["claim"]
        with multiprocessing.get_context("fork").Pool(2) as pool:
            print(pool.map(work, range(2)))
    """
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "['simulation', 'simulation']", done.stderr


def test_rows_of_bytes_are_read_where_they_are():
    from rounds._rows import rows_of

    X = np.random.default_rng(0).integers(0, 256, (50_000, 784), dtype=np.uint8)
    y = X[:, 0] // 128
    domain = rounds.Domain.matrix(784, (0.0, 255.0), classes=["0", "1"], storage="bytes")
    assert rows_of(X, y, domain).address == X.ctypes.data
    before = X.copy()
    # A copy would be 39 MB.
    def most():
        return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])

    settings = dict(domain=domain, epsilon=1.0, seed=1, epochs=1, holds_out=False, threads=1)
    rounds.train(X[:1_000], y[:1_000], **settings)
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")
    start = most()
    rounds.train(X, y, **settings)
    assert most() - start < 20_000
    assert np.array_equal(X, before)
    references = sys.getrefcount(X)
    rounds.train(X[:1_000], y[:1_000], **settings)
    rounds.train(X, y, **settings)
    assert sys.getrefcount(X) == references
    # Undeclared floats are read where they are, too; a null label makes a copy and leaves the caller's.
    F = X[:100].astype(np.float32)
    assert rows_of(F, y[:100]).address == F.ctypes.data
    odd = y.astype(int)
    odd[3] = 7
    rows = rows_of(X, odd, domain)
    assert rows.address != X.ctypes.data and np.array_equal(X, before)


@pytest.mark.parametrize(
    "change, error, told",
    [
        (dict(epsilon="1"), TypeError, "`epsilon` is a number, not '1': give epsilon=1.0$"),
        (dict(epsilon=True), TypeError, "`epsilon` is a number, not True: give epsilon=1.0$"),
        (dict(epsilon=np.True_), TypeError, "`epsilon` is a number"),
        (dict(delta="1e-6"), TypeError, "`delta` is a number, not '1e-6': give delta=1e-06$"),
        (dict(delta=None), TypeError, "`delta` is a number, not None: give delta=1e-05$"),
        (dict(batch_size=1.5), ValueError, "`batch_size` is a whole number from 0 to .*, not 1.5: give batch_size=2$"),
        (dict(batch_size="50"), TypeError, "`batch_size` is a whole number .*: give batch_size=50$"),
        (dict(seed=-1), ValueError, "`seed` is a whole number .*, not -1: give seed=1$"),
        (dict(threads="all"), TypeError, "`threads` is a whole number .*, not 'all': give threads=1$"),
        (dict(ledger="/nowhere"), ValueError, "`ledger` counts releases, and a seed"),
        (dict(algorithm="lbfgs"), ValueError, "no algorithm 'lbfgs'; `rounds list"),
        (dict(epsilon=-1.0), ValueError, "epsilon"),
        (dict(epsilon=float("nan")), ValueError, "epsilon"),
        (dict(delta=2.0), ValueError, "delta"),
        (dict(loss="hings"), ValueError, "loss"),
        (dict(algorithm="dp-sdg"), ValueError, "dp-sgd"),
        (dict(sampling="poison"), ValueError, "sampling"),
        (dict(unheard_of=3), ValueError, "unheard-of"),
        (dict(secure=True), TypeError, "seed"),
        (dict(test_split=2.0), ValueError, "test_split"),
        (dict(resume="/nowhere/at/all"), OSError, "/nowhere/at/all"),
        (dict(epsilon=None), ValueError, "budget"),
    ],
)
def test_settings_that_cannot_be_are_refused_with_the_remedy(change, error, told):
    with pytest.raises(error, match=told):
        train(**change)


@pytest.mark.parametrize(
    "X, y, error, told",
    [
        (np.zeros((5, 9), np.float32), [0, 1, 0, 1, 0], ValueError, "9 features"),
        (np.zeros(10, np.float32), [0], ValueError, "dimensions"),
        (np.zeros((5, 10), np.float32), [0, 1], ValueError, "inconsistent"),
        (np.zeros((5, 10), np.complex64), [0, 1, 0, 1, 0], TypeError, "complex"),
        (np.zeros((0, 10), np.float32), [], ValueError, "there are no rows"),
        (np.zeros((5, 10), np.float32), np.zeros(5, complex), TypeError, "complex128"),
        (np.zeros((5, 10), np.float32), None, ValueError, "labels"),
    ],
)
def test_rows_that_cannot_be_are_refused_with_the_remedy(X, y, error, told):
    for seed in (1, None):
        with pytest.raises(error, match=told):
            rounds.train(X, y, domain=DOMAIN, epsilon=1.0, delta=1e-6, seed=seed)


def test_words_in_an_array_are_missing_numbers():
    X, y = np.zeros((50, 10), object), [0, 1] * 25
    X[3] = "a"
    with pytest.warns(UserWarning, match="10 values are NaN"):
        rounds.train(X, y, domain=DOMAIN, epsilon=1.0, seed=1, epochs=1)


def test_numbers_that_are_none_are_told_of_a_simulation_alone():
    table, domain = frame(2_000), rounds.Domain.parse(SCHEMA)
    table["age"] = [f"{age:.1f}".replace(".", ",") if place % 4 == 0 else age for place, age in enumerate(table["age"])]
    lost = (table["age"].map(type) == str).sum() - (table["age"] == "nan").sum()
    settings = dict(domain=domain, epsilon=1.0, delta=1e-6, epochs=1)
    with pytest.warns(UserWarning, match=f"{lost} values of the column 'age' are no numbers .* count as missing"):
        rounds.train(table, seed=1, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rounds.train(table, **settings)
        rounds.train(frame(2_000)[["age", "plan", "income", "stays"]].dropna(), seed=1, **settings)


def test_numbers_that_are_needed_are_not_none():
    noise = dict(mechanism="tree", dimension=3, key=1, rounds=8, noise_multiplier=1.0)
    sums = dict(X=np.zeros((4, 3)), y=np.zeros(4), weights=np.zeros((1, 4)), loss="squared", clip_norm=1.0)
    calls = [
        (rounds.account, dict(mechanism="gaussian", epsilon=1.0, delta=1e-5), ("delta", "steps", "trees")),
        (rounds.factorize, dict(rounds=8), ("rounds", "epochs", "gap")),
        (rounds.audit, dict(algorithm="dp-sgd"), ("runs", "seed", "delta")),
        (rounds.noise.stream, noise, ("dimension", "rounds", "epochs", "clip_norm", "delta", "threads")),
        (rounds.clipped_sum, sums, ("clip_norm",)),
        (rounds.new_ledger, dict(path="/nowhere", data="arrays", domain=DOMAIN, epsilon=1.0, delta=1e-5), ("epsilon", "delta")),
    ]
    for call, given, names in calls:
        for name in names:
            with pytest.raises(TypeError, match=f"`{name}` is a .*number.*, not None: give {name}="):
                call(**{**given, name: None})
    with pytest.raises(ValueError, match="y has 2 dimensions; one label a row is needed"):
        rounds.clipped_sum(**{**sums, "y": np.zeros((4, 2))})
    assert np.array_equal(rounds.clipped_sum(**{**sums, "y": np.ones((4, 1))}), rounds.clipped_sum(**{**sums, "y": [1.0] * 4}))


def test_a_statement_of_a_simulation_says_that_it_protects_nobody():
    assert "simulation: anybody can draw its noise again, so it protects nobody" in str(train().privacy)
    assert "nobody" not in str(train(rows=3_000, seed=None).privacy)


def test_a_unit_in_a_column_is_stated_by_its_name_and_is_neither_feature_nor_label(tmp_path):
    table, domain = frame(2_000), rounds.Domain.parse(SCHEMA)
    settings = dict(domain=domain, epsilon=1.0, delta=1e-6, batch_size=20, epochs=1)
    run = rounds.train(table, unit="person", model=tmp_path / "model", **settings)
    assert run.privacy["unit"] == 'value of column "person"' and run.outcome["n"] == 500
    verified = rounds.verify(tmp_path / "model")
    assert verified["holds"] and verified["statement"]["unit"] == run.privacy["unit"]
    for rows in (table, table.drop(columns="person")):
        found = rounds.evaluate(run, rows)
        assert found["rows"] + found["left_out"] == 2_000
    for column, role in [("age", "a feature"), ("stays", "the label")]:
        with pytest.raises(ValueError, match=f"{column!r} is {role}, and a unit's ids are neither: name a column"):
            rounds.train(table, unit=column, **settings)
    with pytest.raises(ValueError, match="no column 'persn'"):
        rounds.train(table, unit="persn", **settings)
    plain = table[["age", "income"]]
    with pytest.raises(ValueError, match="'age' is a feature"):
        rounds.train(plain, table["stays"], unit="age", **{**settings, "domain": rounds.Domain.matrix(2, (0.0, 100.0), classes=["no", "yes"])})
    with pytest.raises(ValueError, match="an array has no column 'person'; give the ids"):
        rounds.train(plain.to_numpy(), table["stays"], unit="person", **{**settings, "domain": rounds.Domain.matrix(2, (0.0, 100.0), classes=["no", "yes"])})


@pytest.mark.parametrize("algorithm", ["dp-sgd", "dp-gd", "dp-ftrl", "dp-mf"])
def test_noise_that_cannot_be_drawn_is_refused_before_it_is_booked(tmp_path, algorithm):
    X, y = numbers(400, 10)
    rounds.new_ledger(tmp_path / "budget", data="arrays", domain=DOMAIN, rows=400, epsilon=1.0, delta=1e-4)
    found = []
    for epsilon in (1e-9, 1e-5, 1e-4, 1e-3, 1e-2, 0.1):
        try:
            rounds.train(X, y, domain=DOMAIN, algorithm=algorithm, epsilon=epsilon, delta=1e-6, epochs=2, ledger=tmp_path / "budget")
            found.append(True)
        except ValueError as refused:
            assert "`epsilon`: the noise is" in str(refused) and "take a larger one" in str(refused)
            found.append(False)
        # What is booked is done.
        assert [run["state"] for run in rounds.ledger(tmp_path / "budget")["runs"]] == ["done"] * sum(found)
    assert found == sorted(found) and not found[0] and found[-1]
    train(epsilon=1e-9, algorithm=algorithm, epochs=2)


def test_noise_is_measured_against_the_lattice_of_weighted_sums(tmp_path):
    X, y = numbers(2_000, 4)
    domain = rounds.Domain.matrix(4, (-1.0, 1.0), classes=["0", "1"])
    rounds.new_ledger(tmp_path / "budget", data="arrays", domain=domain, rows=2_000, epsilon=2.0, delta=1e-4)
    settings = dict(domain=domain, algorithm="resque-private-erm", epsilon=1.0, delta=1e-7, clip_norm=20.0, ledger=tmp_path / "budget")
    with pytest.raises(ValueError, match="`epsilon`: the noise is .* too large"):
        rounds.train(X, y, weight_cap=1e-4, **settings)
    assert not rounds.ledger(tmp_path / "budget")["runs"]


def test_what_is_no_file_of_a_model_is_refused_with_the_remedy(tmp_path):
    run, path = train(rows=3_000, seed=None), tmp_path / "run.pickle"
    path.write_bytes(pickle.dumps(run.model))
    for given in (run.outcome, run.privacy, run):
        with pytest.raises(TypeError, match="path of a file is needed.*json.dump"):
            rounds.verify(given)
        with pytest.raises(TypeError, match="path of a file is needed.*json.dump"):
            rounds.compose([given])
    for call in (rounds.verify, lambda path: rounds.compose([path]), lambda path: rounds.predict(path, numbers(3, 10)[0])):
        with pytest.raises(ValueError, match="a pickle, which joblib.load .*model_.write"):
            call(path)
    # Whatever length a model's file begins with.
    for length in (0x80, 0x480, 0x9580):
        path.write_bytes(length.to_bytes(8, "little") + b"{" + b" " * length)
        with pytest.raises(ValueError, match="no JSON"):
            rounds.verify(path)
    run.model.write(tmp_path / "model")
    assert "Without a valid signature by the key given to `verify`, the name of the data, what its domain was declared by, the build" in rounds.verify(tmp_path / "model")["unshown"]


@pytest.mark.parametrize(
    "call, told",
    [
        (lambda: rounds.account("gaussian", epsilon="1", delta=1e-5), "`epsilon` is a number, not '1': give epsilon=1.0$"),
        (lambda: rounds.account("gaussian", epsilon=1, delta="0,1"), "`delta` is a number, not '0,1': give delta=1e-05$"),
        (lambda: rounds.account("gaussian", noise_multiplier=None, epsilon=True, delta=1e-5), "`epsilon` is a number, not True"),
        (lambda: rounds.account("gaussian", epsilon=1, delta=1e-5, steps=1.5), "`steps` is a whole number .*: give steps=2$"),
        (lambda: rounds.noise.stream("tree", 3, rounds=4, epsilon="1"), "`epsilon` is a number, not '1'"),
        (lambda: rounds.noise.stream("tree", 3, rounds=4, epsilon=1, clip_norm="1"), "`clip_norm` is a number"),
        (lambda: rounds.noise.stream("tree", 3, -1, rounds=4, epsilon=1), "`key` is a whole number .*, not -1"),
        (lambda: rounds.noise.stream("tree", 3, rounds=3, epochs=1.5, epsilon=1), "`epochs` 1.5 is 1 at least and divides"),
        (lambda: rounds.new_ledger("/nowhere", data="a", domain=DOMAIN, rows=9, epsilon="1", delta=1e-5), "`epsilon` is a number, not '1'"),
        (lambda: rounds.new_ledger("/nowhere", data="a", domain=DOMAIN, rows=9, epsilon=1, delta="1e-5"), "`delta` is a number"),
        (lambda: rounds.new_ledger("/nowhere", data="a", domain="schema.toml", rows=9, epsilon=1, delta=1e-5), "`domain` is a rounds.Domain, not a str"),
        (lambda: rounds.compose([], delta="1e-5"), "`delta` is a number"),
        (lambda: rounds.audit("dp-gd", epsilon="1"), "`epsilon` is a number"),
        (lambda: rounds.factorize("64"), "`rounds` is a whole number .*: give rounds=64$"),
        (lambda: rounds.clipped_sum([[1.0]], [1.0], np.zeros((1, 2)), loss="squared", clip_norm="1"), "`clip_norm` is a number"),
        (lambda: rounds.tune(*numbers(9, 10), domain=DOMAIN, epsilon=1, grid={"momentum": [0, 0.5]}, trials="3"), "`trials` is a number, not '3': give trials=3.0$"),
    ],
)
def test_arguments_that_are_no_numbers_are_named_with_the_number_to_pass(call, told):
    with pytest.raises((TypeError, ValueError), match=told):
        call()


def test_numbers_of_any_library_are_taken():
    import decimal

    found = [rounds.account("gaussian", epsilon=one, delta=1e-5, steps=steps)["noise_multiplier"] for one, steps in [(1, 3), (1.0, np.int8(3)), (np.float32(1), 3.0), (decimal.Decimal(1), np.float64(3))]]
    assert len(set(found)) == 1


def test_data_frames_that_cannot_be_are_refused_with_the_remedy():
    table, domain = frame(100), rounds.Domain.parse(SCHEMA)
    with pytest.raises(TypeError, match="Schema.draft"):
        rounds.train(table, table["stays"], epsilon=1.0, seed=1)
    with pytest.raises(ValueError, match="no column 'income'"):
        rounds.train(table.drop(columns="income"), domain=domain, epsilon=1.0, seed=1)
    with pytest.raises(TypeError, match="named columns"):
        rounds.train(np.zeros((5, 3)), [0] * 5, domain=domain, epsilon=1.0, seed=1)
    with pytest.raises(ValueError, match="drafted = false"):
        rounds.train(table, domain=rounds.Domain.parse(rounds.Schema.draft(table)), epsilon=1.0)
    with pytest.raises(TypeError, match="values of complex128; numbers"):
        rounds.train(table.assign(income=1j), domain=domain, epsilon=1.0)
    lazy = pytest.importorskip("polars").from_pandas(table).lazy()
    for call in (rounds.Schema.draft, lambda frame: rounds.train(frame, domain=domain, epsilon=1.0), lambda frame: rounds.predict(train().model, frame)):
        with pytest.raises(TypeError, match="a LazyFrame has no rows in memory yet: give what its collect"):
            call(lazy)


def test_messages_of_rows_in_memory_name_no_file_to_draft_from():
    X, y = numbers(200, 10)
    with pytest.warns(UserWarning, match="150 of 200 training rows are null rows.*mend their domain") as told:
        rounds.train(X, ["planted"] * 150 + y[150:].tolist(), domain=DOMAIN, epsilon=1.0, seed=1, epochs=1)
    with pytest.raises(ValueError, match="carry it, their `domain`") as refusal:
        rounds.train(X, y, epsilon=1.0, delta=1e-6)
    assert "rounds schema" not in "".join(str(one.message) for one in told) + str(refusal.value)


def test_a_declared_unit_needs_ids():
    X, y = numbers(400, 10)
    with pytest.raises(ValueError, match="`unit`"):
        rounds.train(X, y, domain=DOMAIN.by_unit(), epsilon=1.0, seed=1)
    run = rounds.train(X, y, domain=DOMAIN, unit=np.arange(400) // 4, epsilon=1.0, seed=1, batch_size=20)
    assert run.outcome["n"] == 100 and run.privacy["unit"] == "unit"
    with pytest.raises(ValueError, match="one id for each"):
        rounds.train(X, y, domain=DOMAIN, unit=[1, 2], epsilon=1.0, seed=1)


def test_a_release_shows_no_value_of_a_row():
    X, y = numbers(3_000, 10)
    y = y.astype(object)
    y[7] = "planted-31337"
    run = rounds.train(X, y, domain=DOMAIN, epsilon=1.0, delta=1e-6)
    assert "31337" not in str(run.outcome) and "diagnostics" not in run.outcome and "n" in run.outcome
    X[4, 2] = 31337.5
    with pytest.raises(ValueError) as refusal:
        rounds.train(X, y, epsilon=1.0, delta=1e-6)
    assert "31337" not in str(refusal.value)


def test_models_are_kept_pickled_and_not_replaced(tmp_path):
    run = train(rows=3_000, seed=None)
    again = pickle.loads(pickle.dumps(run.model))
    X, _ = numbers(50, 10, seed=9)
    assert rounds.predict(again, X).tolist() == rounds.predict(run.model, X).tolist()
    assert "key" not in run.model.header().split('"privacy"')[0]
    run.model.write(tmp_path / "model")
    assert rounds.verify(tmp_path / "model")["holds"]
    with pytest.raises(ValueError, match="holds a release"):
        run.model.write(tmp_path / "model")
    with pytest.raises(ValueError):
        pickle.loads(pickle.dumps(run.model).replace(b"weights", b"heights"))
    with pytest.raises(OSError):
        rounds.predict(tmp_path / "none", X)
    domain = pickle.loads(pickle.dumps(DOMAIN))
    assert domain == DOMAIN and domain.source == "arguments"


def test_the_import_is_quick_and_needs_no_scikit_learn():
    program = "import sys, time; s = time.perf_counter(); import rounds; t = time.perf_counter() - s; print(t); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    _, modules = done.stdout.splitlines()
    assert not {"sklearn", "pandas", "scipy", "numpy"} & set(modules.split())


def test_a_ledger_adds_up_the_runs_that_name_it(tmp_path):
    X, y = numbers(400, 10)
    place = tmp_path / "budget"
    made = rounds.new_ledger(place, data="people", domain=DOMAIN, rows=400, epsilon=1.0, delta=1e-4)
    assert made["left"] == 1.0 and made["runs"] == []
    settings = dict(domain=DOMAIN, delta=1e-6, ledger=place)
    rounds.train(X, y, epsilon=0.5, name="people", **settings)
    spent = rounds.ledger(place)
    assert 0 < spent["spent"] < 1 and len(spent["runs"]) == 1
    with pytest.raises(ValueError, match="budget would be exceeded"):
        rounds.train(X, y, epsilon=2.0, name="people", **settings)
    with pytest.raises(ValueError, match="evaluate the model"):
        rounds.train(X, y, domain=DOMAIN, epsilon=0.1, test=(X, y))
    with pytest.raises(ValueError, match="its name is people"):
        rounds.train(X, y, epsilon=0.1, **settings)
    with pytest.raises(ValueError, match="draft"):
        rounds.new_ledger(tmp_path / "other", data="a", domain=rounds.Domain.matrix(4, (-1.0, 1.0), classes=["0", "1"], drafted="rows"), rows=9, epsilon=1, delta=1e-5)
    with pytest.raises((ValueError, OSError)):
        rounds.new_ledger(place, data="people", domain=DOMAIN, rows=400, epsilon=1.0, delta=1e-4)
    assert rounds.ledger(place) == spent
    with pytest.raises(ValueError, match="it is a ledger; give the model"):
        rounds.verify(place)


def test_classes_are_words_or_whole_numbers():
    of = lambda classes: rounds.Domain.matrix(2, (-1.0, 1.0), classes=classes)  # noqa: E731
    assert of([0, 1]).classes == of(np.array([0, 1])).classes == of(["0", "1"]).classes == ["0", "1"]
    for classes in ([0.0, 1.0], [False, True], np.array([False, True]), [b"no", b"yes"]):
        with pytest.raises(TypeError, match=r"words or whole numbers.*classes=\[0, 1\]"):
            of(classes)
