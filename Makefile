# Vigla: the commands for people to type. `make` alone lists them.
# Anything longer than a line or two is in Scripts/.

# Headers that the package compiles against, and the C++ compiler and git that Swift uses to build and resolve.
# NAME=COMMAND means: COMMAND on the PATH is as good as the Debian package.
BUILD_PACKAGES := libssl-dev zlib1g-dev libsqlite3-dev libcurl4-openssl-dev g++=g++ git=git ca-certificates
DIST_PACKAGES  := dpkg-dev=dpkg-deb binutils=strip clang=clang
# Only root can create a Debian tree and enter it; tests that need one report when they are skipped.
TREE_PACKAGES  := debootstrap=debootstrap iproute2=ip
TEST_PACKAGES  := chromium=chromium chromium-driver=chromedriver nodejs=node python3=python3 python3-venv curl=curl jq=jq openssl=openssl valgrind=valgrind

BIN   := .build/release
ARGS  ?=
BENCH ?= table
CASES ?=
FUZZ_SECONDS ?= 600
ATTACKS ?=
STEPS ?=

# Programs built to run on this machine include the cluster (docs/cluster.md) if libnats is installed; packages, images and tests only on
# request. Set for the compiler alone: a hub reports a VIGLA_ variable that it does not know.
CLUSTER := $(or $(VIGLA_WITH_CLUSTER),$(if $(wildcard /usr/include/nats/nats.h /usr/local/include/nats/nats.h),1,0))
SWIFT_BUILD := VIGLA_WITH_CLUSTER=$(CLUSTER) swift build

.PHONY: help run test cluster-test watchme bench bench-check autobahn fuzz hostile dist clean build-needs release

help: ## list these targets
	@echo "Vigla: a self-hosted realtime hub"
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 18

run: build-needs ## build and serve on this machine, open to everyone on it (--dev); ARGS="--port 9001" adds options
	@echo "Building, without optimisation. The first time this also fetches the dependencies and takes some minutes; what it compiles is shown."
	@$(SWIFT_BUILD) --product vigla
	@echo
	@echo "When the hub says it is ready, open the address it prints in a browser."
	@echo "Data is kept in ./data. Ctrl-C stops the hub."
	@echo
	@exec env -u VIGLA_WITH_CLUSTER -u VIGLA_STRICT .build/debug/vigla serve --dev --web web --data ./data $(ARGS)

test: build-needs ## build everything and run every test (20 to 40 minutes); STEPS="browser docs" chooses
	@Scripts/ensure-packages $(TEST_PACKAGES) $(DIST_PACKAGES) $(if $(filter 0,$(shell id -u)),$(TREE_PACKAGES))
	@Scripts/test $(STEPS)

watchme: release ## run the WatchMe example with its simulation
	@$(SWIFT_BUILD) -c release --product watchme-simulation
	@VIGLA_BIN=$(BIN)/vigla Examples/watchme/run --seconds 0 $(ARGS)

bench: release ## every budget in one run (5 minutes); BENCH="fanout requests" chooses others, ARGS= adds options
	@$(SWIFT_BUILD) -c release --product vigla-bench
	@set -e; for name in $(BENCH); do $(BIN)/vigla-bench $$name $(ARGS); done

bench-check: build-needs ## count the instructions of fixed work and compare; ACCEPT=1 keeps the new figures, ARGS="--only put" chooses
	@Scripts/bench-check $(if $(ACCEPT),--accept) $(ARGS)

autobahn: build-needs ## the Autobahn WebSocket test suite (needs Python 2.7, or PYTHON27=…); CASES="1.* 6.4.1" chooses
	@set -f; Tests/Autobahn/run $(CASES)

fuzz: build-needs ## fuzz every parser, FUZZ_SECONDS=600 each, one after the other; FILTER=WebSocketFuzzTests/frames chooses
	@VIGLA_FUZZ_SECONDS=$(FUZZ_SECONDS) nice swift test -c release -Xswiftc -enable-testing --scratch-path .build/fuzzing \
		--no-parallel --filter '$(or $(FILTER),FuzzTests)'

cluster-test: build-needs ## test hubs over NATS JetStream, on three servers of this machine
	@Scripts/ensure-packages libnats-dev python3-venv
	@server=$$(python3 Tests/Cluster/server.py) && VIGLA_NATS_SERVER=$$server VIGLA_WITH_CLUSTER=1 swift test \
		--filter 'ClusterJournalTests|ClusterTests|ClusterAccountTests|ClusterOptionTests|JournalContractTests'

hostile: release ## attack the hub under a memory limit (20 minutes); ATTACKS="big-get" chooses, ARGS=--quick is a smoke test
	@VIGLA_BIN=$(BIN)/vigla Tests/Hostile/run $(ATTACKS) $(ARGS)

dist: build-needs ## make the Debian package, the archive, the symbols and their checksums in .build/dist
	@Scripts/ensure-packages $(DIST_PACKAGES)
	@Scripts/dist

clean: ## remove what was built (your ./data stays)
	rm -rf .build

build-needs:
	@Scripts/ensure-swift
	@Scripts/ensure-packages $(BUILD_PACKAGES)

release: build-needs ## build the optimised program, .build/release/vigla: for measuring, and for serving others
	@echo "Building, optimised. The first time this also fetches the dependencies and takes 5 to 15 minutes; what it compiles is shown."
	@$(SWIFT_BUILD) -c release --product vigla
