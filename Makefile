# What a developer types. "make help" says what there is.
SHELL   := /bin/bash
PKG     ?= ./...
RUN     ?= .

.DEFAULT_GOAL := help
.PHONY: help build test test-long bench lint fmt clean components

help: ## what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## bin/weir; its version is the commit
	go build -trimpath -buildvcs=auto -ldflags '-s -w' -o bin/weir ./cmd/weir

test: components lint ## all tests in short form, with the race detector (PKG=./limiter/... RUN=Name to choose)
	go test -race -timeout 12m -run '$(RUN)' $(PKG)

test-long: components lint ## more random cases, larger crowds, every test three times
	WEIR_LONG=1 RAPID_CHECKS=2000 go test -race -timeout 90m -count 3 -run '$(RUN)' $(PKG)

bench: components ## measures weir beside others, into bench/RESULTS.md
	go run ./bench

lint: ## gofmt and go vet
	@bad=$$(gofmt -l $$(find . -name '*.go' -not -path './data/*')); \
	if [ -n "$$bad" ]; then echo "not formatted (make fmt):"; echo "$$bad"; exit 1; fi
	go vet ./...

fmt: ## gofmt -w
	gofmt -w $$(find . -name '*.go' -not -path './data/*')

clean: ## removes what was built; data/ stays
	rm -rf bin weir

components: # the real programs that tests run against
	@.ci/components
