# grpo: `make` lists the targets and the tools that this machine has.

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

# found: arguments are a command, its description, what to do if it is missing, and a command that prints its version
define found
	if command -v $(1) >/dev/null 2>&1; then printf "  ✓ %-40s %s\n" "$(2)" "$$($(4) 2>&1 | head -n 1)"; \
	else printf "  ✗ %-40s %s\n" "$(2)" "$(3)"; fi
endef

# The GPU backend needs no toolkit: the driver's header is in the tree, and its folder is added to the usual CGO_CFLAGS.
# Go splits these at spaces, except in quotes.
HEADER = $(if $(word 2,$(CURDIR)),'-I$(CURDIR)/kernels/cuda/include',-I$(CURDIR)/kernels/cuda/include)
GPU = $(if $(findstring $(HEADER),$(CGO_CFLAGS)),,CGO_CFLAGS="$$($(GO) env CGO_CFLAGS) $(HEADER)")

# The packages whose files depend on the tag gpu: only these are vetted a second time.
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

test-card: # the packages above the kernels, on emulated cards
	$(GPU) $(GO) test -tags gpu -timeout 30m -run Card \
		$$(grep -rl --include='*_test.go' '^func Test.*Card' cmd internal model sampler | xargs -n1 dirname | sort -u | sed 's|^|./|')

.PHONY: rebuild
rebuild: ## go run really builds itself with the GPU backend if a driver answers
	GRPO_REBUILD=1 $(GO) test -count=1 -v -timeout 30m -run TestInEarnest ./internal/rebuild

smoke: ## the default run: held-out problems must be solved more often
	GRPO_SMOKE=1 $(GO) test -count=1 -v -run TestSmoke ./cmd/grpo

# The packages that start goroutines, tests included, or serve requests. go list fails for those of other modules, which are left out.
BESIDE = $$(grep -rlE --include=*.go '^\s*go [a-zA-Z]|[^a-zA-Z"`]go func|\.Go\(|\.Parallel\(\)|"net/http' . | xargs -n1 dirname | sort -u)

race: ## the race detector, on every package with goroutines and without C of its own
	$(GO) test -race -vet=off -timeout 30m $$($(GO) list -e -f '{{if not (or .CgoFiles .Error)}}{{.ImportPath}}{{end}}' $(BESIDE))

.PHONY: forms
forms: ## every variant, number of threads, signal and disk, of which tests take some by default
	GRPO_FORMS=all $(GO) test -count=1 -timeout 30m $$(grep -rl --include='*.go' 'internal/testvariants"' . | xargs -n1 dirname | sort -u)

kills: ## runs killed at KILLS (20: all) moments and resumed, byte for byte; PRESET=tiny_heal: that run, KILLS (10) times
ifdef PRESET
	GRPO_PRESET=$(PRESET) GRPO_WORDS="$(WORDS)" GRPO_KILLS=$(or $(KILLS),10) $(GO) test -count=1 -v -timeout 120m -run TestAPresetEndsAlike ./cmd/grpo
else
	GRPO_KILLS=$(or $(KILLS),20) $(GO) test -count=1 -v -timeout 60m \
		-run 'TestRunsEndAlike|TestResumedRuns|TestThePowerIsCut' . ./cmd/grpo
endif

.PHONY: sweeps
sweeps: ## a sweep of nine runs, killed three times: the same results as without
	GRPO_SWEEPS=1 $(GO) test -count=1 -v -timeout 60m -run TestSweepsEndAlike ./cmd/grpo

tinker: ## a Tinker session killed KILLS (20) times, and STEPS (150) of GRPO over the wire
	GRPO_TINKER_KILLS=$(or $(KILLS),20) $(GO) test -count=1 -v -timeout 30m -run TestASessionSurvivesKills ./internal/serving/tinker
	GRPO_TINKER_STEPS=$(or $(STEPS),150) $(GO) test -count=1 -v -timeout 60m -run TestALoopOverTheWire .

.PHONY: siege
siege: ## attacks on grpo serve: the table of docs/serve.md; some minutes
	GRPO_SIEGE=1 $(GO) test -count=1 -v -timeout 30m -run TestSiege ./cmd/grpo/serve/siege

.PHONY: load
load: ## CLIENTS (64) of all kinds against a server, with 50 requests each
	GRPO_LOAD=$(or $(CLIENTS),64) $(GO) test -count=1 -v -timeout 30m -run 'TestLoad$$' ./internal/serving

