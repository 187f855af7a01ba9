from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, final

_Path = str | PathLike[str]

@final
class Domain:
    """A declared domain: all that is known of rows without looking at them."""

    @staticmethod
    def parse(text: str, place: str = "schema") -> Domain: ...
    @staticmethod
    def read(path: _Path) -> Domain: ...
    @staticmethod
    def of(name: str, data_dir: _Path | None = None) -> Domain: ...
    @staticmethod
    def matrix(
        columns: int,
        bounds: tuple[float, float],
        *,
        classes: Sequence[str] | None = None,
        label_bounds: tuple[float, float] | None = None,
        storage: str = "dense",
        relation: str = "zero-out",
        public_rows: int | None = None,
        drafted: str | None = None,
    ) -> Domain: ...
    @staticmethod
    def restored(text: str, source: str) -> Domain: ...
    def by_unit(self, *, reduce: str = "mean", most_rows: int | None = None) -> Domain: ...
    def toml(self) -> str: ...
    @property
    def columns(self) -> list[tuple[str, str]] | None: ...
    @property
    def feature_names(self) -> list[str]: ...
    @property
    def affine(self) -> tuple[float, float] | None: ...
    @property
    def classes(self) -> list[str] | None: ...
    @property
    def label_bounds(self) -> tuple[float, float] | None: ...
    @property
    def label_column(self) -> str | None: ...
    @property
    def unit(self) -> str | None: ...
    @property
    def storage(self) -> str: ...
    @property
    def drafted(self) -> bool: ...
    @property
    def sha256(self) -> str: ...
    @property
    def source(self) -> str: ...

@final
class Rows:
    @staticmethod
    def of_matrix(
        name: str, matrix: Any, labels: Any = None, domain: Domain | None = None, units: list[str] | None = None, explain: bool = False
    ) -> Rows: ...
    @staticmethod
    def of_columns(
        name: str,
        columns: list[Any],
        rows: int,
        domain: Domain,
        labels: Any = None,
        units: list[str] | None = None,
        explain: bool = False,
    ) -> Rows: ...
    def __len__(self) -> int: ...
    @property
    def address(self) -> int: ...

@final
class Model:
    """A trained model with its privacy statement."""

    @staticmethod
    def read(path: _Path) -> Model: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> Model: ...
    def write(self, path: _Path) -> None: ...
    def to_bytes(self) -> bytes: ...
    def header(self) -> str: ...
    def weights(self) -> Any: ...
    def load(self, name: str, data_dir: _Path | None = None, labels: bool = True) -> tuple[Rows, bool]: ...
    def outputs(self, rows: Rows) -> Any: ...
    def predicted(self, rows: Rows) -> Any: ...
    def evaluate(self, rows: Rows, are_test_rows: bool = False) -> str: ...
    @property
    def domain(self) -> Domain | None: ...
    @property
    def classes(self) -> list[str] | None: ...
    @property
    def has_probabilities(self) -> bool: ...

@final
class Noise:
    def __init__(
        self,
        mechanism: str,
        dimension: int,
        seed: int | None,
        *,
        rounds: int,
        rounds_per_epoch: int,
        clip_norm: float,
        noise_multiplier: float | None,
        epsilon: float | None,
        delta: float,
        adjacency: str,
        workload: str,
        lambda_tau: int | None,
        threads: int,
    ) -> None: ...
    def add(self, buffer: Any) -> int: ...
    def check(self, buffer: Any) -> None: ...
    @property
    def round(self) -> int: ...
    @property
    def rounds(self) -> int: ...
    @property
    def dimension(self) -> int: ...
    @property
    def sensitivity(self) -> float: ...
    @property
    def noise_multiplier(self) -> float: ...
    @property
    def statement(self) -> str: ...

def train(
    data: str,
    settings: list[tuple[str, str]],
    rows: Rows | None = None,
    test: Rows | None = None,
    threads: int | None = None,
    callback: Callable[[str, int, int], object] | None = None,
    holds_out: bool = True,
    selection: tuple[list[tuple[str, list[str]]], float, str, _Path | None] | None = None,
) -> tuple[Model, str, list[str]]: ...
def clipped_sum(rows: Rows, weights: list[float], loss: str, clip_norm: float, threads: int) -> Any: ...
def account(
    mechanism: str,
    *,
    delta: float,
    noise_multiplier: float | None,
    epsilon: float | None,
    steps: int,
    trees: int,
    sampling_rate: float | None,
    m: int | None,
    n: int | None,
    accountant: str | None,
    adjacency: str | None,
) -> str: ...
def verify(path: _Path, signer: _Path | None = None, factorization: _Path | None = None) -> str: ...
def compose(
    paths: Sequence[_Path], delta: float | None = None, signer: _Path | None = None, factorization: _Path | None = None
) -> str: ...
def factorize(
    rounds: int,
    *,
    workload: str,
    epochs: int,
    method: str,
    objective: str,
    lambda_tau: int | None,
    gap: float,
    out: _Path | None,
) -> str: ...
def audit(
    algorithm: str,
    *,
    runs: int,
    seed: int,
    epsilon: float | None,
    delta: float,
    adjacency: str | None,
    secure: bool,
    sabotage: str | None,
    threads: int | None,
) -> str: ...
def draft(
    path: _Path, label: str | None = None, drop: list[str] = ..., task: str | None = None, unit: str | None = None
) -> str: ...
def instruction_set() -> str: ...
