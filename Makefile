# What everybody needs: `make test`, and before a commit `make check`.

GO      ?= go
PREFIX  ?= /usr/local
DESTDIR ?=
FUZZTIME ?= 10s

BUILD   := $(GO) build
LDFLAGS := -s -w
# Where a process begins on Linux: entry_linux_*.s says what for.
ENTRY   := -E main.entry

# What it has to compile for.
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64
# The same for vet; an architecture makes no difference to it but on Linux.
VETTED    := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64

# No cgo anywhere, so that one static binary runs on every distribution.
export CGO_ENABLED := 0
# -trimpath for whatever compiles, so that vet, staticcheck, builds, tests and generators share
# what is compiled, also with a copy of the tree elsewhere.
export GOFLAGS := $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath

# -count=1: the cache of test results doesn't know that scripts run the binary, nor that
# a test lists packages. -vet=off: `make check` vets.
# -ldflags=-w: a debugger's tables take a third of the time to link.
TEST     := $(GO) test -count=1 -vet=off -ldflags=-w -timeout 30m
# They measure time, CPU and memory, or look for what any run of the host's has left: nothing
# else may run beside them.
MEASURE  := ./supervisor/cgroup ./supervisor/internal/tree ./integration ./integration/wine

.DEFAULT_GOAL := build
.PHONY: portable-packages build dist try quick test check fmt vet staticcheck tidy generated cross fuzz cover bench soak faults jobs-bench machines python python-check python-test python-cover python-providers python-packages python-machines wheel install clean

build:
	$(BUILD) -ldflags '$(LDFLAGS) $(if $(filter linux,$(shell $(GO) env GOOS)),$(ENTRY))' -o bin/confine .
	$(BUILD) -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

# The main job: the Python suites of this checkout, confined. What it lacks is made in .try.
try: build
	@examples/try.sh

# Packages that start no sandbox and kill nobody: half a minute, while working on something.
quick:
	$(TEST) $$($(GO) list ./backend ./confine/... ./internal/... ./status/... | grep -v '/internal/changes$$')

# Needs nothing but Go. What this host can't do, and programs that are not
# installed, skip their tests, unless CONFINE_MUST_RUN (CONTRIBUTING.md) names them.
# Two more at once than there are CPUs: some only wait.
# CONFINE_TEST_OMIT are packages, a line each, and CONFINE_TEST_SKIP a pattern of tests that another run has: .ci/once.
test:
	@all=$$($(GO) list ./... | grep -vxF "$${CONFINE_TEST_OMIT:-none}"); measure=$$($(GO) list $(MEASURE)); failed=0; \
	$(TEST) -skip "$$CONFINE_TEST_SKIP" -p $$(($$(getconf _NPROCESSORS_ONLN) + 2)) $$(echo "$$all" | grep -vxF "$$measure") || failed=1; \
	$(TEST) -skip "$$CONFINE_TEST_SKIP" -p 1 $$(echo "$$all" | grep -xF "$$measure") || failed=1; \
	exit $$failed

check: fmt vet staticcheck tidy generated

fmt:
	@unformatted=$$(gofmt -l .) && if [ -n "$$unformatted" ]; then \
		echo "not formatted, run gofmt -w on:"; echo "$$unformatted"; exit 1; fi

vet:
	@set -e; for p in $(VETTED); do \
		echo "vet $$p"; GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) vet ./...; done
	cd packaging && $(GO) vet .

staticcheck:
	$(GO) tool staticcheck ./...
	staticcheck=$$($(GO) tool -n staticcheck) && cd packaging && "$$staticcheck" .

tidy:
	$(GO) mod tidy -diff

# In a copy, so that a tree with changes of its own can be asked too.
generated:
	@set -e; copy=$$(mktemp -d); trap 'rm -rf "$$copy"' EXIT; \
	tar -cf - --exclude=./.git --exclude=./python/.venv --exclude=./.try --exclude=./bin --exclude=./dist --exclude=./cover . | tar -xf - -C "$$copy"; \
	(cd "$$copy" && $(GO) generate ./...); \
	diff -rq --exclude=.git --exclude=.venv --exclude=.mypy_cache --exclude=.ruff_cache --exclude=.pytest_cache --exclude=__pycache__ --exclude=.try --exclude=bin --exclude=dist --exclude=cover . "$$copy" || \
		{ echo "generated files are out of date, run: $(GO) generate ./..."; exit 1; }

