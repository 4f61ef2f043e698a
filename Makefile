# The two commands of the README: `make run` and `make test`.
.PHONY: run test lint build bench evidence evidence-programs deny

BIN := target/release/thingbed

# Exit status 4 says that a finding of the paper does not hold here: no failure.
run: build
	$(BIN) run experiments/multi-protocol-small.yaml || [ $$? -eq 4 ]

build:
	scripts/dependencies.sh
	cargo build --release --locked --bins

test:
	scripts/dependencies.sh test
	$(MAKE) lint
	cargo test --workspace --locked

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

# Bring-up and tear-down, forwarded frames, release error, bulk TCP; some ten minutes.
bench: build
	cargo bench --locked -p bench

# Hours: the full comparison. Results go to runs/, the table to docs/results/.
evidence: build
	$(BIN) run experiments/multi-protocol.yaml || [ $$? -eq 4 ]

# Programs that nobody here wrote, across links; ten minutes. Needs iperf3 and ping.
evidence-programs: build
	evidence/programs.py

# Licences and advisories; needs cargo-deny (cargo install cargo-deny).
deny:
	cargo deny check
