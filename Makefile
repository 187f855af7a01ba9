# Every command that the README names. `make run` and `make test` do all set-up on a fresh machine that has Rust and a C
# toolchain; system packages come from the platform's package manager, or are named where they may not be installed.

CARGO ?= cargo
PYTHON ?= python3
# Debian's packages that the build needs (hwloc) and that the report's browser tests use where they are there.
PACKAGES := pkg-config libhwloc-dev libudev-dev
# And those of the engine over MPI (bindgen needs libclang).
MPI_PACKAGES := libopenmpi-dev openmpi-bin libclang-dev clang
# And those that build and run the kernels' tests for 64-bit Arm.
ARM_PACKAGES := qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross
# And what makes virtual environments of the system's Python.
PYTHON_PACKAGES := python3-venv
# And PyTorch without CUDA, which runs the script of its page.
TORCH_PACKAGES := --no-install-recommends python3-torch

.PHONY: run test test-all verify-exact bad-input bench peers peers-python report readme reproduce lint mpi parquet dist instruction-sets aarch64 \
  python wheel docs deps deps-mpi deps-aarch64 deps-python deps-torch

run: deps
	$(CARGO) run --release --quiet --package rounds -- run $(ARGS)

# In the release profile, whose crates `make run` has built. Examples are built by `make lint` and `make test-all`.
test: deps
	$(CARGO) test --release --workspace --exclude rounds-python --tests
	$(CARGO) test --release --workspace --exclude rounds-python --doc

# The tests that take long in the release profile (audits of all algorithms, tails of samplers, 300 killed runs), and all others in the
# checked build (overflow, debug assertions), with 10,000 pairs of neighbouring files and 10,000 damaged ones of each format; without those of
# pages and of simulated machines, which are no other there. With FEATURES=rounds/mpi,rounds/parquet those of MPI and Parquet, too.
FEATURES :=
test-all: export ROUNDS_PAIRS ?= 10000
test-all: deps $(if $(findstring mpi,$(FEATURES)),deps-mpi)
	$(CARGO) test --release --workspace --exclude rounds-python -- --ignored --skip exact_noise_in_full
	$(CARGO) test --workspace --exclude rounds-python --features "$(FEATURES)" -- --skip report:: --skip simulated_tests

# The exact samplers and the rounding of sums against arbitrary precision, their laws and their tails, with 10⁷ to 10⁹ draws: some ten
# minutes.
# The output is committed as results/exact-noise.txt.
verify-exact:
	$(CARGO) test --release --package rounds-kernels --lib exact_noise_in_full -- --ignored --nocapture

# Three thousand bad command lines and damaged files: no panic, hang, lost file, or message that names an option that does not exist.
bad-input: deps
	$(CARGO) build --release --quiet --package rounds
	python3 bench/bad_input.py $(ARGS)

# The engine over MPI: installs what it needs, runs its tests on ranks, and lints what only its feature builds.
mpi: deps-mpi
	$(CARGO) test --workspace --exclude rounds-python --features rounds/mpi --test mpi
	$(CARGO) clippy --workspace --exclude rounds-python --all-targets --features rounds/mpi -- --deny warnings

# Tables in Parquet files, whose reader is an optional feature.
parquet: deps
	$(CARGO) test --workspace --exclude rounds-python --features rounds/parquet --test all -- tables neighbours
	$(CARGO) clippy --workspace --exclude rounds-python --all-targets --features rounds/parquet -- --deny warnings

# A package for every x86-64 processor with AVX2: a build for x86-64-v3, one for x86-64-v4, and the front that starts the better
# one. Its tests compare models over instruction sets and builds.
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
PACKAGE := rounds-$(VERSION)-x86_64-linux
DIST := target/dist

