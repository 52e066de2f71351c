# grpo: `make` tells what there is to do and what this machine has.

GO ?= go
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
.DEFAULT_GOAL := help
.PHONY: help build test race kills soak tools-soak texts scale parity arm64 fuzz bench tinker fmt lint check tiny-model smoke demo emulator ptx ptx-probe

help: ## this list
	@echo "Targets"
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "This machine"
	@$(call found,$(GO),go (needed),install Go 1.26 or newer, $(GO) version)
	@$(call found,gcc,C compiler (needed),apt-get install gcc, gcc --version)
	@$(call found,python3,python3 (runs what models write),apt-get install python3, python3 --version)

# found: a command, what it is, what to do without it, how it names its version
define found
	if command -v $(1) >/dev/null 2>&1; then printf "  ✓ %-40s %s\n" "$(2)" "$$($(4) 2>&1 | head -n 1)"; \
	else printf "  ✗ %-40s %s\n" "$(2)" "$(3)"; fi
endef

# The GPU backend needs no toolkit: cgo finds the header of the driver here, beside the flags that it has anyway.
# Go splits its flags at spaces, but for what is in quotes.
HEADER = $(if $(word 2,$(CURDIR)),'-I$(CURDIR)/kernels/cuda/include',-I$(CURDIR)/kernels/cuda/include)
GPU = $(if $(findstring $(HEADER),$(CGO_CFLAGS)),,CGO_CFLAGS="$$($(GO) env CGO_CFLAGS) $(HEADER)")

# The packages that have other files with the backend than without it: the others are read once.
OTHER_WITH_GPU = $$(grep -rl --include='*.go' '^//go:build .*gpu' . | xargs -n1 dirname | sort -u)

build: ## the command with the GPU backend, as bin/grpo; it starts on any machine
	$(GPU) $(GO) build -tags gpu -o bin/grpo ./cmd/grpo

test: ## all tests
	$(GO) test ./...
	$(GPU) $(GO) vet -tags gpu $(OTHER_WITH_GPU)
	@$(MAKE) --no-print-directory -j2 -Otarget test-cuda test-card

.PHONY: test-cuda test-card
test-cuda: # the kernels on the emulated device, which keeps one core busy
	$(GPU) $(GO) test -tags gpu -timeout 30m ./kernels/cuda/... ./kernels/device

test-card: # what stands on them, on emulated cards
	$(GPU) $(GO) test -tags gpu -timeout 30m -run Card \
		$$(grep -rl --include='*_test.go' '^func Test.*Card' cmd internal model sampler | xargs -n1 dirname | sort -u | sed 's|^|./|')

.PHONY: rebuild
rebuild: ## go run builds itself with the GPU backend where a driver answers, in earnest
	GRPO_REBUILD=1 $(GO) test -count=1 -v -timeout 30m -run TestInEarnest ./internal/rebuild

smoke: ## the default run: held-out problems must be solved more often
	GRPO_SMOKE=1 $(GO) test -count=1 -v -run TestSmoke ./cmd/grpo

# The packages that begin goroutines, tests included, or answer requests; a client's module of its own is none of ours.
BESIDE = $$(grep -rlE --include=*.go '^\s*go [a-zA-Z]|[^a-zA-Z"`]go func|\.Go\(|\.Parallel\(\)|"net/http' . | xargs -n1 dirname | sort -u)

race: ## the race detector, on every package with goroutines and without C of its own
	$(GO) test -race -vet=off -timeout 30m $$($(GO) list -e -f '{{if not (or .CgoFiles .Error)}}{{.ImportPath}}{{end}}' $(BESIDE))

.PHONY: forms
forms: ## every variant, number of threads, signal and disk that a test usually takes some of
	GRPO_FORMS=all $(GO) test -count=1 -timeout 30m $$(grep -rl --include='*.go' 'internal/forms"' . | xargs -n1 dirname | sort -u)

kills: ## runs cut off at KILLS (20: all) moments and resumed, byte for byte; PRESET=tiny_heal: that run, KILLS (10) times
ifdef PRESET
	GRPO_PRESET=$(PRESET) GRPO_WORDS="$(WORDS)" GRPO_KILLS=$(or $(KILLS),10) $(GO) test -count=1 -v -timeout 120m -run TestAPresetEndsAlike ./cmd/grpo
else
	GRPO_KILLS=$(or $(KILLS),20) $(GO) test -count=1 -v -timeout 60m \
		-run 'TestRunsEndAlike|TestResumedRuns|TestThePowerIsCut' . ./cmd/grpo
endif

.PHONY: sweeps
sweeps: ## a sweep of nine runs, killed three times, beside one that was not: the same results
	GRPO_SWEEPS=1 $(GO) test -count=1 -v -timeout 60m -run TestSweepsEndAlike ./cmd/grpo

tinker: ## a Tinker session killed KILLS (20) times, and STEPS (150) of GRPO over the wire
	GRPO_TINKER_KILLS=$(or $(KILLS),20) $(GO) test -count=1 -v -timeout 30m -run TestASessionSurvivesKills ./internal/serving/tinker
	GRPO_TINKER_STEPS=$(or $(STEPS),150) $(GO) test -count=1 -v -timeout 60m -run TestALoopOverTheWire .

