# burstlet. "make help" tells what there is.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -s -w -X main.version=$(VERSION)
GOLANGCI := go tool -modfile=tools/golangci-lint/go.mod golangci-lint

# As the control plane of the tests is built, so that what both are made of is compiled
# once, and wherever the checkout stands. The race detector alone needs cgo.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath

.PHONY: help
help: ## Show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: helper
helper: ## Build the host helper that burstlet carries
	@tools/build-helper

.PHONY: build
build: helper ## Build bin/burstlet, and bin/burstlet-task for the image of helper containers on ECS
	@mkdir -p bin
	go build -ldflags '$(LDFLAGS)' -o bin/burstlet ./cmd/burstlet
	go build -ldflags '-s -w' -o bin/burstlet-task ./cmd/burstlet-task

.PHONY: image
image: helper ## Make bin/burstlet-image.tar and bin/burstlet-image-task.tar, OCI archives for amd64 and arm64 (PUSH=registry/burstlet:tag: push it too, and burstlet-task:tag; PLATFORM=linux/arm64: only that; TASK=no: without that of tasks)
	go run ./tools/image --version '$(VERSION)' --out bin/burstlet-image.tar \
		$(if $(PLATFORM),--platform '$(PLATFORM)') $(if $(PUSH),--push '$(PUSH)') $(if $(filter no,$(TASK)),--main-only)

# Installs (as root) what real containers need; without root their tests are skipped.
define real
	@parts=0; tools/real-parts || parts=$$?; \
	[ $$parts -eq 0 ] || [ $$parts -eq 3 ] || exit $$parts; \
	[ $$parts -ne 0 ] || export BURSTLET_REQUIRE_REAL=1;
endef

.PHONY: test
test: helper ## Run what most changes can break, in minutes, with a real control plane and real containers over SSH
	$(real) \
	go run ./test/cmd/controlplane build; \
	go run ./test/cmd/lanes test

.PHONY: gate
gate: helper ## Run the rest of what must hold before a change lands: lint, -race, whole suites (SUITES='e2e|worlds': only those)
	$(real) \
	go run ./test/cmd/controlplane build --all; \
	[ $$parts -ne 0 ] || go run ./test/cmd/conformance build; \
	go run ./test/cmd/lanes -suites '$(SUITES)' gate

.PHONY: test-all
test-all: helper ## Run everything whole, for hours: -race everywhere, breakages, chaos, conformance, benchmarks (SUITES=: only those)
	$(real) \
	[ $$parts -ne 0 ] || tools/real-parts debian-host || exit $$?; \
	go run ./test/cmd/controlplane build --all --runtimes --versions; \
	[ $$parts -ne 0 ] || go run ./test/cmd/conformance build; \
	go run ./test/cmd/lanes -budget 0 -suites '$(SUITES)' all

.PHONY: breakages
breakages: ## Break the engine on purpose and show that the simulation catches it
	go test ./syncloop -run '^TestBreakages$$' -breakages -timeout 40m -v

# Without go vet, whose analyzers golangci-lint's govet has, and the same again. It collects
# garbage less often than Go does by default, while there is memory.
.PHONY: lint
lint: ## Check style, layers and modules
	GOGC=300 GOMEMLIMIT=4GiB $(GOLANGCI) run
	@unformatted=$$(git ls-files --cached --others --exclude-standard '*.go' | xargs gofmt -l); \
	[ -z "$$unformatted" ] || { echo "not formatted (make fmt):" $$unformatted >&2; exit 1; }
	go mod tidy -diff
	tools/check-tree

.PHONY: fmt
fmt: ## Format the code
	$(GOLANGCI) fmt

# The demo itself builds what is missing, burstlet among it, side by side.
.PHONY: demo
demo: helper ## Run pods in a cluster of its own until Ctrl-C (ONCE=1: end by itself; BACKEND=ecs: tasks on an ECS to test on; CLUSTER=mine: on the cluster of your kubectl, after asking)
	$(if $(filter-out mine,$(CLUSTER)),$(error CLUSTER=$(CLUSTER): there is only CLUSTER=mine))
	@parts=0; tools/real-parts host || parts=$$?; \
	[ $$parts -eq 0 ] || [ $$parts -eq 3 ] || [ "$(BACKEND)" = ecs ] || exit $$parts
	@go build -o bin/demo ./test/cmd/demo
	$(if $(filter ecs,$(BACKEND)),@CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/burstlet-task ./cmd/burstlet-task)
	$(if $(filter ecs,$(BACKEND)),@CGO_ENABLED=0 go build -trimpath -o bin/ecs ./test/cmd/ecs)
	@exec bin/demo --burstlet bin/burstlet --build --ldflags '$(LDFLAGS)' \
		$(if $(filter ecs,$(BACKEND)),--ecs --ecs-program bin/ecs --burstlet-task bin/burstlet-task) \
		$(if $(CLUSTER),--mine $(if $(filter yes 1,$(CONFIRM)),--yes) $(if $(ADDRESS),--address '$(ADDRESS)'))

