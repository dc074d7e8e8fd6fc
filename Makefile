# "make" or "make help" lists what there is. Targets that test install what they
# need (hack/prerequisites) and build tools once (hack/tool).

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)

.PHONY: help
help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: prerequisites
prerequisites:
	@hack/prerequisites

.PHONY: compiler
compiler:
	@hack/prerequisites build

# Recipes get these by the environment: a quote in a version must not end a word of the shell.
build binaries image: export STAMP_VERSION = $(VERSION)
build binaries image: export STAMP_COMMIT = $(COMMIT)

GO_BUILD = CGO_ENABLED=0 go build -trimpath -buildvcs=false \
	-ldflags "-s -w -X 'main.version=$$STAMP_VERSION' -X 'main.commit=$$STAMP_COMMIT'"

.PHONY: build
build: compiler ## build bin/osm-gitops, stamped with its version
	$(GO_BUILD) -o bin/osm-gitops ./cmd/osm-gitops

RELEASE ?= bin/release
MACHINES ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

.PHONY: binaries
binaries: compiler ## build the program for every machine into bin/release, with checksums.txt, as a release attaches them
	@rm -rf "$(RELEASE)" && mkdir -p "$(RELEASE)"
	@for machine in $(MACHINES); do \
		GOOS=$${machine%/*} GOARCH=$${machine#*/} $(GO_BUILD) -o "$(RELEASE)/osm-gitops-$${machine/\//-}" ./cmd/osm-gitops; \
	done
	@cd "$(RELEASE)" && sha256sum osm-gitops-* >checksums.txt

CREATED ?= $(shell git log -1 --format=%cI 2>/dev/null)
PLATFORMS ?= linux/amd64,linux/arm64

.PHONY: image
image: compiler ## build images into bin/image, an OCI layout, with their SBOM in bin/image.sbom; no Docker, no registry
	@cd tools/image && CGO_ENABLED=0 GOFLAGS=-buildvcs=false GOWORK=off go build -trimpath -o ../../bin/build-image .
	@rm -rf bin/image bin/image.sbom
	bin/build-image -o bin/image -version "$$STAMP_VERSION" -commit "$$STAMP_COMMIT" -created '$(CREATED)' -platforms '$(PLATFORMS)'

.PHONY: push
push: named image ## build the images and push them to a registry, without Docker: IMAGE=registry.example.com/platform/osm-gitops:v1.0.0
	@"$$(hack/tool crane)" push bin/image "$(IMAGE)"

# Before the image is built, which takes minutes.
.PHONY: named
named:
	@[[ "$(IMAGE)" =~ ^[^/]+/.+:[^/:]+$$ ]] || { \
		echo 'make push: IMAGE is "$(IMAGE)": set it to registry/name:tag, such as registry.example.com/platform/osm-gitops:v1.0.0' >&2; exit 2; }

.PHONY: demo
demo: compiler ## show it at work on a real control plane, from a commit to a node's user data
	@echo "demo: the first run takes up to 9 minutes on 2 cores, to compile; later ones about 10 seconds"
	@CGO_ENABLED=0 go run -trimpath -buildvcs=false ./test/demo # the flags of build: what is compiled for one serves the other

.PHONY: test
test: prerequisites ## run every test
	hack/test

.PHONY: race
race: prerequisites ## run the tests of cmd and pkg with the race detector
	hack/test -race

.PHONY: rehearse
rehearse: prerequisites ## boot machines with a profile of yours: PROFILE=file-or-folder POOL=file, see docs/rehearse.md
	@hack/rehearse "$(PROFILE)" "$(POOL)"

.PHONY: bench
bench: prerequisites ## measure rendering, following a repository beside the git command, and many pools beside a stand-in for operating-system-manager
	go test -run '^$$' -bench . -benchmem ./pkg/render/...
	@mkdir -p bin/bench && go build -o bin/bench/ ./test/bench/...
	bin/bench/git
	for token in bound shared; do bin/bench/pools -node-token $$token -apiserver-profiles bin/bench/apiserver-$$token; done
	bin/bench/pools -pools 10000 -parts create,rest,restart
	bin/bench/pools -pools 200 -parts create,nodes

FUZZTIME ?= 10m

.PHONY: fuzz
fuzz: prerequisites ## feed every decoder and encoder what strangers might write, FUZZTIME each (10m)
	FUZZTIME=$(FUZZTIME) hack/fuzz

SEED ?= 1
PERCENT ?= 20

.PHONY: mutate
mutate: prerequisites ## change operators of packages that decide, one at a time, and see that tests fail: SEED (1), PERCENT of lines (20), PACKAGES
	SEED=$(SEED) PERCENT=$(PERCENT) hack/mutate $(PACKAGES)

# Packages whose tests do more when OSM_SOAK=1.
SOAK ?= ./test/nodescripts ./test/bootnodes ./test/faults ./test/e2e/... ./test/platforms ./test/image ./examples/ci

.PHONY: soak
soak: export OSM_SOAK=1
soak: prerequisites ## run the long tests: every fault on nodes alone and on whole machines, power that fails at every command, crashes under 300 pools, the controller with the race detector and no right too many, images for two machines, the program for macOS, and the controllers of Flux
	hack/machines
	OSM_UNUSED_RIGHTS=$$(mktemp -d) go test -count=1 -timeout 4h $(SOAK)

.PHONY: docs
docs: compiler ## build the documentation as a static site in bin/site, every link and anchor checked
	go test ./docs -run TestAToZ -update
	go run ./docs/site . bin/site bin/a-to-z.md

.PHONY: lint
lint: prerequisites ## run the linters of .golangci.yml
	hack/lint

.PHONY: generate
generate: prerequisites ## derive deep copies and CustomResourceDefinitions from pkg/api
	hack/generate

.PHONY: verify
verify: prerequisites ## regenerate, check format, modules, vet and lint; fail where anything differs
	hack/verify
