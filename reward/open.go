package reward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/reward/assertion"
	"github.com/seed-7879b91d/grpo/reward/fusion"
	"github.com/seed-7879b91d/grpo/reward/referee"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// Config is the reward as a run configures it. The zero value rewards programs that pass all tests, in the
// strongest sandbox that this machine allows.
type Config struct {
	// Reward is correct, fraction, custom, or weights: those of Weights, as in "correct=1,format=0.1". If empty it
	// follows from the other fields; by default it is correct.
	Reward, Weights string
	// File is a Python file with compute_reward(completion: str, ground_truth: str, **columns) -> float, and FilePython
	// its interpreter; empty: that of programs.
	File       string
	FilePython string
	// Judge is the judge model; without a URL there is none.
	Judge       referee.Config
	OnTruncated Truncation
	Timeout     time.Duration
	MaxTests    int
	InfraLimit  int
	// Answers says that no problem asks for a program: then a sandbox is needed for File only.
	Answers bool

	// Sandbox is auto (also ""): the Sandbox Fusion server of SANDBOX_URL where that is set, else cells
	// of this machine; local: cells, whatever the environment says; unsafe: cells, or plain processes
	// where this machine can isolate nothing.
	Sandbox string
	// URL is the server, instead of SANDBOX_URL.
	URL string
	// Slots is how many programs run at once, and Python the interpreter; both have defaults.
	Slots  int
	Python string
	// Sessions is the number of interpreters that conversations may hold at once (docs/tools.md); 0 is four for each slot.
	Sessions int
}

// Backend describes where programs run, for the manifest of a run.
type Backend struct {
	Kind string `json:"kind"` // local or fusion, or none if no problem asks for a program
	URL  string `json:"url,omitempty"`
	// Rung, Python, Version and Slots are those of local cells, and NotProtected what they leave open.
	Rung         string   `json:"rung,omitempty"`
	Python       string   `json:"python,omitempty"`
	Version      string   `json:"python_version,omitempty"`
	Slots        int      `json:"slots,omitempty"`
	NotProtected []string `json:"not_protected,omitempty"`
}

func (b Backend) String() string {
	switch b.Kind {
	case "fusion":
		return "Sandbox Fusion at " + b.URL
	case "none":
		return "none: the problems want no programs"
	}
	return fmt.Sprintf("%s, %s, Python %s", b.Rung, plural.Of(b.Slots, "slot"), b.Version)
}

// Open makes a judge and the sandboxes it needs. Close closes them.
func Open(ctx context.Context, cfg Config) (*Judge, error) {
	precondition.NotNil("reward.Open", "ctx", ctx)
	rules, err := cfg.rules()
	if err != nil {
		return nil, err
	}
	options, err := cfg.Cells()
	if err != nil {
		return nil, err
	}
	submissions, backend, err := cfg.submissions(ctx, options)
	if err != nil {
		return nil, err
	}
	j, err := cfg.judge(ctx, rules, options, submissions)
	if err != nil {
		return nil, errors.Join(err, submissions.Close())
	}
	if j.backend = backend; cfg.Judge.URL != "" {
		if j.referee, err = newRefereed(cfg.Judge); err != nil {
			return nil, errors.Join(err, j.Close())
		}
	}
	return j, nil
}

// judge makes the judge, with cells for trusted code: checkers and the reward file.
func (cfg Config) judge(ctx context.Context, rules Rules, options sandbox.Options, submissions closingRunner) (*Judge, error) {
	trusted := &lazyPool{options: options}
	programs, asserts := assertion.Cells(options)
	asserted, asserting := &lazyPool{options: programs}, &lazyPool{options: asserts} // kept apart from cells that conversations hold
	if cfg.File == "" {
		j := NewJudge(rules, submissions, trusted, nil)
		j.closers = []interface{ Close() error }{submissions, trusted, asserted, asserting}
		j.tester.assertions = assertion.New(asserted.open, asserting.open)
		return j, nil
	}
	customs, takes, err := cfg.openFile(ctx, options, submissions)
	if err != nil {
		return nil, err
	}
	if cfg.FilePython == "" {
		trusted = customs // same interpreter: the same cells serve both
	}
	j := NewJudge(rules, submissions, trusted, customs)
	j.custom.file, j.custom.takes = cfg.File, takes
	j.closers = []interface{ Close() error }{submissions, trusted, customs, asserted, asserting}
	j.tester.assertions = assertion.New(asserted.open, asserting.open)
	return j, nil
}

