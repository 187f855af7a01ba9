"""Streams of noise for other loops, and sums of clipped gradients."""

import copy

import numpy as np
import pytest

import rounds


@pytest.mark.parametrize("mechanism", ["independent", "tree", "honaker-online", "banded=4", "blt=3", "mf", "toeplitz", "fourier", "anti-correlated"])
@pytest.mark.parametrize("epochs", [1, 4])
def test_noise_and_sensitivity_give_the_errors_of_the_factorisation(mechanism, epochs):
    if mechanism in ("anti-correlated", "tree", "honaker-online"):
        # The factorisation is one tree; a stream has one an epoch.
        epochs = 1
    size, dimension, clip_norm = 16, 60_000, 0.5
    stream = rounds.noise.stream(mechanism, dimension, 5, rounds=size, epochs=epochs, clip_norm=clip_norm, noise_multiplier=3.0)
    prefixes = np.cumsum(list(stream), axis=0)
    measured = np.sqrt((prefixes**2).mean())
    method = {"independent": "identity", "mf": "optimal", "honaker-online": "honaker-online"}.get(mechanism, mechanism)
    if mechanism == "anti-correlated":
        expected = 3.0 * clip_norm
    else:
        error = rounds.factorize(size, epochs=epochs, method=method)
        # Errors are stated at sensitivity 1.
        expected = 3.0 * clip_norm * error["rms_error"] / error["sensitivity"]
        if mechanism in ("independent", "banded=4", "blt=3", "mf", "toeplitz"):
            assert stream.sensitivity == pytest.approx(error["sensitivity"], rel=2e-2)
    assert measured == pytest.approx(expected, rel=2e-2)


def test_trees_are_one_an_epoch():
    # Four trees of four leaves, three nodes above each.
    assert rounds.noise.stream("tree", 3, 1, rounds=16, epochs=4, epsilon=1.0).sensitivity == pytest.approx(np.sqrt(4 * 3))


def test_the_statement_is_that_of_the_noise():
    stream = rounds.noise.stream("independent", 3, 1, rounds=12, epochs=3, epsilon=1.0, delta=1e-6)
    told = rounds.account("gaussian", epsilon=1.0, delta=1e-6, steps=3, adjacency="zero-out")
    assert stream.noise_multiplier == pytest.approx(told["noise_multiplier"])
    assert stream.sensitivity == pytest.approx(np.sqrt(3))
    assert stream.statement["epsilon"] <= 1.0 and stream.statement["claim"] == "none"
    assert "3 times at most" in str(stream.statement)
    assert stream.statement["noise_source"] == "xoshiro"
    assert rounds.noise.stream("tree", 3, rounds=4, epsilon=1.0).statement["noise_source"] == "chacha20"


def test_buffers_are_written_in_place_in_order():
    def streams():
        return rounds.noise.stream("blt=2", 5, 9, rounds=4, noise_multiplier=1.0)

    expected = np.array(list(streams()))
    stream, single, double = streams(), np.ones(5, np.float32), np.empty(5)
    assert stream.add(single) == 0 and np.allclose(single, 1 + expected[0], atol=1e-5)
    assert stream.into(double) == 1 and np.array_equal(double, expected[1])
    assert stream.round == 2 and len(list(stream)) == 2
    with pytest.raises(ValueError, match="used up"):
        stream.add(double)
    for buffer in (np.zeros(4), np.zeros(10)[::2], np.zeros(5, int), [0.0] * 5, np.zeros((5, 2))[:, :1], np.zeros((5, 2))):
        with pytest.raises((ValueError, TypeError)):
            streams().add(buffer)
    for buffer, kind in [(np.zeros(5, np.float16), "float16"), (np.zeros(5, int), "int64"), ([0.0] * 5, "<class 'list'>")]:
        with pytest.raises(TypeError, match=f"float32 or float64 in C order is needed, not this one .{kind}.: make it by numpy.array"):
            streams().add(buffer)
    fixed = np.zeros(5)
    fixed.flags.writeable = False
    with pytest.raises((ValueError, TypeError)):
        streams().add(fixed)
    with pytest.raises(TypeError, match="not copied"):
        copy.deepcopy(stream)


@pytest.mark.parametrize("mechanism", ["independent", "tree", "honaker-online", "banded=2", "blt=2", "toeplitz", "fourier", "anti-correlated", "mf", "mf+"])
def test_no_stream_is_drawn_past_its_end(mechanism):
    stream = rounds.noise.stream(mechanism, 5, 9, rounds=4, noise_multiplier=1.0)
    kept = np.ones(5)
    assert len(list(stream)) == 4
    for draw in (stream.add, stream.into):
        with pytest.raises(ValueError, match="used up"):
            draw(kept)
    assert np.array_equal(kept, np.ones(5)) and stream.round == 4


