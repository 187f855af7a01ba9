"""Correlated noise for training loops of other programs.

>>> import numpy as np, rounds
>>> stream = rounds.noise.stream("banded=4", 3, key=7, rounds=8, epsilon=1.0)
>>> gradient = np.zeros(3)
>>> stream.add(gradient)            # the noise of round 0 is added to a sum of clipped gradients
0
>>> len(list(stream)), stream.statement["claim"]
(7, 'none')
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ._core import Privacy
from ._rounds import Noise
from ._rows import checked

# Names of papers for mechanisms of the registry.
_NAMES = {"mf": "optimal", "mf+": "optimal", "mf⁺": "optimal"}


class Stream:
    """The noise of a run's rounds: iterated over, or added to buffers. Each round is drawn once, in order.

    Attributes
    ----------
    sensitivity : float
        That of C under the participation, for a term that moves by norm 1.
    noise_multiplier : float
        Standard deviation of the entries of Z over the clip norm.
    statement : Privacy
        What holds of the loop, and what is assumed of it.
    """

    def __init__(self, noise: Noise) -> None:
        self._noise = noise
        self.dimension = noise.dimension
        self.rounds = noise.rounds
        self.sensitivity = noise.sensitivity
        self.noise_multiplier = noise.noise_multiplier
        self.statement = Privacy(json.loads(noise.statement))

    @property
    def round(self) -> int:
        """Rounds that are drawn."""
        return self._noise.round

    def add(self, buffer: Any) -> int:
        """Adds the next round's noise to a contiguous array of float32 or float64, in place; that round, from 0.

        Torch's tensors on the CPU share their memory: ``stream.add(tensor.numpy())``.
        """
        return self._noise.add(buffer)

    def into(self, buffer: Any) -> int:
        """Writes the next round's noise into a contiguous array of float32 or float64; that round, from 0."""
        self._noise.check(buffer)
        buffer[...] = 0
        return self.add(buffer)

    def __iter__(self) -> Iterator[Any]:
        import numpy as np

        while self.round < self.rounds:
            noise = np.zeros(self.dimension)
            self.add(noise)
            yield noise

    def __reduce__(self) -> Any:
        raise TypeError("a stream of noise is not copied or pickled: the same noise for other sums would break the guarantee")


def stream(
    mechanism: str,
    dimension: int,
    key: int | None = None,
    *,
    rounds: int,
    epochs: int = 1,
    clip_norm: float = 1.0,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    delta: float = 1e-5,
    adjacency: str = "zero-out",
    workload: str = "prefix",
    lambda_tau: int | None = None,
    threads: int = 1,
) -> Stream:
    """A stream of the noise of so many rounds.

    Parameters
    ----------
    mechanism : str
        ``independent``, ``tree``, ``honaker-online``, ``honaker-full``, ``banded=b``, ``blt=m``, ``toeplitz``, ``fourier``, ``anti-correlated``,
        ``mf`` (the optimal factorisation) or ``mf+`` (that of the Λ_τ-weighted error).
    dimension : int
        Parameters.
    key : int, optional
        The seed of a simulation. Without one the key is the operating system's.
    rounds, epochs : int
        Rounds in all, and epochs, which divide them: an example is in one round of each, always at the same place.
    clip_norm : float
        L2 norm to which each example's term is clipped.
    epsilon, noise_multiplier : float
        The budget, or the noise.
    delta, adjacency : float, str
        δ and the relation: zero-out or replace-one.
    workload, lambda_tau : str, int
        What the loop sums, as of ``rounds factorize``; τ is by default all rounds for ``mf+``.

    Returns
    -------
    Stream
    """
    given = checked(locals(), "dimension", "rounds", "epochs", "clip_norm", "delta", "threads")
    rounds, epochs = given["rounds"], given.pop("epochs")
    if epochs < 1 or epochs % 1 or rounds % epochs:
        raise ValueError(f"`epochs` {epochs} is 1 at least and divides `rounds` {rounds}: an example is in one round of each epoch")
    if lambda_tau is None and mechanism in ("mf+", "mf⁺"):
        given["lambda_tau"] = rounds
    given["mechanism"] = _NAMES.get(mechanism, mechanism)
    return Stream(Noise(seed=given.pop("key"), rounds_per_epoch=int(rounds // epochs), **given))