.PHONY: bench
bench: helper ## Run all benchmarks; at the end a table of numbers beside their bars
	go run ./test/cmd/controlplane build --all
	go test -run '^$$' -bench . -benchmem -p 1 -timeout 60m $$(go list ./... | grep -v /test/bench$$)
	go test -run '^$$' -bench . -timeout 90m ./test/bench

.PHONY: chaos
chaos: helper ## Cut off the API server and a host for ten minutes, freeze leaders, kill what can be killed, restore etcd
	go run ./test/cmd/controlplane build
	BURSTLET_LANE=all go test ./backend/cri -run '^TestContractOverSSHWhileTheLinkIsReset$$' -linkresets -timeout 30m -v
	BURSTLET_LANE=all go test ./test/suite/e2e -run '^(TestOutage|TestEtcdLeaderChanges|TestEtcdIsRestored|TestTakeoverUnseen|TestLeaderFrozen|TestKill|TestKillOnSim|TestKillOnECS|TestRemoteDies|TestSSHCutLong|TestSSHRestarts|TestHostChaos|TestHostLinkBreaks)$$' -outage 10m -sshcut 10m -hostkills 200 -hostbreaks 200 -ecskills 50 -ecspods 60 -ecsjob 60 -timeout 80m -v

.PHONY: soak
soak: helper ## Hold two nodes under load to what docs/operations.md promises (DURATION=30m; COUNTS='-soakssh 20 -soaksim 200 -soakmaps 500')
	$(real) \
	go run ./test/cmd/controlplane build; \
	go test ./test/suite/soak -run '^TestSoak$$' -soak $(or $(DURATION),30m) $(COUNTS) -count 1 -timeout 0 -v

# What nodes of each version must show: a cluster may be older or newer than burstlet.
VERSIONS ?= 1.34 1.35 1.37
.PHONY: versions
versions: helper ## Run lives of pods, rights and installations on API servers of other Kubernetes versions (VERSIONS='1.34 1.37')
	$(real) \
	go run ./test/cmd/controlplane build --all --versions; \
	export BURSTLET_LANE=gate; \
	for version in $(VERSIONS); do \
		BURSTLET_KUBERNETES=$$version go test -count 1 -timeout 60m -v ./test/suite/e2e \
			-run '^(TestHost|TestBehaviours|TestKubectl|TestRights|TestNodeCredential|TestServiceAccount|TestCISBenchmark)$$'; \
		BURSTLET_KUBERNETES=$$version go test -count 1 -timeout 30m -v ./test/suite/install; \
	done

.PHONY: conformance
conformance: build ## Run the conformance tests for nodes on a host over SSH (BACKEND=ecs: on tasks; BACKEND=kubelet: of a kubelet; FEATURES=1; FOCUS=, SKIP=, LABEL=, PROCS=, SERIAL=1, KILL_EVERY=60s, CUT_EVERY=60s)
	tools/real-parts
	go run ./test/cmd/conformance --focus '$(FOCUS)' --skip '$(SKIP)' --label '$(LABEL)' --procs $(or $(PROCS),6) \
		$(if $(filter ecs,$(BACKEND)),--backend ecs --burstlet-task bin/burstlet-task) \
		$(if $(filter kubelet,$(BACKEND)),--backend kubelet) $(if $(FEATURES),--features) \
		$(if $(SERIAL),--serial) $(if $(KILL_EVERY),--kill-every $(KILL_EVERY)) $(if $(CUT_EVERY),--cut-every $(CUT_EVERY))

.PHONY: clean
clean: ## Remove bin/ and the host helper's binaries
	rm -rf bin backend/cri/host/helper/binary/built/*.gz
