# Each of these does all the set-up on a fresh Debian 12, Debian 13 or Ubuntu machine with Python 3.11 or later:
#   make demo    the main job on the embedded cloud: up, verify, down
#   make check   the tests that need no host, browser or root: while you work, ROOM=verify for one package and what uses it
#   make test    these, the tests with hosts and a browser, and a part of each matrix, by the commit; SAMPLE=3 names another part
#   make test-all  all of them, whole
.DEFAULT_GOAL := help
.PHONY: help setup demo check test test-all test-full test-cloud test-engines lint docs bench data lock mutate fuzz fresh test-lowest release-check clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Where the user is root nothing is needed to become root; elsewhere sudo is, which drops what leads to a company's proxy and package index.
NETWORK := http_proxy,https_proxy,no_proxy,HTTP_PROXY,HTTPS_PROXY,NO_PROXY,SSL_CERT_FILE,SSL_CERT_DIR,REQUESTS_CA_BUNDLE,CURL_CA_BUNDLE
NETWORK := $(NETWORK),PIP_CERT,PIP_INDEX_URL,PIP_EXTRA_INDEX_URL,PIP_CONFIG_FILE
SUDO := $(if $(filter 0,$(shell id -u)),,sudo --preserve-env=$(NETWORK),GPUPROV_CACHE)
# What root leaves in the tree belongs to whoever owns the tree.
AS_ROOT := $(SUDO) bash tests/as_root.sh
# Tests and benches start hundreds of Python processes; each would compile what it imports where the environment forbids to keep it.
COMPILED := env -u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX="$(CURDIR)/build/compiled"
DEBIAN := python3-venv openssh-client mmdebstrap apt-cacher-ng iproute2 util-linux mount hostname systemd e2fsprogs ca-certificates gnupg rpm
DEBIAN += createrepo-c rsync procps
# A server for the tests that lie to the verifier over the real ssh; it listens on loopback for as long as they run, and is not started here.
DEBIAN += openssh-server
# For the report's page; Ubuntu has it as a snap only, and skips those tests.
DEBIAN += $(if $(filter debian,$(shell . /etc/os-release && echo $$ID)),chromium fonts-dejavu-core)
# The tests of a report on paper read its PDF; a runbook's commands are run with curl and jq, or parsed by AWS's own command line, which Ubuntu
# has as a snap only.
DEBIAN += poppler-utils curl jq $(if $(filter debian,$(shell . /etc/os-release && echo $$ID)),awscli)

help:
	@sed -n 's/^#   //p' Makefile

# What the set-up, a rehearsal's cache and a host's packages take from nothing; `make setup` alone takes less.
demo test test-all: ROOM_GB := 8
setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml requirements.lock
	@bash tests/setup.sh $(VENV) "$(PYTHON)" "$(SUDO)" $(or $(ROOM_GB),0) $(DEBIAN)

# The site's packages, which nothing else needs.
$(VENV)/.docs: docs.lock $(VENV)/.ready
	$(BIN)/pip install -qq --disable-pip-version-check --no-deps -r docs.lock
	touch $@

demo: setup
	@$(AS_ROOT) $(COMPILED) PATH="$(CURDIR)/$(BIN):$$PATH" bash tests/demo.sh

lint: setup build/locks-checked build/playbooks-linted
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/yamllint --strict -c playbooks/.config/yamllint.yml profiles playbooks provision/catalog/data provision/clouds

# Every pin has a wheel for every Python that is promised, as the index says: asked again when a lock has changed.
build/locks-checked: requirements.lock docs.lock release.lock | setup
	@mkdir -p build && bash tests/locks.sh $(BIN)/uv $^ $@

# Ten seconds, and only after a change of a playbook.
build/playbooks-linted: $(shell find playbooks -type f -not -path '*/__pycache__/*') requirements.lock | setup
	@mkdir -p build
	cd playbooks && PATH="$(CURDIR)/$(BIN):$$PATH" ANSIBLE_HOME="$(CURDIR)/build/ansible" ANSIBLE_COLLECTIONS_PATH="$$PWD/collections" \
	  ansible-lint --offline --strict --profile production -c /dev/null site.yml undo.yml
	touch $@

# As whoever calls it.
QUICK := -m "not rehearsal and not browser and not matrix"
check: lint
	ring=$$($(BIN)/python -m tests.rings $(ROOM)) && $(COMPILED) PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest -n auto --no-loadscope-reorder $(QUICK) $$ring

# Root, because the hosts are Linux namespaces.
TEST := $(AS_ROOT) $(COMPILED) PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest -n auto --no-loadscope-reorder
test: lint
	$(TEST) --sample $(or $(SAMPLE),commit)

test-all: lint
	$(TEST)

# Gigabytes and minutes: Debian's real driver, toolkit, profilers and the frameworks' real wheels on one host. PARTS="python opencl" takes some.
test-full: setup
	$(SUDO) env PATH="$(CURDIR)/$(BIN):$$PATH" bash tests/full.sh $(PARTS)