// rules are the Rules of the configuration.
func (cfg Config) rules() (r Rules, err error) {
	r = Rules{OnTruncated: cfg.OnTruncated, Timeout: cfg.Timeout, MaxTests: cfg.MaxTests, InfraLimit: cfg.InfraLimit}
	switch mode := cfg.mode(); {
	case mode == "binary":
		err = badinput.Errorf("reward=binary is called correct; type correct")
	case mode == "weights" && cfg.Weights == "":
		err = badinput.Errorf("reward_weights: reward=weights needs them, as in correct=1,format=0.1")
	case mode == "weights":
		r.Weights, err = ParseWeights(cfg.Weights)
	case cfg.Weights != "":
		err = badinput.Errorf("reward_weights: reward=%s does not use them; type weights, or leave them out", mode)
	default:
		r.Weights, err = ModeWeights(mode)
	}
	if err == nil && r.Weights.Custom != 0 && cfg.File == "" {
		err = badinput.Errorf("the custom reward has weight %g, but no reward_file= names a Python file with compute_reward(completion, "+
			"ground_truth)", r.Weights.Custom)
	}
	switch {
	case err != nil:
	case r.Weights.Judge != 0 && cfg.Judge.URL == "":
		err = badinput.Errorf("the judge has weight %g, but no judge_url= names the endpoint of a model", r.Weights.Judge)
	case r.Weights.Judge == 0 && cfg.Judge.URL != "":
		err = badinput.Errorf("judge_url: no weight uses the judge; type reward=weights reward_weights=judge=1, or leave it out")
	}
	return r, errors.Join(err, r.Check())
}

// mode is the name of the reward, with the default filled in.
func (cfg Config) mode() string {
	switch {
	case cfg.Reward != "":
		return cfg.Reward
	case cfg.Weights != "":
		return "weights"
	case cfg.File != "":
		return "custom"
	}
	return "correct"
}

// Cells are the options of local cells.
func (cfg Config) Cells() (o sandbox.Options, err error) {
	o = sandbox.Options{Slots: cfg.Slots, Sessions: cfg.Sessions, Python: cfg.Python}
	switch cfg.Sandbox {
	case "", "auto", "local":
	case "unsafe":
		o.Unsafe = true
	default:
		return o, badinput.Errorf("sandbox=%s: expected auto, local or unsafe", cfg.Sandbox)
	}
	if cfg.Slots < 0 {
		return o, badinput.Errorf("sandbox_slots=%d: expected 0 for one per processor, or more", cfg.Slots)
	}
	if cfg.Sessions < 0 {
		return o, badinput.Errorf("sessions=%d: expected 0 for four for each slot, or more", cfg.Sessions)
	}
	return o, nil
}

type closingRunner interface {
	Runner
	Close() error
}

// submissions opens the sandbox for programs of the model.
func (cfg Config) submissions(ctx context.Context, o sandbox.Options) (closingRunner, Backend, error) {
	if cfg.Answers {
		return &lazyPool{options: o}, Backend{Kind: "none"}, nil
	}
	auto := cfg.Sandbox == "" || cfg.Sandbox == "auto"
	if url := cmp.Or(cfg.URL, os.Getenv("SANDBOX_URL")); url != "" && auto {
		client, err := fusion.New(fusion.Options{URL: url, Concurrency: cfg.Slots})
		if err != nil {
			return nil, Backend{}, err
		}
		return client, Backend{Kind: "fusion", URL: client.URL()}, client.Ping(ctx)
	}
	pool, err := sandbox.Open(ctx, o)
	if err != nil {
		return nil, Backend{}, err
	}
	r := pool.Isolation()
	b := Backend{Kind: "local", Rung: r.Rung.String(), Python: r.Python, Version: r.Version, Slots: r.Slots,
		NotProtected: r.NotProtected}
	return pool, b, nil
}

// lazyPool opens a pool on first use: most runs never need it.
type lazyPool struct {
	options sandbox.Options

	mu     sync.Mutex
	opened bool // pool or err is final
	pool   *sandbox.Pool
	err    error
}

func (l *lazyPool) Run(ctx context.Context, group string, prog sandbox.Program, inputs []sandbox.Input, limits sandbox.Limits,
	each func(i int, r sandbox.Result) (more bool)) error {
	pool, err := l.open(ctx)
	if err != nil {
		return err
	}
	return pool.Run(ctx, group, prog, inputs, limits, each)
}

// open opens the pool. If the caller's context ends meanwhile, as by ^C while a reward file loads, the next caller tries again.
func (l *lazyPool) open(ctx context.Context) (*sandbox.Pool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.opened {
		pool, err := sandbox.Open(ctx, l.options)
		if err != nil && ctx.Err() != nil {
			return nil, err
		}
		l.opened, l.pool, l.err = true, pool, err
	}
	return l.pool, l.err
}

// Close closes the pool if it is open, and keeps it from being opened later.
func (l *lazyPool) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.opened {
		l.opened, l.err = true, sandbox.ErrClosed
	}
	if l.pool == nil {
		return nil
	}
	return l.pool.Close()
}