soak: ## REQUESTS (10000) to the sampler, PROGRAMS (20000) in the sandbox
	GRPO_SOAK=$(or $(REQUESTS),10000) $(GO) test -count=1 -v -timeout 60m -run TestSoak ./sampler
	GRPO_SANDBOX_FULL=$(or $(PROGRAMS),20000) $(GO) test -count=1 -v -timeout 90m \
		-run 'TestSoak|TestStableVerdicts|TestHostile|TestHonest|TestOrdinaryUser|TestSession' ./reward/sandbox

tools-soak: ## CALLS (10000) of a model's tools, with every hostile program
	GRPO_TOOLS_SOAK=$(or $(CALLS),10000) $(GO) test -count=1 -v -timeout 90m ./reward/tools

texts: ## TEXTS (1000000) random texts to the tokens of each tokenizer and back; every hostile template; schemas
	GRPO_TEXTS=$(or $(TEXTS),1000000) $(GO) test -count=1 -v -timeout 60m -run 'TestModels|TestHostile' ./data/chat/...
	GRPO_TEXTS=$(or $(TEXTS),1000000) $(GO) test -count=1 -v -timeout 60m ./internal/serving/grammar/...

scale: ## a data set of SIZE: full (2 GB) or tenth
	GRPO_SCALE=$(or $(SIZE),full) $(GO) test -count=1 -v -timeout 30m -run TestScale ./data/dataset

.PHONY: browse
browse: ## a record of completions of SIZE: full (2 GB) or tenth, plain and packed
	GRPO_BROWSE=$(or $(SIZE),full) $(GO) test -count=1 -v -timeout 30m -run TestBrowse ./internal/samples

parity: ## comparison with an independent float64 reference, and llama.cpp (SEED=1)
	./.ci/parity --seed $(or $(SEED),1)

.PHONY: clients
clients: ## grpo serve with the official clients of OpenAI's API, in Go and for Node.js
	./.ci/clients

.PHONY: environments
environments: ## runs with the tools of npm's MCP server, and with an OpenEnv server
	./.ci/environments

.PHONY: docs-run
docs-run: ## the commands of the pages as typed, in a fresh clone of what is committed; PAGE=runs.md: of one page
	GRPO_DOCS=$(or $(PAGE),all) $(GO) test -count=1 -v -timeout 60m -run TestThePagesAsTyped ./cmd/grpo

.PHONY: picture
picture: ## docs/images/report.png, the README's picture, of RUN (a new default run)
	./.ci/picture $(RUN)

.PHONY: page
page: ## all pages in a browser (chromium, Node.js); screenshots in build/page
	./.ci/page

arm64: ## the kernels on 64-bit Arm, cross-built and emulated
	./.ci/arm64

.PHONY: compiler
compiler: ## the kernels as COMPILER (clang) compiles them: the same bits
	GRPO_FORMS=all CC=$(or $(COMPILER),clang) $(GO) test -vet=off ./kernels/cpu

emulator: ## the emulated device, build/emu/libcuda.so.1; the path is the last line
	@$(GO) run ./kernels/cuda/emu/make build/emu/libcuda.so.1

ptx: ## compile the PTX of the CUDA kernels (clang-19)
	for f in kernels/cuda/src/*.cu; do ./.ci/ptx $$f kernels/cuda/ptx/$$(basename $$f .cu).ptx || exit 1; done

ptx-probe: ## compile the PTX of the emulated device's probe kernels (clang-19)
	for f in kernels/cuda/src/probe/*.cu; do ./.ci/ptx $$f $${f%.cu}.ptx || exit 1; done

fuzz: ## every fuzz target for FUZZTIME (10s) each
	./.ci/fuzz $(or $(FUZZTIME),10s)

bench: ## the hot paths, compared with the limits of this machine
	for path in gemm train prefill decode "decode --batch 32" "serve --batch 32 --long 0" sandbox step; do $(GO) run ./cmd/grpo bench $$path || exit 1; done

demo: build ## the default run with three seeds, and the README's table of it, in runs/demo
	mkdir -p runs/demo
	bin/grpo eval --samples 64 --out runs/demo/base.jsonl
	for seed in 0 1 2; do bin/grpo --quiet seed=$$seed run_dir=runs/demo/$$seed && \
		bin/grpo eval --run runs/demo/$$seed --samples 64 --out runs/demo/seed-$$seed.jsonl || exit 1; done
	$(GO) run ./internal/tiny/make -report runs/demo/base.jsonl runs/demo/seed-*.jsonl

tiny-model: ## make the model and the problems of the default run: some minutes
	$(GO) run ./internal/tiny/make

fmt: ## gofmt
	gofmt -w .

lint: ## gofmt, go vet and staticcheck, which must find nothing
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "gofmt would change:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GPU) $(GO) run $(STATICCHECK) -tags gpu $(OTHER_WITH_GPU)

check: ## what continuous integration runs
	./.ci/run
