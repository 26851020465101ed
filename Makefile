# `make help` lists the targets; a line with two number signs after a target is its help.
.DEFAULT_GOAL := help
PYTHON_IN_VENV := .venv/bin/python
# What Python compiles is kept, or each of the many processes of a run compiles it anew.
export PYTHONDONTWRITEBYTECODE :=
# Tests run in this many processes, each with servers of its own; 0: in one. A wait that ran past its deadline is
# repeated once, a wrong result never (docs/adr/0025-repeated-waits.md).
PROCESSES ?= 3
PYTEST = $(PYTHON_IN_VENV) -m pytest -n $(PROCESSES) --no-loadscope-reorder --reruns 1 --max-suite-reruns 10

.PHONY: run
run: ## Run the service on the embedded database, data in .hookwire/ (Ctrl-C ends it)
	@scripts/bootstrap run
	@HOOKWIRE_DATA_DIR="$${HOOKWIRE_DATA_DIR:-.hookwire}" exec .venv/bin/hookwire serve

.PHONY: demo
demo: ## A tour that drives and ends itself: one event in a webhook, in Kafka and in AMQP
	@scripts/demo

.PHONY: pipeline-demo
pipeline-demo: ## A lake, an audit that finds it whole, and one that names what was done to it
	@scripts/bootstrap lake
	@scripts/install-servers kafka
	@$(PYTHON_IN_VENV) -m scripts.pipeline_demo

.PHONY: pipeline-newest
pipeline-newest: dev-environment ## The pipeline's tests on the newest Spark that is supported (fetches 500 MB once)
	@scripts/install-servers kafka
	@scripts/pipeline-newest

.PHONY: mysql-tests
mysql-tests: dev-environment ## The tests of an outbox and of queues in MariaDB on a real MySQL 8 (fetches 34 MB once)
	@scripts/install-servers kafka
	@scripts/mysql-tests

.PHONY: prove
prove: ## Kill and pause our own processes for about a minute, then wait while events arrive: PASS, FAIL or NOT FINISHED
	@scripts/bootstrap run
	@mkdir -p .hookwire
	@.venv/bin/hookwire prove --report .hookwire/prove.html

.PHONY: test
test: ## Lint, and every test but the long ones, on real servers (at most 20 minutes; PROCESSES=4)
	@$(MAKE) --no-print-directory -j 2 dev-environment test-servers
	@$(MAKE) --no-print-directory -j 2 check checked-tests

# Beside the environment, because both wait for what they fetch.
.PHONY: test-servers
test-servers:
	@scripts/install-servers

# Beside `check`, which needs one core. How many tests a file holds is known when its turn comes (tests/late_files.py),
# so no share of them is printed. Many tests wait, so that three processes leave two cores idle for a third of the time.
.PHONY: checked-tests
checked-tests: PROCESSES = 4
checked-tests:
	@$(PYTEST) --dist loadfile -o console_output_style=classic -m "not slow and not interop"

.PHONY: pressure
pressure: PROCESSES = 6
pressure: dev-environment ## The tests of `make test` under load, in the order of SEED=1, and a list of the failed (an hour)
	@scripts/install-servers
	@$(PYTHON_IN_VENV) -m pytest -n $(PROCESSES) --no-loadscope-reorder --dist loadfile --timeout 1200 \
		-o console_output_style=classic -p tests.pressure $(if $(SEED),--seed $(SEED)) -m "not slow and not interop"

.PHONY: unit
unit: ## The tests that need no server; on another Python: make unit PYTHON=python3.13
	@scripts/unit $(PYTHON)

.PHONY: unit-others
unit-others: ## `make unit` on each other Python from 3.11 to 3.13 that starts
	@scripts/unit others

.PHONY: coverage
coverage: dev-environment ## Each room's coverage by its own tests, on real servers (ROOMS="event egress", or ROOMS=--unit)
	@scripts/install-servers
	@$(PYTHON_IN_VENV) -m scripts.room_coverage $(ROOMS)

.PHONY: faults
faults: dev-environment ## The fault scenarios and every other slow test (PROCESSES=1: one at a time)
	@scripts/install-servers
	@$(PYTEST) --dist load --maxschedchunk 1 -m "(fault or slow) and not soak"

.PHONY: soak
soak: dev-environment ## The largest tests, which take half an hour (PROCESSES=1: one at a time)
	@scripts/install-servers
	@scripts/install-servers buildah
	@$(PYTEST) --dist load --maxschedchunk 1 -m soak

.PHONY: bench
bench: dev-environment ## Ours and a yardstick in one run, and their ratio
	@scripts/install-servers mariadb kafka rabbitmq
	@$(PYTHON_IN_VENV) -m benchmarks

