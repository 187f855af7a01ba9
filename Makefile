# Every command that the README names. `make run` and `make test` do all set-up on a fresh machine that has Rust and a C
# toolchain; system packages come from the platform's package manager, or are named where they may not be installed.

CARGO ?= cargo
# Debian's packages that the build needs (hwloc) and that the report's browser tests use where they are there.
PACKAGES := pkg-config libhwloc-dev libudev-dev

.PHONY: run test bench report readme lint deps

run: deps
	$(CARGO) run --release --quiet --package rounds -- run $(ARGS)

test: deps
	$(CARGO) test --workspace

bench: deps
	$(CARGO) bench --package rounds-bench $(ARGS)

report: deps
	$(CARGO) run --release --quiet --package rounds -- report $(ARGS)

lint: deps
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