dist: deps
	rm -rf $(DIST)/$(PACKAGE) && mkdir -p $(DIST)/$(PACKAGE)/libexec
	for level in v3 v4; do \
	  RUSTFLAGS="-C target-cpu=x86-64-$$level" $(CARGO) build --release --quiet --package rounds --target-dir $(DIST)/$$level && \
	  cp $(DIST)/$$level/release/rounds $(DIST)/$(PACKAGE)/libexec/rounds-$$level || exit 1; \
	done
	RUSTFLAGS="-C target-cpu=x86-64" $(CARGO) build --release --quiet --package rounds-front --target-dir $(DIST)/front
	cp $(DIST)/front/release/rounds-front $(DIST)/$(PACKAGE)/rounds
	cp README.md LICENSE-MIT LICENSE-APACHE $(DIST)/$(PACKAGE)
	ROUNDS_DIST=$(abspath $(DIST)/$(PACKAGE)) $(CARGO) test --quiet --package rounds-front
	tar --create --gzip --owner 0 --group 0 --sort name --file $(DIST)/$(PACKAGE).tar.gz --directory $(DIST) $(PACKAGE)
	ls -l $(DIST)/$(PACKAGE).tar.gz

# The library in Python: built for this processor, its tests, the scripts of its pages and its lint, in a virtual environment of its own
# (Python 3.11 or later). ARGS, for example: -k noise.
VENV := target/python
$(VENV)/installed: python/requirements.txt | deps-python
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --requirement python/requirements.txt
	touch $@

# The module in another file: a process that has the old one open keeps it.
python/rounds/_rounds.abi3.so: FORCE
	$(CARGO) build --release --quiet --package rounds --package rounds-python
	cp --remove-destination target/release/lib_rounds.so $@
FORCE:

# The packages of the pages, whose scripts are tested, too.
$(VENV)/documented: python/docs/requirements.txt $(VENV)/installed
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --requirement python/docs/requirements.txt
	touch $@

python: deps python/rounds/_rounds.abi3.so $(VENV)/documented
	cd python && ../$(VENV)/bin/python -m pytest --quiet -rs $(ARGS)
	cd python && ../$(VENV)/bin/python -m mypy --strict rounds
	$(CARGO) clippy --quiet --package rounds --package rounds-python -- --deny warnings

# A wheel for every x86-64 processor with AVX2: the module and the command, each for x86-64-v3 and for x86-64-v4, and its tests.
wheel: deps $(VENV)/installed
	$(VENV)/bin/python python/wheel.py --out target/wheels

# The pages of the library in Python, with what their scripts print, and its reference: target/docs/html.
docs: python/rounds/_rounds.abi3.so $(VENV)/documented
	$(VENV)/bin/python -m sphinx --quiet -W --keep-going python/docs target/docs/html

# The suite of instruction sets on each set that this processor has, three times in turn.
instruction-sets: dist
	python3 bench/instruction_sets.py $(DIST)/$(PACKAGE)/rounds $(ARGS)

comma := ,

# The kernels built for 64-bit Arm and tested under emulation; the other crates checked.
ARM := aarch64-unknown-linux-gnu
aarch64: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER := aarch64-linux-gnu-gcc
aarch64: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER := qemu-aarch64 -L /usr/aarch64-linux-gnu
aarch64: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS := -C target-cpu=generic
aarch64: deps-aarch64
	$(CARGO) test --package rounds-kernels --target $(ARM)
	$(CARGO) check --package rounds-models --target $(ARM)

bench: deps
	$(CARGO) bench --package rounds-bench $(ARGS)

# A DP-SGD round beside JAX, NumPy, torch, Opacus and jax-privacy; the first time it sets up their environment (Python 3.11 to
# 3.13, some minutes). ARGS, for example: --batch-sizes 500,2000.
peers: deps
	$(CARGO) build --release --quiet --package rounds
	$(CARGO) bench --quiet --package rounds-bench --bench random --no-run
	python3 bench/peers/run.py $(ARGS)

