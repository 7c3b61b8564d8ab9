# Everything a newcomer, a contributor or CI runs. `make` alone lists the targets.
# A fresh machine needs Rust (rustup), a C compiler and git; `make setup` brings the rest.

CARGO ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
NIGHTLY ?= nightly
# cargo-fuzz uses flags of the nightly compiler. Where there is none, the pinned one is told to accept them: for fuzzing only.
FUZZ = $(if $(shell $(CARGO) +$(NIGHTLY) --version 2>/dev/null),$(CARGO) +$(NIGHTLY) fuzz,RUSTC_BOOTSTRAP=1 $(CARGO) fuzz)
FUZZ_SECONDS ?= 60

# Where `make install` puts things: PREFIX/bin, PREFIX/share/man/man1 and where shells look for completions.
PREFIX ?= $(HOME)/.local
INSTALLED_BIN = $(DESTDIR)$(PREFIX)/bin/greenroom
INSTALLED_MAN = $(DESTDIR)$(PREFIX)/share/man/man1
INSTALLED_BASH = $(DESTDIR)$(PREFIX)/share/bash-completion/completions/greenroom
INSTALLED_ZSH = $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_greenroom
INSTALLED_FISH = $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/greenroom.fish

# Pinned so that a fresh machine and CI use the same tools. An installed tool of another version is kept.
NEXTEST_VERSION := 0.9.143
DENY_VERSION := 0.20.2
MACHETE_VERSION := 0.9.2
FUZZ_VERSION := 0.13.2
# Programs the tests drive through a session.
PROGRAMS := tmux vim less htop jq curl

# The tools are run a few times, not for hours: compile them quickly.
INSTALL := CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
           CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 $(CARGO) install --locked

.PHONY: help
help:
	@echo 'make demo     build greenroom and watch a session survive kill -9 (no terminal needed)'
	@echo 'make install  put greenroom, its manual and completions below PREFIX ($(PREFIX))'
	@echo 'make uninstall  take them away again (docs/install.md says what else there is)'
	@echo 'make man      write the manual into $(TARGET_DIR)/man'
	@echo 'make test     everything CI checks: format, lints, tests, boundaries, documents, licences'
	@echo 'make soak     all tests with their long series: random lives, orders, kills, damage (an hour or two)'
	@echo 'make test-agents  real Claude Code and Codex in sandboxes, with a scripted model (downloads them; needs node, npm, python3)'
	@echo 'make bench    criterion parts, then greenroom beside tmux and the bare PTY'
	@echo 'make fuzz     each fuzz target for $(FUZZ_SECONDS) s'
	@echo 'make fmt      format the code'
	@echo 'make docs     rewrite the generated documents (docs/api.md)'
	@echo 'make setup    install what test and bench need, where it is missing'

# ---- for users --------------------------------------------------------------------------------

.PHONY: demo
demo: release
	$(TARGET_DIR)/release/greenroom demo

# The new program is put beside the old one and renamed over it: a host that runs goes on with the old one until `greenroom upgrade`.
.PHONY: install
install: release
	mkdir -p $(dir $(INSTALLED_BIN)) $(INSTALLED_MAN) $(dir $(INSTALLED_BASH)) $(dir $(INSTALLED_ZSH)) $(dir $(INSTALLED_FISH))
	install -m 755 $(TARGET_DIR)/release/greenroom $(INSTALLED_BIN).new
	mv -f $(INSTALLED_BIN).new $(INSTALLED_BIN)
	$(INSTALLED_BIN) man $(INSTALLED_MAN) >/dev/null
	$(INSTALLED_BIN) completions bash >$(INSTALLED_BASH)
	$(INSTALLED_BIN) completions zsh >$(INSTALLED_ZSH)
	$(INSTALLED_BIN) completions fish >$(INSTALLED_FISH)
	@echo 'installed $(INSTALLED_BIN)'
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; *) echo 'hint: $(PREFIX)/bin is not in your PATH' ;; esac

.PHONY: uninstall
uninstall:
	rm -f $(INSTALLED_BIN) $(INSTALLED_MAN)/greenroom.1 $(INSTALLED_MAN)/greenroom-*.1 $(INSTALLED_BASH) $(INSTALLED_ZSH) $(INSTALLED_FISH)
	@echo 'removed $(INSTALLED_BIN), its manual and completions; what sessions left is yours: docs/install.md'

