# Every command that the README names. `make run` and `make test` do all set-up on a fresh machine that has Rust and a C
# toolchain; system packages come from the platform's package manager, or are named where they may not be installed.

CARGO ?= cargo
# Debian's packages that the build needs (hwloc) and that the report's browser tests use where they are there.
PACKAGES := pkg-config libhwloc-dev libudev-dev
# And those of the engine over MPI (bindgen needs libclang).
MPI_PACKAGES := libopenmpi-dev openmpi-bin libclang-dev clang

.PHONY: run test test-all verify-exact bad-input bench peers report readme reproduce lint mpi parquet deps deps-mpi

run: deps
	$(CARGO) run --release --quiet --package rounds -- run $(ARGS)

test: deps
	$(CARGO) test --workspace

# The tests, with 10,000 pairs of neighbouring files, and those that take long: audits of all algorithms, tails of samplers.
test-all: export ROUNDS_PAIRS ?= 10000
test-all: test
	$(CARGO) test --workspace -- --ignored --skip exact_noise_in_full

# The exact samplers against arbitrary precision, their laws and their tails, with 10⁷ to 10⁹ draws: some ten minutes.
# The output is committed as results/exact-noise.txt.
verify-exact:
	$(CARGO) test --release --package rounds-kernels --lib exact_noise_in_full -- --ignored --nocapture

# Two thousand bad command lines and damaged files: no panic, hang, lost file, or message that names an option that does not exist.
bad-input: deps
	$(CARGO) build --release --quiet --package rounds
	python3 bench/bad_input.py $(ARGS)

# The engine over MPI: installs what it needs, runs its tests on ranks, and lints what only its feature builds.
mpi: deps-mpi
	$(CARGO) test --workspace --features rounds/mpi --test mpi
	$(CARGO) clippy --workspace --all-targets --features rounds/mpi -- --deny warnings

# Tables in Parquet files, whose reader is an optional feature.
parquet: deps
	$(CARGO) test --workspace --features rounds/parquet --test all tables
	$(CARGO) clippy --workspace --all-targets --features rounds/parquet -- --deny warnings

bench: deps
	$(CARGO) bench --package rounds-bench $(ARGS)

# A DP-SGD round beside JAX, NumPy, torch, Opacus and jax-privacy; the first time it sets up their environment (Python 3.11 to
# 3.13, some minutes). ARGS, for example: --batch-sizes 500,2000.
peers: deps
	$(CARGO) build --release --quiet --package rounds
	$(CARGO) bench --quiet --package rounds-bench --bench random --no-run
	python3 bench/peers/run.py $(ARGS)

report: deps
	$(CARGO) run --release --quiet --package rounds -- report $(ARGS)

# The tables and pictures of README.md and results/README.md, and the experiment sheets, from the committed results; --check
# fails where they differ.
readme:
	python3 bench/readme.py $(ARGS)

# A few runs of every committed study again, compared bit for bit: some minutes. ARGS, for example: --studies bounds --runs 50.
reproduce: deps
	$(CARGO) build --release --quiet --package rounds
	python3 bench/reproduce.py $(ARGS)

lint: deps
	@if command -v python3 >/dev/null; then \
	  python3 bench/readme.py --check && python3 -m unittest discover --quiet --start-directory bench; \
	else echo "python3 is missing: the tables of the READMEs are not checked"; fi
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --workspace --no-deps --quiet

# Says what it installs; where it may not, says what to install.
deps:
	@if pkg-config --exists 'hwloc >= 2.8' libudev 2>/dev/null; then exit 0; fi; \
	if command -v apt-get >/dev/null && { [ "$$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }; then \
	  sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  echo "installing $(PACKAGES) with apt-get"; \
	  $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq $(PACKAGES) >/dev/null; \
	else \
	  echo "rounds needs hwloc (2.8 or later) and libudev with their headers, and pkg-config."; \
	  echo "Debian, Ubuntu: sudo apt-get install $(PACKAGES)"; \
	  echo "Fedora: sudo dnf install pkgconf hwloc-devel systemd-devel"; \
	  exit 1; \
	fi

deps-mpi: deps
	@if command -v mpicc >/dev/null && command -v mpirun >/dev/null && command -v clang >/dev/null; then exit 0; fi; \
	if command -v apt-get >/dev/null && { [ "$$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }; then \
	  sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  echo "installing $(MPI_PACKAGES) with apt-get"; \
	  $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq $(MPI_PACKAGES) >/dev/null; \
	else \
	  echo "--engine mpi needs an MPI (3.1 or later) with mpicc and mpirun, and libclang."; \
	  echo "Debian, Ubuntu: sudo apt-get install $(MPI_PACKAGES)"; \
	  echo "Fedora: sudo dnf install openmpi-devel clang-devel clang, then module load mpi"; \
	  exit 1; \
	fi