.PHONY: fuzz
fuzz: dev-environment ## schemathesis over the OpenAPI file: some 9,000 requests and their answers
	@$(PYTHON_IN_VENV) -m scripts.fuzz

.PHONY: test-interop
test-interop: dev-environment ## Public and generated clients in seven languages against ours (needs Node, Go, Maven, cargo)
	@scripts/install-servers libzmq rabbitmq ruby php
	@$(PYTHON_IN_VENV) -m scripts.interop_signatures
	@$(PYTHON_IN_VENV) -m scripts.interop_services
	@$(PYTHON_IN_VENV) -m scripts.interop_clients
	@$(PYTHON_IN_VENV) -m pytest -m interop

.PHONY: servers
servers: dev-environment ## Start PostgreSQL, MariaDB, Kafka, RabbitMQ and Prosody in the background (stop them: make servers-down)
	@scripts/install-servers postgres15 mariadb kafka rabbitmq prosody
	@$(PYTHON_IN_VENV) -m scripts.servers up

.PHONY: servers-down
servers-down: dev-environment ## Stop what `make servers` started
	@$(PYTHON_IN_VENV) -m scripts.servers down

.PHONY: check
check: dev-environment ## Linters, types, import directions, dependencies
	@.venv/bin/ruff check --quiet .
	@.venv/bin/ruff format --check --quiet .
	@.venv/bin/mypy
	@.venv/bin/lint-imports
	@.venv/bin/deptry .
	@.venv/bin/deptry --config sdk/pyproject.toml sdk/src
	@$(PYTHON_IN_VENV) -m scripts.facts $(FACTS)

.PHONY: format
format: dev-environment ## Let ruff repair and format the code
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

.PHONY: version
version: dev-environment ## Write the version of pyproject.toml wherever else it stands (make version TO=0.2.0 raises it)
	@$(PYTHON_IN_VENV) -m scripts.version $(TO)
	@$(MAKE) --no-print-directory openapi

.PHONY: conformance
conformance: dev-environment ## Write the tests in the last column of docs/conformance from their docstrings
	@$(PYTHON_IN_VENV) -m scripts.conformance

.PHONY: openapi
openapi: dev-environment ## Write openapi/openapi.json and docs/reference/settings.md anew from the code
	@$(PYTHON_IN_VENV) -m scripts.openapi
	@$(PYTHON_IN_VENV) -m scripts.settings_reference

.PHONY: pictures
pictures: dev-environment ## Take the pictures of the status page and the report in docs/pictures anew, in Chromium
	@scripts/install-servers chromium
	@HOOKWIRE_TEST_PICTURES=docs/pictures $(PYTHON_IN_VENV) -m pytest -q tests/acceptance/test_truth.py \
		tests/pipeline/test_report_numbers.py -k "a_browser_shows or fits_a_phone"

.PHONY: schema
schema: dev-environment ## Write db/schema.sql and db/functions from the migrations
	@scripts/dump-schema

.PHONY: function
function: dev-environment ## Begin the next migration with a function's text of today (make function NAME=claim_jobs)
	@$(PYTHON_IN_VENV) -m scripts.begin_function "$(NAME)"

.PHONY: lock
lock: ## Pin requirements/*.txt anew (arguments: make lock WITH=--upgrade)
	@scripts/lock $(WITH)

.PHONY: sbom
sbom: dev-environment ## Write dist/hookwire.cdx.json, the bill of materials (CycloneDX) of what is pinned
	@$(PYTHON_IN_VENV) -m scripts.sbom

.PHONY: dist
dist: dev-environment ## Build wheels, sdists, the bill of materials and SHA256SUMS into dist/
	@scripts/dist

.PHONY: dist-tests
dist-tests: dev-environment ## Install dist/*.whl into empty environments and use them (PYTHONS="python3.11 python3.13")
	@$(PYTHON_IN_VENV) -m scripts.dist_tests $(or $(PYTHONS),python3.11 python3.13)

.PHONY: images
images: dev-environment ## Build both images without a Docker engine, print their sizes, and run them (needs root; 15 minutes)
	@scripts/install-servers kafka buildah
	@$(PYTHON_IN_VENV) -m scripts.images
	@$(PYTHON_IN_VENV) -m pytest -q tests/images

.PHONY: image-digests
image-digests: dev-environment ## Write dist/docker-compose.yml with images by digest (WITH="--image ...")
	@$(PYTHON_IN_VENV) -m scripts.image_digests $(WITH)

.PHONY: audit
audit: dev-environment ## Ask for known advisories on every pinned requirement (needs PyPI's advisory database)
	@$(PYTHON_IN_VENV) -m scripts.audit

.PHONY: clean
clean: ## Remove the environment, caches and build results; keeps .hookwire/ and .servers/
	@rm -rf .venv dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile

.PHONY: dev-environment
dev-environment:
	@scripts/bootstrap dev