# What is made for every system, and has tests that hold on every one: names of files in the others are those of Linux.
portable-packages:
	@echo ./backend/... ./confine/confinetest ./status ./supervisor/outcome ./supervisor/output ./supervisor/internal/egress/proxied ./supervisor/proxy ./integration/darwin ./integration/windows \
		./internal/cli/slurm ./internal/gitdir ./internal/gitindex ./internal/handoff ./internal/hint ./internal/learn ./internal/located ./internal/network ./internal/plan \
		./internal/pool ./internal/quote ./internal/redact ./internal/seatbelt/... ./internal/selftest ./internal/shell ./internal/unseen ./internal/view

cross:
	@set -e; for p in $(PLATFORMS); do \
		suffix=; [ "$${p%/*}" != windows ] || suffix=.exe; \
		entry=; [ "$${p%/*}" != linux ] || entry='$(ENTRY)'; \
		echo "build $$p"; GOOS=$${p%/*} GOARCH=$${p#*/} \
		$(BUILD) -ldflags "$(LDFLAGS) $$entry" -o dist/confine-$${p%/*}-$${p#*/}$$suffix .; \
		for also in confine-server confine-vm confine-wasm confine-worker; do GOOS=$${p%/*} GOARCH=$${p#*/} \
		$(BUILD) -ldflags "$(LDFLAGS)" -o dist/$$also-$${p%/*}-$${p#*/}$$suffix ./cmd/$$also; done; done

# dist/packages: archives, deb, rpm and SHA256SUMS, of a clone at one commit always the same bytes. Where there is no clone, as in an unpacked
# archive of the sources, VERSION and SOURCE_DATE_EPOCH say what a clone would.
VERSION ?=

dist: LDFLAGS += $(if $(VERSION),-X github.com/confine-run/confine/internal/cli.Version=$(VERSION))
dist: cross
	cd packaging && $(GO) run . -version '$(VERSION)' $(PLATFORMS)

# Every fuzz target there is, for FUZZTIME each. What is interesting is minimized by ten
# tries: by time, as is the default, a slow target does nothing else for a minute.
fuzz:
	@set -e; grep -r --include='*_test.go' -H '^func Fuzz' . | \
	sed -n 's|^\(.*\)/[^/]*_test\.go:func \(Fuzz[A-Za-z0-9_]*\)(.*|\1 \2|p' | sort -u | \
	while read -r dir name; do \
		echo "fuzz $$dir $$name"; \
		$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$dir" </dev/null; done

# Unit tests and the binary under its integration tests, together.
cover:
	.ci/cover

# The figures go to docs/BENCHMARKS.md.
bench: build
	$(GO) run ./bench >docs/BENCHMARKS.md.new && mv docs/BENCHMARKS.md.new docs/BENCHMARKS.md

# Thousands of runs, a third of them killed, and nothing may be left: minutes.
# SOAK are words for it, such as SOAK='-duration 2h'.
soak:
	$(GO) run ./integration/soak $(SOAK)

# Jobs on a cluster of three, of which something fails all the time, for FAULTS, on five tracks of chance; and 10,000 jobs, beside pools that
# have no queue. The figures are in docs/CLUSTER.md.
FAULTS ?= 2m

faults:
	$(GO) test -count=5 -timeout 0 -v ./internal/jobs/worker -run 'TestFaults' -faults $(FAULTS)

jobs-bench:
	$(GO) test -count=1 -timeout 0 -v ./internal/jobs/worker -run 'TestThroughput' -jobs 10000

# The scripts on other hosts, each a machine of its own, and a table of what holds
# what there. Needs QEMU and Debian's archive, and skips without.
machines:
	$(GO) run ./integration/machines $(MACHINES)