.PHONY: man
man:
	$(CARGO) run --locked --quiet -p greenroom -- man $(TARGET_DIR)/man

.PHONY: release
release:
	$(CARGO) build --locked --release -p greenroom

# ---- for contributors -------------------------------------------------------------------------

.PHONY: test
test: setup check-format lint unit doctest check supply-chain
	@echo 'make test: all green'

# What is downloaded is never part of `make test`. npm may be told not to run what packages bring: then we do.
.PHONY: test-agents
test-agents:
	$(CARGO) build --locked -p greenroom
	npm install --prefix $(TARGET_DIR)/agents/npm --no-audit --no-fund @anthropic-ai/claude-code @openai/codex
	cd $(TARGET_DIR)/agents/npm/node_modules/@anthropic-ai/claude-code && node install.cjs
	python3 -B crates/greenroom/tests/agents/check.py --greenroom $(TARGET_DIR)/debug/greenroom --prefix $(TARGET_DIR)/agents/npm

.PHONY: check-format
check-format:
	$(CARGO) fmt --all -- --check

.PHONY: lint
lint:
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

# Integration tests start the real binaries from the target directory, so these come first.
.PHONY: unit
unit:
	$(CARGO) build --locked --workspace --bins
	$(CARGO) nextest run --locked --workspace

.PHONY: doctest
doctest:
	$(CARGO) test --locked --workspace --doc --quiet

# Dependency directions, documents, sizes, unsafe, leaks.
.PHONY: check
check:
	$(CARGO) run --locked --quiet -p xtask -- check

.PHONY: supply-chain
supply-chain:
	$(CARGO) deny --workspace check bans licenses sources
	$(CARGO) run --locked --quiet -p xtask -- advisories
	$(CARGO) machete

# The long series of the tests in full, from a new seed each, which a failing test prints; property tests with more cases.
.PHONY: soak
soak: setup
	$(CARGO) build --locked --workspace --bins
	GREENROOM_SOAK= PROPTEST_CASES=2000 $(CARGO) nextest run --locked --workspace --profile soak $(SOAK_ARGS)

.PHONY: bench
bench: setup-programs release
	$(CARGO) bench --locked -p greenroom-bench --bench parts
	$(CARGO) build --locked --release -p greenroom-bench
	$(TARGET_DIR)/release/greenroom-bench run --bin $(TARGET_DIR)/release/greenroom

.PHONY: fuzz
fuzz: setup-fuzz
	$(FUZZ) run frame_decode -- -max_total_time=$(FUZZ_SECONDS)
	$(FUZZ) run journal_recovery -- -max_total_time=$(FUZZ_SECONDS)
	$(FUZZ) run manifest -- -max_total_time=$(FUZZ_SECONDS)

.PHONY: fmt
fmt:
	$(CARGO) fmt --all

.PHONY: docs
docs:
	$(CARGO) run --locked --quiet -p xtask -- api-docs

# ---- a fresh machine --------------------------------------------------------------------------

.PHONY: setup
setup: setup-programs
	@command -v cargo-nextest >/dev/null 2>&1 || $(INSTALL) cargo-nextest@$(NEXTEST_VERSION)
	@command -v cargo-deny >/dev/null 2>&1 || $(INSTALL) cargo-deny@$(DENY_VERSION)
	@command -v cargo-machete >/dev/null 2>&1 || $(INSTALL) cargo-machete@$(MACHETE_VERSION)

.PHONY: setup-programs
setup-programs:
	@missing=''; \
	for program in $(PROGRAMS); do \
	  command -v $$program >/dev/null 2>&1 || missing="$$missing $$program"; \
	done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	  echo "setup: installing$$missing with apt-get"; \
	  { DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $$missing \
	    || { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $$missing; }; } \
	    && exit 0; \
	fi; \
	echo "setup: the tests drive$$missing through a session, and it is not installed" >&2; \
	echo "hint: sudo apt-get install$$missing   (dnf, pacman, brew: the packages have the same names)" >&2; \
	exit 1

.PHONY: setup-fuzz
setup-fuzz:
	@command -v cargo-fuzz >/dev/null 2>&1 || $(INSTALL) cargo-fuzz@$(FUZZ_VERSION)