def test_a_matrix_in_c_order_takes_the_values_of_a_vector_and_another_order_is_refused():
    streams = [rounds.noise.stream("banded=2", 6, 9, rounds=4, noise_multiplier=1.0) for _ in range(2)]
    matrix, vector = np.zeros((2, 3)), np.zeros(6)
    for _ in range(3):
        streams[0].add(matrix), streams[1].add(vector)
    assert np.array_equal(matrix.ravel(), vector) and vector.any()
    for other in (np.zeros((3, 2)).T, np.asfortranarray(np.zeros((2, 3)))):
        with pytest.raises(TypeError, match="C order"):
            streams[0].add(other)
        assert not other.any() and streams[0].round == 3


def test_a_buffer_that_is_refused_takes_no_round():
    stream = rounds.noise.stream("independent", 5, 9, rounds=4, noise_multiplier=1.0)
    unaligned = np.frombuffer(bytearray(41), dtype=np.uint8)[1:].view(np.float64)
    for buffer in (np.ones(10)[::2], unaligned, np.ones(4), np.ones(5, int)):
        before = buffer.copy()
        for draw in (stream.add, stream.into):
            with pytest.raises((ValueError, TypeError)):
                draw(buffer)
        assert np.array_equal(buffer, before) and stream.round == 0


def test_a_stream_of_the_system_is_another_one_each_time():
    one, other = (np.array(list(rounds.noise.stream("mf", 50, rounds=3, epsilon=1.0))) for _ in range(2))
    assert not np.any(one == other)


@pytest.mark.parametrize("change", [dict(rounds=0), dict(epsilon=None), dict(noise_multiplier=1.0), dict(clip_norm=0.0), dict(epochs=0), dict(epochs=-1), dict(epochs=3), dict(epochs=8), dict(delta=0.0)])
def test_plans_that_cannot_be_are_refused(change):
    settings = {"rounds": 4, "epsilon": 1.0, **change}
    with pytest.raises(ValueError):
        rounds.noise.stream("tree", 3, 1, **settings)


def test_unknown_mechanisms_are_named():
    for unknown in ("treee", "banded", "laplace"):
        with pytest.raises(ValueError, match=f'"{unknown}" is not known: it is one of independent, tree, .*, mf\\+$') as told:
            rounds.noise.stream(unknown, 3, 1, rounds=64, epsilon=1.0)
    # Every name of the list is one.
    for known in str(told.value).partition("one of ")[2].split(", "):
        assert rounds.noise.stream(known, 3, 1, rounds=64, epsilon=1.0).rounds == 64


@pytest.mark.parametrize("loss", ["logistic", "squared", "hinge", "huber=1", "softmax"])
def test_clipped_sums_are_those_of_numpy(loss):
    random = np.random.default_rng(2)
    X = random.normal(size=(300, 7)).astype(np.float32)
    classes = 3 if loss == "softmax" else 1
    y = random.integers(0, 3, 300) if loss == "softmax" else np.where(random.normal(size=300) > 0, 1.0, -1.0)
    W = random.normal(size=(classes, 8)).astype(np.float32)
    A = np.hstack([X, np.ones((300, 1), np.float32)]).astype(np.float64)
    U = A @ W.T.astype(np.float64)
    if loss == "softmax":
        P = np.exp(U - U.max(axis=1, keepdims=True))
        R = P / P.sum(axis=1, keepdims=True) - np.eye(3)[y]
    else:
        u, t = U[:, 0], y
        R = {
            "logistic": -t / (1 + np.exp(t * u)),
            "squared": u - t,
            "hinge": -t * (t * u < 1),
            "huber=1": np.clip(u - t, -1, 1),
        }[loss][:, None]
    G = R[:, :, None] * A[:, None, :]
    norms = np.sqrt((G**2).sum(axis=(1, 2), keepdims=True))
    expected = (G * np.minimum(1, 0.7 / np.maximum(norms, 1e-30))).sum(axis=0)
    found = rounds.clipped_sum(X, y, W, loss=loss, clip_norm=0.7)
    assert found.shape == W.shape and np.allclose(found, expected, atol=1e-3)
    with pytest.raises(ValueError):
        rounds.clipped_sum(X, y, W[:, :-1], loss=loss, clip_norm=0.7)
    with pytest.raises(ValueError):
        rounds.clipped_sum(X, y, W, loss=loss, clip_norm=-1.0)
