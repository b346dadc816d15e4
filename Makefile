# Two commands set everything up on a fresh machine: `make run` and `make test`. `make help` lists the rest.

SHELL := /bin/sh
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
JARS := .cache/jars
KUBERNETES := .cache/kubernetes
# Without it the API server says that it is version 0.0.0, and Helm refuses the chart.
KUBERNETES_VERSION = $(foreach part,gitVersion=v1.37.2 gitMajor=1 gitMinor=37,-X k8s.io/component-base/version.$(part))
# Compiled for the part that needs it, and not for a list of what is due.
IN_CAMPAIGN = $(if $(filter kubernetes,$(or $(PARTS),kubernetes)),$(if $(DUE),,$(KUBERNETES)/.installed))
# What users install: a wheel built from this tree, without extras. The servers under test are started from it.
PLAIN := .venv-plain
UNDER_TEST := BMQ_UNDER_TEST=$(CURDIR)/$(PLAIN)/bin/bmq
SEEDS ?= 1000
# Runs that need the whole machine wait for each other; `make test` and `make campaign` do so themselves.
ALONE = $(BIN)/python -m tools.machine_lock "make $@"
# What the installed package is made of besides its Python modules, which an editable install reads in place.
PACKAGE := pyproject.toml setup.py $(wildcard bmq/hdfs/proto/*.proto) $(wildcard bmq/records/native/*.[ch])

.PHONY: help run install plain tools jars check test campaign places durations steady stalls test-bare bench bench-hdfs bench-secure-hdfs bench-cluster bench-core bench-loads bench-groups bench-spark bench-topics bench-security bench-queues bench-all config-page events-page dashboards conformance tools-table soak soak-cluster compaction etl plot simulate fresh mutants fuzz clean deb image wheel kubernetes-tools site

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name what; do \
		printf '  make %-13s %s\n' "$$name" "$$what"; done

run: install ## start bmq on 127.0.0.1:9092 (Kafka) and 127.0.0.1:8080 (REST); data in ./data
	@exec $(BIN)/bmq standalone

install: $(VENV)/.compiled ## make .venv with the `bmq` command in it

plain: $(PLAIN)/.installed ## make .venv-plain as users install it: a wheel of this tree without extras, for the servers under test

tools: ## install the tests' needs besides Python: Java, Maven, kcat, libfaketime, ip, mkfs.ext4, a C compiler, librdkafka, a Kerberos server, promtool (by apt as root; otherwise it says what is missing)
	@deploy/dev/install-tools.sh java javac mvn kcat faketime ip mkfs.ext4 cc librdkafka kdc promtool

# Java and Maven are looked for only when something has to be fetched.
jars: $(JARS)/kafka/.fetched $(JARS)/kafka-clients-2.8/.fetched $(JARS)/kafka-clients-3.9/.fetched $(JARS)/kafka-streams/.fetched $(JARS)/kafka-tests/.fetched $(JARS)/spark/.fetched $(JARS)/hadoop/.fetched $(JARS)/yarn/.fetched $(JARS)/zookeeper/.fetched ## fetch jars

check: $(VENV)/.installed-dev ## lint, types, import contracts and unit tests; STAGES="lint unit" runs only these
	@$(BIN)/python tools/stages.py check $(STAGES)

test: $(VENV)/.installed-spark $(PLAIN)/.installed tools jars ## the gate of every change, after installing what it needs; STAGES="unit hurt" runs only these
	@$(UNDER_TEST) $(BIN)/python tools/stages.py test $(STAGES)

campaign: $(VENV)/.installed-spark $(VENV)/.installed-bench $(VENV)/.installed-site $(PLAIN)/.installed tools jars $(JARS)/grpc/.fetched $(JARS)/iceberg-rest/.fetched $(IN_CAMPAIGN) ## the long, randomized tests: an hour; PARTS="soak kafka", SEED=n, RESUME=1; DUE=1 lists parts that are due
	@deploy/dev/install-tools.sh librdkafka npm nginx chromium
	@$(UNDER_TEST) $(BIN)/python -m tools.campaign $(PARTS) $(if $(SEED),--seed $(SEED)) $(if $(RESUME),--resume) $(if $(DUE),--due)

durations: $(VENV)/.installed-spark $(PLAIN)/.installed tools jars ## write the duration of each test of the gate to tests/durations.json; a test above its budget is an error
	@$(UNDER_TEST) $(BIN)/python -m tools.durations $(STAGES)

steady: N ?= 20
steady: $(VENV)/.installed-spark $(PLAIN)/.installed tools jars ## run the gate's real tests N times, half of them beside busy loops
	@$(UNDER_TEST) $(BIN)/python -m tools.steady --rounds $(N) $(STAGES)

stalls: N ?= 1
stalls: SEED ?= 1
stalls: $(VENV)/.installed-dev ## unit tests and simulations N times while clocks jump: does a machine that stands still turn one red? STOP=1 stops processes, STOP=one one at a time; TESTS="-n 2 tests/unit/hdfs"
	@$(BIN)/python -m tools.stalls --rounds $(N) --seed $(SEED) $(if $(STOP),--stop$(if $(filter one,$(STOP)),-one)) $(TESTS)

places: $(VENV)/.installed-dev ## list where each test runs -> tests/places.md; BEFORE=revision names tests that were lost since
	@$(BIN)/python -m tools.places $(if $(BEFORE),--before $(BEFORE))

test-bare: ## as root: `make run` and the tests on bare Debians with the oldest and the newest Python (BARE="--what test")
	@python3 tools/bare.py $(BARE)

bench: $(VENV)/.installed-bench $(VENV)/.compiled tools $(JARS)/kafka/.fetched ## bmq beside Apache Kafka -> bench/results/standalone.json
	@$(ALONE) $(BIN)/python -m bench.standalone
	@$(BIN)/python -m bench.plot standalone
	@$(BIN)/python -m bench.readme

bench-hdfs: $(VENV)/.installed-bench tools $(JARS)/hadoop/.fetched ## the HDFS client beside Hadoop's own and hdfs-native -> bench/results/hdfs.json
	@$(ALONE) $(BIN)/python -m bench.hdfs
	@$(BIN)/python -m bench.plot hdfs
	@$(BIN)/python -m bench.readme

bench-secure-hdfs: $(VENV)/.installed-bench tools $(JARS)/hadoop/.fetched ## the HDFS client with Kerberos beside an open HDFS and Hadoop's own client -> bench/results/secure_hdfs.json
	@$(ALONE) $(BIN)/python -m bench.secure_hdfs
	@$(BIN)/python -m bench.plot secure_hdfs
	@$(BIN)/python -m bench.readme

bench-cluster: $(VENV)/.installed-bench tools $(JARS)/kafka/.fetched $(JARS)/hadoop/.fetched $(JARS)/zookeeper/.fetched ## a cluster beside three Kafka brokers -> bench/results/cluster.json
	@$(ALONE) $(BIN)/python -m bench.cluster
	@$(BIN)/python -m bench.plot cluster
	@$(BIN)/python -m bench.readme

bench-core: $(VENV)/.installed-bench tools $(JARS)/kafka/.fetched ## one core of bmq beside one of Apache Kafka, under a client in C -> bench/results/core.json
	@$(ALONE) $(BIN)/python -m bench.core
	@$(BIN)/python -m bench.plot core
	@$(BIN)/python -m bench.readme

bench-loads: $(VENV)/.installed-bench tools $(JARS)/kafka/.fetched $(JARS)/hadoop/.fetched $(JARS)/zookeeper/.fetched ## a cluster beside three Kafka brokers under librdkafka -> bench/results/loads.json
	@deploy/dev/install-tools.sh librdkafka
	@$(ALONE) $(BIN)/python -m bench.loads
	@$(BIN)/python -m bench.plot loads
	@$(BIN)/python -m bench.readme

bench-groups: $(VENV)/.installed-bench tools $(JARS)/kafka/.fetched $(JARS)/hadoop/.fetched $(JARS)/zookeeper/.fetched ## transactions, offsets and groups beside Apache Kafka, on one node and on three -> bench/results/groups.json
	@deploy/dev/install-tools.sh librdkafka
	@$(ALONE) $(BIN)/python -m bench.groups
	@$(BIN)/python -m bench.plot groups
	@$(BIN)/python -m bench.readme

bench-spark: $(VENV)/.installed-spark $(VENV)/.installed-bench $(VENV)/.compiled tools $(JARS)/kafka/.fetched $(JARS)/hadoop/.fetched $(JARS)/zookeeper/.fetched $(JARS)/spark/.fetched ## Spark on bmq beside its Kafka connector on Apache Kafka, and tables and mirrors under kills -> bench/results/spark.json
	@deploy/dev/install-tools.sh librdkafka
	@$(ALONE) $(BIN)/python -m bench.spark
	@$(BIN)/python -m bench.plot spark
	@$(BIN)/python -m bench.readme

bench-topics: $(VENV)/.installed-bench $(VENV)/.compiled tools $(JARS)/kafka/.fetched $(JARS)/hadoop/.fetched $(JARS)/zookeeper/.fetched ## compaction, deletion, retention and changes of configs beside Apache Kafka -> bench/results/topics.json
	@$(ALONE) $(BIN)/python -m bench.topics
	@$(BIN)/python -m bench.plot topics
	@$(BIN)/python -m bench.readme

bench-security: $(VENV)/.installed-bench $(VENV)/.compiled tools $(JARS)/kafka/.fetched ## TLS, logins, ACLs, quotas and strangers beside Apache Kafka -> bench/results/security.json
	@deploy/dev/install-tools.sh librdkafka
	@$(ALONE) $(BIN)/python -m bench.security
	@$(BIN)/python -m bench.plot security
	@$(BIN)/python -m bench.readme

bench-queues: $(VENV)/.installed-bench $(VENV)/.compiled tools $(JARS)/kafka/.fetched $(JARS)/hadoop/.fetched $(JARS)/zookeeper/.fetched ## share groups, half messages beside Apache Kafka, delay, views, lanes -> bench/results/queues.json
	@deploy/dev/install-tools.sh librdkafka
	@$(ALONE) $(BIN)/python -m bench.queues
	@$(BIN)/python -m bench.plot queues
	@$(BIN)/python -m bench.readme

bench-all: bench bench-hdfs bench-cluster bench-core bench-loads bench-groups bench-spark bench-topics ## run all of them, one after the other: five hours

tools-table: $(VENV)/.installed-dev tools $(JARS)/kafka/.fetched ## Kafka's command line tools, each option, beside Apache Kafka -> docs/TOOLS.md
	@$(ALONE) $(BIN)/python -m tests.tools_table

deb: $(VENV)/.installed ## as root: a Debian package of this tree -> dist/; installed, used and removed on a bare Debian (SUITE=bookworm)
	@deploy/dev/install-tools.sh debootstrap
	@$(BIN)/python -m tools.debian_package --check $(if $(SUITE),--suite $(SUITE))

site: $(VENV)/.installed-site ## the documents as a site with a search -> ./site; dead links fail
	@$(BIN)/python -m tools.site

kubernetes-tools: $(KUBERNETES)/.installed ## Helm, kubeconform, etcd and Kubernetes' API server, for tests of the chart: compiled by Go, half an hour

wheel: $(VENV)/.installed-dev ## as root: a wheel and a source archive of this tree -> dist/; looked at by twine, installed by pipx and used on a bare Debian
	@deploy/dev/install-tools.sh debootstrap
	@$(BIN)/python -m tools.wheel_package --check $(if $(SUITE),--suite $(SUITE))

image: $(VENV)/.installed ## as root: an OCI image of this tree, made without a daemon -> dist/; unpacked, and started in a chroot
	@deploy/dev/install-tools.sh debootstrap umoci
	@$(BIN)/python -m tools.container_image --check $(if $(SUITE),--suite $(SUITE))

config-page: $(VENV)/.installed-dev ## the tables of docs/CONFIG.md, from the settings in the code
	@$(BIN)/python -m tools.config_page

events-page: $(VENV)/.installed-dev ## docs/EVENTS.md, from the log calls in the code
	@$(BIN)/python -m tools.events_page

dashboards: $(VENV)/.installed-dev ## deploy/grafana/*.json, from tools/dashboards.py
	@$(BIN)/python -m tools.dashboards

conformance: $(VENV)/.installed-dev tools $(JARS)/kafka/.fetched $(JARS)/kafka-clients-2.8/.fetched $(JARS)/kafka-clients-3.9/.fetched ## every API at every version, and clients, beside Apache Kafka -> docs/CONFORMANCE.md
	@$(ALONE) $(BIN)/python -m tests.conformance

soak: SOAK_MINUTES ?= 20
soak: $(VENV)/.installed-dev tools $(JARS)/hadoop/.fetched ## random faults under load on a real HDFS for SOAK_MINUTES; HAZARDS=all adds worse ones, as root; SECURED=1 for TLS, logins and ACLs, SECURE_HDFS=1 for Kerberos at HDFS
	@$(ALONE) $(BIN)/python -m tests.soak --minutes $(SOAK_MINUTES) --hazards $(HAZARDS) $(if $(SECURED),--secured) $(if $(SECURE_HDFS),--secure-hdfs)

soak-cluster: SOAK_MINUTES ?= 30
soak-cluster: $(VENV)/.installed-dev tools $(JARS)/hadoop/.fetched $(JARS)/zookeeper/.fetched ## the same for nodes in network namespaces, as root
	@$(ALONE) $(BIN)/python -m tests.soak.cluster --minutes $(SOAK_MINUTES) --hazards $(HAZARDS)

compaction: $(VENV)/.installed-dev tools $(JARS)/kafka/.fetched ## compare compaction with Apache Kafka's in 1,000 histories; prints compaction_differences
	@$(ALONE) $(BIN)/python -m tests.soak.compaction

etl: SOAK_MINUTES ?= 10
etl: $(VENV)/.installed-dev tools $(JARS)/kafka/.fetched $(JARS)/hadoop/.fetched $(JARS)/zookeeper/.fetched ## transactional copiers under kills; prints etl_lost_or_doubled
	@$(ALONE) $(BIN)/python -m tests.soak.etl --minutes $(SOAK_MINUTES)

plot: $(VENV)/.installed-bench ## draw bench/results/*.svg again, and write docs/benchmarks and the README's figures
	@$(BIN)/python -m bench.plot
	@$(BIN)/python -m bench.readme

simulate: $(VENV)/.installed-dev ## simulate SEEDS=n histories
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS)

fresh: $(VENV)/.installed-dev ## new random histories and examples; a search, so not part of `make test`
	@$(BIN)/python -m tools.fresh

mutants: $(VENV)/.installed-dev ## remove each safety rule in turn; the simulation must find it
	@$(BIN)/python -m tests.simulation.mutants

fuzz: MINUTES ?= 30
fuzz: $(VENV)/.installed-fuzz ## fuzz every decoder that faces a network, and the C kernel under sanitizers, for MINUTES; TARGETS="requests rest"
	@deploy/dev/install-tools.sh clang libclang-rt
	@$(BIN)/python -m tests.fuzz --minutes $(MINUTES) $(addprefix --target ,$(TARGETS))

clean: ## remove all made files, except ./data
	rm -rf $(VENV) $(PLAIN) .cache build site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is newer than these files once what it names is installed, so that a second run has nothing to do.
# PYTHON=… chooses the interpreter; else it is the first that is new enough.
$(BIN)/python:
	@PYTHON="$(PYTHON)" deploy/dev/install-tools.sh python
	@for python in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
		"$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
		exec "$$python" -m venv $(VENV); \
	done; exit 1

$(VENV)/.installed: $(PACKAGE) | $(BIN)/python
	@echo "installing bmq into $(VENV)"
	@$(PIP) install --editable .
	@touch $@

# Made anew when dependencies may have changed: one that is no longer named must not stay.
$(PLAIN)/.made: pyproject.toml | $(BIN)/python
	@rm -rf $(PLAIN)
	@$(BIN)/python -m venv $(PLAIN)
	@touch $@

$(PLAIN)/.installed: $(PLAIN)/.made $(PACKAGE) $(VENV)/.installed-dev $(shell find bmq -name '*.py' ! -name '*_pb2.py')
	@echo "installing bmq without extras into $(PLAIN)"
	@rm -rf build .cache/plain
	@$(PIP) wheel --no-deps --no-build-isolation --wheel-dir .cache/plain .
	@$(PLAIN)/bin/python -m pip --quiet --disable-pip-version-check install .cache/plain/bmq-*.whl
	@$(PLAIN)/bin/python -m pip --quiet --disable-pip-version-check install --no-deps --force-reinstall .cache/plain/bmq-*.whl
	@touch $@

# An install in place leaves compiling to the first start, and where PYTHONDONTWRITEBYTECODE is set to each one: 0.3 s of it.
$(VENV)/.compiled: $(VENV)/.installed $(shell find bmq -name '*.py')
	@$(BIN)/python -m compileall -q bmq
	@touch $@

$(VENV)/.installed-dev: $(PACKAGE) | $(BIN)/python
	@deploy/dev/install-tools.sh cc python-headers libkrb5
	@echo "installing bmq and its development tools into $(VENV)"
	@$(PIP) install --editable '.[dev]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-spark: $(PACKAGE) | $(BIN)/python
	@deploy/dev/install-tools.sh cc python-headers libkrb5
	@echo "installing bmq, its development tools, PySpark and a notebook's kernel into $(VENV)"
	@$(PIP) install --editable '.[dev,spark,notebook]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-dev

# Of one version each, as the tests of the chart were written with.
$(KUBERNETES)/.installed: pyproject.toml $(wildcard deploy/dev/kubernetes/go.*) | $(VENV)/.installed-dev
	@echo "compiling Helm, kubeconform, etcd and Kubernetes into $(KUBERNETES)/bin"
	@$(PIP) install --editable '.[dev,kubernetes]'
	@GOBIN="$(CURDIR)/$(KUBERNETES)/bin" $(BIN)/go install helm.sh/helm/v3/cmd/helm@v3.22.0
	@GOBIN="$(CURDIR)/$(KUBERNETES)/bin" $(BIN)/go install github.com/yannh/kubeconform/cmd/kubeconform@v0.7.0
	@cd deploy/dev/kubernetes && GOBIN="$(CURDIR)/$(KUBERNETES)/bin" "$(CURDIR)/$(BIN)/go" install -trimpath -ldflags '-s -w $(KUBERNETES_VERSION)' tool
	@mv $(KUBERNETES)/bin/server $(KUBERNETES)/bin/etcd
	@touch $@ $(VENV)/.installed $(VENV)/.installed-dev

$(VENV)/.installed-site: $(PACKAGE) | $(VENV)/.installed-dev
	@echo "installing what the site is built with into $(VENV)"
	@$(PIP) install --editable '.[dev,site]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-dev

$(VENV)/.installed-fuzz: $(PACKAGE) | $(BIN)/python
	@deploy/dev/install-tools.sh cc python-headers libkrb5
	@echo "installing bmq, its development tools and libFuzzer for Python into $(VENV)"
	@$(PIP) install --editable '.[dev,fuzz]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-dev

$(VENV)/.installed-bench: $(PACKAGE) | $(BIN)/python
	@deploy/dev/install-tools.sh cc python-headers libkrb5
	@echo "installing bmq and what its benchmarks need into $(VENV)"
	@$(PIP) install --editable '.[dev,bench]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-dev

# Jars lie in the user's cache, one directory for each content of a pom, so that a fresh clone fetches none again; the archive of
# Hadoop's classes lies beside them. Two clones that fetch at once each fetch for themselves, and the first one is kept.
JAR_CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/bmq/jars
$(JARS)/%/.fetched: deploy/dev/%/pom.xml
	@deploy/dev/install-tools.sh java mvn
	@place="$(JAR_CACHE)/$*-$$(sha256sum $< | cut -c1-16)"; \
	if [ ! -e "$$place/.fetched" ]; then \
		echo "fetching the jars of $*"; \
		rm -rf "$$place.$$$$" && mkdir -p "$$place.$$$$" || exit 1; \
		mvn -q -B -Dstyle.color=never --no-transfer-progress -f $< dependency:copy-dependencies \
			-DincludeScope=runtime -DoutputDirectory="$$place.$$$$" || exit 1; \
		touch "$$place.$$$$/.fetched"; \
		mv -T "$$place.$$$$" "$$place" 2>/dev/null || rm -rf "$$place.$$$$"; \
	fi; \
	mkdir -p $(JARS) && rm -rf $(@D) && ln -s "$$place" $(@D)
	@touch $@
