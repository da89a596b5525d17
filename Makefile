# What people and machines run here; `make help` lists it.

SHELL := /bin/bash
.DEFAULT_GOAL := help
# rustup's directory, for a shell that was opened before rustup came.
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: help run test lint api instructions mutants format bench live results pictures paper docs fuzz install uninstall deb wheel headers kernels ci clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## repeat the published experiments in their quick form, write a report to out/
	@tools/setup.sh build python
	@tools/run.sh

test: ## run every test
	@tools/setup.sh build test python
	@tools/test.sh

lint: ## check formatting and lints of Rust, C, Python, shell and the documents
	@tools/setup.sh build lint
	@tools/lint.sh

api: ## compare the public items of every library crate with its api.txt; tools/api.sh --write renews them
	@tools/setup.sh build
	@tools/api.sh

instructions: ## count the instructions of the hot paths: 5 % above the baseline fails; tools/instructions.py --write renews it
	@tools/setup.sh build instructions
	@tools/instructions.py

mutants: ## put small faults into laws that changed, and see that a test fails; control/mutate.py --write renews the record
	@tools/setup.sh build
	@control/mutate.py --check

format: ## format Rust, C and Python
	@tools/setup.sh build lint
	@tools/format.sh

bench: ## measure the simulator, the laws in the kernel, the lab, tunnel, uTP and proxy beside their peers
	@tools/setup.sh build python
	@bench/run

live: ## measure the laws on real TCP beside the simulator (root, 1 to 2 hours), and write docs/live.md's tables
	@tools/setup.sh build test
	cargo build --release --locked --package leeway-live
	@$${CARGO_TARGET_DIR:-target}/release/leeway-live run
	@$${CARGO_TARGET_DIR:-target}/release/leeway-live report

# What of the published grids; SIZE="" is the short form, SIZE="--full --seeds 5" the whole grid with five seeds.
SIZE ?= --full

results: ## repeat every published experiment at full size (hours; SIZE=...), write docs/results.md and docs/scoreboard.md
	@tools/setup.sh build python
	@target/python/bin/leeway-lab report $(SIZE) --cache out/results.sqlite --out out/report-full
	@target/python/bin/python tools/results.py out/report-full

pictures: ## draw the pictures of the documents anew
	@tools/setup.sh build
	@tools/pictures.sh

paper: ## run the boards of docs/ebb-paper.md (half an hour) and draw its figures
	@tools/setup.sh build python
	@tools/paper.sh

docs: ## build the book of the documents into target/book, notebooks included; a broken link fails
	@tools/setup.sh build python docs
	@tools/book/build.sh

fuzz: ## fuzz every harness with libFuzzer for ten minutes each; tools/fuzz.sh takes others and less time
	@tools/setup.sh build
	@tools/fuzz.sh 600

install: ## install the `leeway` program; as root for everybody, with manual, completions, C headers and library, units
	@tools/setup.sh build
	@tools/install.sh

uninstall: ## remove what `make install` put in place; DESTDIR and PREFIX as then
	@tools/install.sh uninstall

deb: ## make a Debian package (12 and newer) in target/deb
	@tools/setup.sh build
	@tools/deb.sh

wheel: ## make the Python package's wheel and source distribution in target/wheels
	@tools/setup.sh build python
	@tools/wheel.sh

headers: ## pack the C headers with a Makefile and pkg-config's file in target/headers
	@tools/headers.sh

kernels: ## boot Debian's kernels in QEMU and use the laws on them (root, ten minutes), write docs/kernels.md's table
	@tools/setup.sh build test kernels
	@tools/kernels/run.sh

ci: ## what a change must pass: .ci/run
	@.ci/run

clean: ## remove what was built and what runs wrote
	rm -rf target out
