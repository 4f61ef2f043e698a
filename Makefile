# The two commands of the README: `make run` and `make test`.
.PHONY: test lint

test: lint
	cargo test --workspace --locked

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