# The whole story on an account of yours: CLOUD=aws PROFILE=t4-train BUDGET_USD=3 YES=1; REHEARSE=1 plays it on the embedded cloud alone, CLEAN=1
# removes what a killed run left. What it is compared with needs root, the account's credentials stay with whoever calls.
CLOUD_TEST := $(BIN)/python -m tests.cloud $(CLOUD) --budget-usd $(or $(BUDGET_USD),0) $(if $(PROFILE),--profile $(PROFILE)) $(if $(HOURS),--hours $(HOURS)) $(if $(STORE),--store $(STORE))
test-cloud: setup
	$(if $(CLEAN),,$(SUDO) env PATH="$(CURDIR)/$(BIN):$$PATH" $(CLOUD_TEST) --reference-only)
	$(if $(REHEARSE),$(SUDO) )env PATH="$(CURDIR)/$(BIN):$$PATH" $(CLOUD_TEST) $(if $(YES),--yes) $(if $(REHEARSE),--rehearse) $(if $(CLEAN),--clean)

# The engines that `gpuprov export` writes for, to read what it writes: gigabytes of packages, each in an environment of its own, and Debian's programs.
ENGINES := ray[default]==2.60.0 dstack==0.22.5 skypilot==0.14.1 torch
test-engines: setup
	$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends slurmctld slurmd slurm-client openmpi-bin </dev/null
	@for wheel in $(ENGINES); do at="build/engines/$${wheel%%[[=]*}"; [ -x "$$at/bin/python" ] || $(PYTHON) -m venv "$$at"; \
	  "$$at/bin/pip" install -qq --disable-pip-version-check "$$wheel" || exit 1; done
	$(SUDO) $(COMPILED) PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest tests/engines

# Under ten minutes: what the client costs beside its floors, and build/bench.svg. KEEP=1 adds a line a row to the history, PEERS=1 the peers.
bench: setup
	$(SUDO) $(COMPILED) PATH="$(CURDIR)/$(BIN):$$PATH" $(foreach v,KEEP PEERS RUNS,$(if $($(v)),$(v)=$($(v)))) bash tests/bench/run.sh

# The site into build/site: a broken link, a page without a place or a key without a sentence ends it. No host is asked for anything.
# First it writes the parts of the reference that the package says.
docs: $(VENV)/.docs
	$(BIN)/python -m docs.site.reference --write
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# By room: which changes of an expression no test notices. ROOMS="launch rules" takes some of them; all take an hour on two cores.
mutate: setup
	$(BIN)/pip install -qq 'mutmut>=3.8,<4'
	$(SUDO) env PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.mutation $(ROOMS)

# Files that strangers write, through the command line: 20,000 cases by kind and exit code, a quarter of an hour of CPU. FIRST=1000 takes others.
fuzz: setup
	$(BIN)/python -m tests.fuzz --cases $(or $(CASES),20000) --first $(or $(FIRST),0)

# The oldest versions that pyproject.toml admits. CI says LOWEST=quick: of the files of `make check`, without those about the tree alone, one in
# eight by the commit. Before a release: all.
OF_THE_TREE := --ignore=tests/test_shape.py --ignore=tests/test_docs.py --ignore=tests/catalog/test_product.py
test-lowest: setup
	$(BIN)/pip install -qq uv
	$(BIN)/uv pip compile -q --all-extras --resolution lowest-direct pyproject.toml -o .venv/lowest.txt
	$(PYTHON) -m venv .venv-lowest && .venv-lowest/bin/pip install -qq --no-deps -r .venv/lowest.txt && .venv-lowest/bin/pip install -qq --no-deps -e .
	$(SUDO) $(COMPILED) PATH="$(CURDIR)/.venv-lowest/bin:$$PATH" .venv-lowest/bin/pytest -n auto --no-loadscope-reorder $(if $(filter quick,$(LOWEST)),$(QUICK) $(OF_THE_TREE) --sample commit --files 8)

# The shipped YAML as JSON, which is read in a hundredth of the time: after each change of it. What does not fit its YAML is not used.
data: setup
	$(BIN)/python -m tests.parsed

# For the oldest Python that is promised, and the newer ones. No index is written into the files: it is whatever pip is configured to use.
UV_LOCK := $(BIN)/uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header
lock: setup
	$(UV_LOCK) --all-extras pyproject.toml -o requirements.lock
	$(UV_LOCK) --group docs -c requirements.lock -o docs.lock
	$(UV_LOCK) --group release -c requirements.lock -o release.lock

# Minimal Debian 12 and 13 machines, made from nothing, in which a stranger's commands run: SYSTEMS="bookworm trixie", PARTS="imports demo".
fresh:
	$(SUDO) $(PYTHON) -m tests.fresh $(foreach s,$(SYSTEMS),--system $(s)) $(PARTS)

# What is committed is built twice, judged, installed in empty environments and upgraded to; nothing is published. PREVIOUS=COMMIT to upgrade from.
release-check: build/release-tools/.ready
	build/release-tools/bin/python -m tests.release $(if $(PREVIOUS),--previous $(PREVIOUS))

build/release-tools/.ready: release.lock
	$(PYTHON) -m venv --clear build/release-tools
	build/release-tools/bin/pip install -qq --disable-pip-version-check --no-deps -r release.lock
	touch $@

clean:
	rm -rf $(VENV) .venv-lowest .pytest_cache .mypy_cache .ruff_cache dist build