# The Python package: what its tools say, and its tests. VENV is where they are, and is made when it isn't there.
PYTHON ?= python3
VENV   ?= $(CURDIR)/python/.venv

python: python-check python-test

$(VENV)/ready: python/requirements-dev.txt
	$(PYTHON) -m venv '$(VENV)'
	'$(VENV)/bin/pip' install --quiet --disable-pip-version-check -r python/requirements-dev.txt
	touch '$@'

python-check: $(VENV)/ready
	$(PYTHON) python/buildsystem/unasync.py
	cd python && '$(VENV)/bin/ruff' check --quiet . && '$(VENV)/bin/ruff' format --quiet --check . && \
	'$(VENV)/bin/mypy' && '$(VENV)/bin/mypy' --platform win32 --follow-imports silent -p confine._async -p confine._sync -m confine._server -m confine._transport -m confine._binary

# CONFINE_MUST_RUN is as for `make test`; tests/conftest.py has its words.
python-test: $(VENV)/ready build
	cd python && '$(VENV)/bin/python' -m pytest --quiet --numprocesses 4 --dist worksteal

python-cover: $(VENV)/ready build
	cd python && rm -f .coverage .coverage.* && '$(VENV)/bin/coverage' run -m pytest --quiet && \
	'$(VENV)/bin/coverage' combine --quiet && '$(VENV)/bin/coverage' report --skip-covered

# What is made for other packages, tested with those, and the examples; and the runner's suite in virtual machines of $VMKERNEL.
PROVIDERS ?= $(VENV)/providers

$(PROVIDERS)/ready: python/tests/requirements-providers.txt
	$(PYTHON) -m venv '$(PROVIDERS)'
	'$(PROVIDERS)/bin/pip' install --quiet --disable-pip-version-check -r python/tests/requirements-providers.txt
	touch '$@'

# The two wait for each other in nothing: make -j2.
python-providers: python-packages python-machines

python-packages: $(PROVIDERS)/ready build
	cd python && rm -f .coverage .coverage.* && \
	'$(PROVIDERS)/bin/coverage' run -m pytest --quiet tests/test_inspect_ai.py tests/test_smolagents.py tests/test_providers.py tests/test_examples.py && \
	'$(PROVIDERS)/bin/coverage' combine --quiet && \
	'$(PROVIDERS)/bin/coverage' report --include='*/providers/*' --omit='*/_worker.py'

python-machines: $(PROVIDERS)/ready build
	cd python && '$(PROVIDERS)/bin/python' -m pytest --quiet tests/test_runners_conformance.py -k '[vm'

# A wheel for each platform, with the programs in it, or for those in TARGETS (GOOS/GOARCH…); needs no network once Go has the modules.
wheel:
	$(PYTHON) python/buildsystem/confine_build.py dist/wheels $(TARGETS)

install: build
	install -D -m 0755 bin/confine '$(DESTDIR)$(PREFIX)/bin/confine'
	install -D -m 0755 bin/confine-server '$(DESTDIR)$(PREFIX)/bin/confine-server'
	ln -sf confine-server '$(DESTDIR)$(PREFIX)/bin/confine-oci'
	install -D -m 0755 bin/confine-worker '$(DESTDIR)$(PREFIX)/bin/confine-worker'
	install -D -m 0755 bin/confine-vm '$(DESTDIR)$(PREFIX)/bin/confine-vm'
	install -D -m 0755 bin/confine-wasm '$(DESTDIR)$(PREFIX)/bin/confine-wasm'
	install -D -m 0644 docs/confine.1 '$(DESTDIR)$(PREFIX)/share/man/man1/confine.1'
	install -D -m 0644 internal/cli/shells/completion.bash '$(DESTDIR)$(PREFIX)/share/bash-completion/completions/confine'
	install -D -m 0644 internal/cli/shells/completion.zsh '$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_confine'
	install -D -m 0644 internal/cli/shells/completion.fish '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/confine.fish'

clean:
	rm -rf .try bin dist cover python/.venv python/src/confine/_sync python/.coverage python/.coverage.*