# Private classifiers in one Python process: rounds, diffprivlib, and scikit-learn without privacy, on the files in ROUNDS_DATA.
PEERS_VENV := target/peers/python
$(PEERS_VENV)/installed: bench/peers/in_process_requirements.txt | deps-python
	test -x $(PEERS_VENV)/bin/python || $(PYTHON) -m venv $(PEERS_VENV)
	$(PEERS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --requirement bench/peers/in_process_requirements.txt
	touch $@

peers-python: deps python/rounds/_rounds.abi3.so $(PEERS_VENV)/installed
	$(PEERS_VENV)/bin/python bench/peers/in_process.py $(ARGS)

report: deps
	$(CARGO) run --release --quiet --package rounds -- report $(ARGS)

# The verdicts, tables, numbers and pictures of README.md and results/README.md, and the experiment sheets, from the committed results;
# ARGS=--check fails where they differ. `make lint` checks what needs no build, `make test` the rest.
readme: deps
	python3 bench/readme.py $(ARGS)
	$(CARGO) run --release --quiet --package rounds -- verdicts $(or $(ARGS),--write)

# A few runs of every committed study again, compared bit for bit: some minutes. ARGS, for example: --studies bounds --runs 50.
reproduce: deps
	$(CARGO) build --release --quiet --package rounds
	python3 bench/reproduce.py $(ARGS)

lint: deps $(if $(findstring mpi,$(FEATURES)),deps-mpi)
	@if command -v python3 >/dev/null; then \
	  python3 bench/readme.py --check && python3 -m unittest discover --quiet --start-directory bench; \
	else echo "python3 is missing: the tables of the READMEs are not checked"; fi
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --exclude rounds-python --all-targets -- --deny warnings
	$(if $(FEATURES),$(CARGO) clippy --workspace --exclude rounds-python --all-targets --features "$(FEATURES)" -- --deny warnings)
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --workspace --exclude rounds-python --no-deps --quiet

# Installs the Debian packages $(1) with apt if it may, and says so; else prints the lines $(2). With APT_LIMIT the downloads have so many seconds;
# what is unpacked and set up has all the time it takes.
APT_LIMIT :=
limited = $(if $(APT_LIMIT),timeout $(APT_LIMIT))
define install
if command -v apt-get >/dev/null && { [ "$$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }; then \
  sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); \
  echo "installing $(1) with apt-get"; \
  $(limited) $$sudo apt-get update -qq && $(limited) $$sudo apt-get install -y -qq --download-only $(1) >/dev/null && \
    DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq $(1) >/dev/null; \
else \
  printf '%s\n' $(2) "Debian, Ubuntu: sudo apt-get install $(1)"; \
  exit 1; \
fi
endef

deps:
	@pkg-config --exists 'hwloc >= 2.8' libudev 2>/dev/null || { $(call install,$(PACKAGES),\
	  "rounds needs hwloc (2.8 or later) and libudev with their headers$(comma) and pkg-config." \
	  "Fedora: sudo dnf install pkgconf hwloc-devel systemd-devel"); }

deps-mpi: deps
	@{ command -v mpicc && command -v mpirun && command -v clang; } >/dev/null || { $(call install,$(MPI_PACKAGES),\
	  "--engine mpi needs an MPI (3.1 or later) with mpicc and mpirun$(comma) and libclang." \
	  "Fedora: sudo dnf install openmpi-devel clang-devel clang$(comma) then module load mpi"); }

deps-python:
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { $(call install,$(PYTHON_PACKAGES),\
	  "virtual environments need Python 3.11 or later with venv and pip."); }

deps-torch:
	@$(VENV)/bin/python -c 'import torch' 2>/dev/null || /usr/bin/python3 -c 'import torch' 2>/dev/null || { $(call install,$(TORCH_PACKAGES),\
	  "The script of PyTorch's page needs it$(comma) in the virtual environment or for /usr/bin/python3."); }

deps-aarch64:
	@rustup target list --installed | grep -q $(ARM) || rustup target add $(ARM)
	@{ command -v qemu-aarch64 && command -v aarch64-linux-gnu-gcc; } >/dev/null || { $(call install,$(ARM_PACKAGES),\
	  "make aarch64 needs qemu-aarch64 and a C compiler for 64-bit Arm."); }
