# burstlet. "make help" tells what there is.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -s -w -X main.version=$(VERSION)
# Of one package: those with a control plane and containers wait for real time.
TEST_TIMEOUT ?= 30m
GOLANGCI := go tool -modfile=tools/golangci-lint/go.mod golangci-lint

.PHONY: help
help: ## Show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/burstlet
	@mkdir -p bin
	go build -ldflags '$(LDFLAGS)' -o bin/burstlet ./cmd/burstlet

.PHONY: test
test: ## Run all tests, after installing (as root) and building what they need
	@parts=0; tools/real-parts || parts=$$?; \
	[ $$parts -eq 0 ] || [ $$parts -eq 3 ] || exit $$parts; \
	go run ./test/cmd/controlplane build; \
	[ $$parts -ne 0 ] || export BURSTLET_REQUIRE_REAL=1; \
	go test -race -shuffle=on -timeout $(TEST_TIMEOUT) ./...

.PHONY: breakages
breakages: ## Break the engine on purpose and show that the simulation catches it
	go test ./syncloop -run '^TestBreakages$$' -breakages -timeout 40m -v

.PHONY: lint
lint: ## Check style, layers and modules
	$(GOLANGCI) run
	go vet ./...
	@unformatted=$$(git ls-files --cached --others --exclude-standard '*.go' | xargs gofmt -l); \
	[ -z "$$unformatted" ] || { echo "not formatted (make fmt):" $$unformatted >&2; exit 1; }
	go mod tidy -diff
	tools/check-tree

.PHONY: fmt
fmt: ## Format the code
	$(GOLANGCI) fmt

.PHONY: demo
demo: build ## Run pods in a cluster of its own until Ctrl-C (ONCE=1: end by itself)
	@parts=0; tools/real-parts || parts=$$?; \
	[ $$parts -eq 0 ] || [ $$parts -eq 3 ] || exit $$parts; \
	go build -o bin/demo ./test/cmd/demo; \
	exec bin/demo --burstlet bin/burstlet

.PHONY: bench
bench: ## Run all benchmarks; at the end a table of numbers beside their bars
	go run ./test/cmd/controlplane build
	go test -run '^$$' -bench . -benchmem -p 1 -timeout $(TEST_TIMEOUT) $$(go list ./... | grep -v /test/bench$$)
	go test -run '^$$' -bench . -timeout $(TEST_TIMEOUT) ./test/bench

.PHONY: chaos
chaos: ## Stop the API server for ten minutes, freeze leaders, kill what can be killed
	go run ./test/cmd/controlplane build
	go test ./test/e2e -run '^(TestOutage|TestLeaderFrozen|TestKill|TestKillOnSim|TestRemoteDies)$$' -outage 10m -timeout 60m -v

.PHONY: clean
clean: ## Remove bin/
	rm -rf bin
