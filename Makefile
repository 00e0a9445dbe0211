# The usual commands. Meson and Ninja do the work, behind scripts/build.

.PHONY: all run docs test test-roots bench bench-overhead bench-peers sim sim-long chaos chaos-long lockset model mutants cluster conformance redis-suites hostile-long go-race mixed failover fuzz sbom deb dist test-packages lint format clean help

all: ## build build/ (-O2 -g, asserts on)
	@scripts/build release

run: ## install what is missing, build, and start something to look at
	@scripts/setup build
	@scripts/build release
	@scripts/run

docs: all ## the documents as HTML in build-docs/html, with a reference of APIs and commands
	@scripts/setup docs
	@tools/docs/sequence_svg.py docs/img/*.seq
	@tools/docs/site.py build/holdfast build-docs/pages
	@mkdocs build -q -f mkdocs.yml
	@echo "build-docs/html/index.html"

test: ## install what is missing, build all variants, run every suite
	@scripts/setup build test
	@scripts/test

test-roots: ## make test in bare roots of Debian 12 and 13, as root: ROOTS="bookworm trixie", SUITES= for some, FRESH=1 from nothing
	@scripts/setup roots
	@ROOTS="$(ROOTS)" FRESH="$(FRESH)" scripts/test-roots $(SUITES)

bench: all ## run the benchmarks
	@scripts/bench

bench-overhead: all ## what metrics, event log, a file sink and a dashboard cost: ROUNDS=7 of SECONDS=5
	@bench/overhead.py --rounds $(or $(ROUNDS),7) --seconds $(or $(SECONDS),5)

bench-peers: all ## beside etcd, ZooKeeper, Redis, PostgreSQL: ROUNDS=3 of SECONDS=3; ONLY=, CLIENTS=, NODES= for less
	@scripts/setup peers
	@bench/compare.py --rounds $(or $(ROUNDS),3) --seconds $(or $(SECONDS),3) $(if $(ONLY),--only $(ONLY)) \
	    $(if $(CLIENTS),--clients $(CLIENTS)) $(if $(NODES),--nodes $(NODES))

sim: all ## run the simulator: SEEDS=2000 worlds from SEED=1, SECONDS=60 each
	@build/tests/sim/sim --seed $(or $(SEED),1) --seeds $(or $(SEEDS),$(if $(SEED),1,2000)) \
	    --seconds $(or $(SECONDS),60) $(if $(TRACE),--trace)

sim-long: ## more worlds behind the last seed that was run: SEEDS= or HOURS=1, SECONDS=60, JOBS=, at low priority; recorded in docs/evidence
	@scripts/build sim
	@/usr/bin/python3 tests/sim/long.py $(if $(SEEDS),--seeds $(SEEDS)) $(if $(HOURS),--hours $(HOURS)) \
	    $(if $(JOBS),--jobs $(JOBS)) $(if $(SECONDS),--seconds $(SECONDS)) \
	    $(if $(SEED),--first-seed $(SEED))

CHAOS_KIND = $(if $(NODES),--nodes $(NODES)) $(if $(GROW),--grow) $(if $(POWER),--power) $(if $(SECURE),--secure) $(if $(OTHER),--other $(OTHER))

chaos: all ## real nodes, killed, paused, cut off, replaced for SECONDS=90, SEED=1; NODES=1|2|3|5, or GROW=1 from 1 to 5; POWER=1; SECURE=1 with TLS and auth
	@/usr/bin/python3 tests/chaos/chaos.py --seconds $(or $(SECONDS),90) --seed $(or $(SEED),1) \
		--storm $(or $(STORM),150) $(if $(NETWORK),--network $(NETWORK)) $(CHAOS_KIND)

chaos-long: all ## the same for HOURS=2 in pieces, each with a seed of its own; goes on behind the pieces of before
	@/usr/bin/python3 tests/chaos/long.py --hours $(or $(HOURS),2) $(if $(PIECE),--piece $(PIECE)) $(CHAOS_KIND)

lockset: all ## lost updates under paused processes, with and without a fence: Holdfast and etcd, SECONDS=60 each
	@scripts/setup peers
	@/usr/bin/python3 tests/chaos/lockset.py --seconds $(or $(SECONDS),60)

model: ## check the models of tests/spin/ at full depth, and that their mutants are caught
	@scripts/setup test
	@scripts/spin full

mutants: ## make known bugs in a copy: do the simulator and the scenarios notice?
	@scripts/setup build
	@scripts/mutants

cluster: ## clusters of real processes, the long tests too, with and without sanitizers
	@scripts/setup build test
	@scripts/test build cluster_whole

conformance: all ## every scenario of tests/conformance with the clients for C, Python, Go, Node.js; CLIENT=NAME for one; TABLE=1 writes the table of docs/CLIENTS.md
	@scripts/setup test
	@/usr/bin/python3 -m pytest -q -p no:cacheprovider tests/conformance $(if $(CLIENT),--client $(CLIENT)) $(if $(TABLE),--table)

redis-suites: all ## the tests of other projects' Redis lock libraries, on a cluster and on Redis; SUITE=NAME for one; TABLE=1 writes the table of docs/REDIS.md
	@scripts/setup test suites
	@/usr/bin/python3 -m pytest -q -p no:cacheprovider tests/redis $(if $(SUITE),--suite $(SUITE)) $(if $(TABLE),--table)

hostile-long: all ## tests of clients that want to exhaust a node, with IDLE=20000 idle connections, as root or with ulimit -n 20500
	@scripts/setup test
	@HOSTILE_IDLE=$(or $(IDLE),20000) /usr/bin/python3 -m pytest -q -rP -p no:cacheprovider tests/cluster/test_hostile.py

go-race: all ## the tests of sdk/go with the race detector
	@scripts/setup test
	@scripts/go-test race

mixed: all ## clusters of this program and of an earlier one: HOLDFAST_OLD=, or those of commits 85d9ea4 and 5d475ec4, built once
	@scripts/setup test
	@scripts/mixed

failover: all ## kills the leader of five KILLS=50 times under load; how long is nobody served?
	@/usr/bin/python3 bench/failover.py --kills $(or $(KILLS),50)

sbom: all ## the libraries of the program, as CycloneDX JSON: build/holdfast.cdx.json
	@tools/sbom.py build >build/holdfast.cdx.json
	@echo "build/holdfast.cdx.json"

deb: ## Debian packages in build-deb/
	@scripts/setup package
	@scripts/package deb

dist: ## a tarball that runs from any folder, with its checksum, in build-dist/
	@scripts/setup package
	@scripts/package dist

test-packages: deb dist ## install, start, upgrade and purge them in a bare root of Debian, as root
	@scripts/setup test roots
	@/usr/bin/python3 -m pytest -q -p no:cacheprovider --durations=5 tests/packages

fuzz: ## fuzz every decoder; SECONDS=60 each, TARGETS=... for some
	@scripts/setup build test
	@scripts/build clang
	@scripts/fuzz $(or $(SECONDS),60) $(TARGETS)

lint: ## layout, project rules, warnings, shell scripts, purity of the core
	@scripts/setup build test
	@scripts/lint

format: ## lay out the C code anew with clang-format 14
	@scripts/lint --format

clean: ## remove what was built
	rm -rf build build-test build-clang build-sim build-mixed build-logs build-deb build-dist build-docs

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