.PHONY: siege
siege: ## what may be done to grpo serve to bring it down: the table of docs/serve.md; some minutes
	GRPO_SIEGE=1 $(GO) test -count=1 -v -timeout 30m -run TestSiege ./cmd/grpo/serve/siege

.PHONY: load
load: ## CLIENTS (64) of all kinds at a server, with 50 requests each
	GRPO_LOAD=$(or $(CLIENTS),64) $(GO) test -count=1 -v -timeout 30m -run 'TestLoad$$' ./internal/serving

soak: ## REQUESTS (10000) to the sampler, PROGRAMS (20000) in the sandbox
	GRPO_SOAK=$(or $(REQUESTS),10000) $(GO) test -count=1 -v -timeout 60m -run TestSoak ./sampler
	GRPO_SANDBOX_FULL=$(or $(PROGRAMS),20000) $(GO) test -count=1 -v -timeout 90m \
		-run 'TestSoak|TestStableVerdicts|TestHostile|TestHonest|TestOrdinaryUser|TestSession' ./reward/sandbox

tools-soak: ## CALLS (10000) of the tools of a model, with every hostile program
	GRPO_TOOLS_SOAK=$(or $(CALLS),10000) $(GO) test -count=1 -v -timeout 90m ./reward/tools

texts: ## TEXTS (1000000) random texts to the tokens of each tokenizer and back; every hostile template; schemas
	GRPO_TEXTS=$(or $(TEXTS),1000000) $(GO) test -count=1 -v -timeout 60m -run 'TestModels|TestHostile' ./data/chat/...
	GRPO_TEXTS=$(or $(TEXTS),1000000) $(GO) test -count=1 -v -timeout 60m ./internal/serving/grammar/...

scale: ## a data set of SIZE: full (2 GB) or tenth
	GRPO_SCALE=$(or $(SIZE),full) $(GO) test -count=1 -v -timeout 30m -run TestScale ./data/dataset

.PHONY: browse
browse: ## a record of completions of SIZE: full (2 GB) or tenth, plain and packed
	GRPO_BROWSE=$(or $(SIZE),full) $(GO) test -count=1 -v -timeout 30m -run TestBrowse ./internal/samples

parity: ## beside an independent float64 reference, and llama.cpp (SEED=1)
	./.ci/parity --seed $(or $(SEED),1)

.PHONY: clients
clients: ## grpo serve and the official clients of OpenAI's API, in Go and for Node.js
	./.ci/clients

.PHONY: environments
environments: ## runs with the tools of npm's MCP server, and against a server of OpenEnv's protocol
	./.ci/environments

.PHONY: docs-run
docs-run: ## the commands of the pages as typed, in a fresh clone of what is committed; PAGE=runs.md: of one page
	GRPO_DOCS=$(or $(PAGE),all) $(GO) test -count=1 -v -timeout 60m -run TestThePagesAsTyped ./cmd/grpo

.PHONY: picture
picture: ## docs/images/report.png, the README's picture, of RUN (the default run, made now)
	./.ci/picture $(RUN)

.PHONY: page
page: ## all pages in a browser (chromium, Node.js); pictures in build/page
	./.ci/page

arm64: ## the kernels on 64-bit Arm, cross-built and emulated
	./.ci/arm64

.PHONY: compiler
compiler: ## the kernels as COMPILER (clang) compiles them: the same bits
	GRPO_FORMS=all CC=$(or $(COMPILER),clang) $(GO) test -vet=off ./kernels/cpu

emulator: ## the emulated device, build/emu/libcuda.so.1; the path is the last line
	@$(GO) run ./kernels/cuda/emu/make build/emu/libcuda.so.1

ptx: ## the PTX of the CUDA kernels, anew (clang-19)
	for f in kernels/cuda/src/*.cu; do ./.ci/ptx $$f kernels/cuda/ptx/$$(basename $$f .cu).ptx || exit 1; done

ptx-probe: ## the PTX of the emulated device's probe kernels, anew (clang-19)
	for f in kernels/cuda/src/probe/*.cu; do ./.ci/ptx $$f $${f%.cu}.ptx || exit 1; done

fuzz: ## every fuzz target for FUZZTIME (10s) each
	./.ci/fuzz $(or $(FUZZTIME),10s)

bench: ## the hot paths beside the limits of this machine
	for path in gemm train prefill decode "decode --batch 32" "serve --batch 32 --long 0" sandbox step; do $(GO) run ./cmd/grpo bench $$path || exit 1; done

demo: build ## the default run with three seeds, and the README's table of it, in runs/demo
	mkdir -p runs/demo
	bin/grpo eval --samples 64 --out runs/demo/base.jsonl
	for seed in 0 1 2; do bin/grpo --quiet seed=$$seed run_dir=runs/demo/$$seed && \
		bin/grpo eval --run runs/demo/$$seed --samples 64 --out runs/demo/seed-$$seed.jsonl || exit 1; done
	$(GO) run ./internal/tiny/make -report runs/demo/base.jsonl runs/demo/seed-*.jsonl

tiny-model: ## the model and the problems of the default run, anew: some minutes
	$(GO) run ./internal/tiny/make

fmt: ## gofmt
	gofmt -w .

lint: ## gofmt, go vet and staticcheck, which have nothing to say
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "gofmt would change:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GPU) $(GO) run $(STATICCHECK) -tags gpu $(OTHER_WITH_GPU)

check: ## what continuous integration runs
	./.ci/run
