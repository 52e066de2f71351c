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
	"github.com/seed-7879b91d/grpo/reward/fusion"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// Config is the reward as a run is told it. The zero value pays for all tests passed, in the strongest
// sandbox that this machine allows.
type Config struct {
	// Reward is correct, fraction, custom, or weights: those of Weights, as in "correct=1,format=0.1". Empty
	// is what the other fields say, and correct where they say nothing.
	Reward, Weights string
	// File is a Python file with compute_reward(completion: str, ground_truth: str) -> float.
	File        string
	OnTruncated Truncation
	Timeout     time.Duration
	MaxTests    int
	InfraLimit  int

	// Sandbox is auto (also ""): the Sandbox Fusion server of SANDBOX_URL where that is set, else cells
	// of this machine; local: cells, whatever the environment says; unsafe: cells, or plain processes
	// where this machine can isolate nothing.
	Sandbox string
	// URL names the server in place of SANDBOX_URL.
	URL string
	// Slots is how many programs run at once, and Python the interpreter; both have defaults.
	Slots  int
	Python string
}

// Backend says where the programs run. It goes into the record of a run.
type Backend struct {
	Kind string `json:"kind"` // local or fusion
	URL  string `json:"url,omitempty"`
	// Rung, Python, Version and Slots are those of local cells, and NotProtected what they leave open.
	Rung         string   `json:"rung,omitempty"`
	Python       string   `json:"python,omitempty"`
	Version      string   `json:"python_version,omitempty"`
	Slots        int      `json:"slots,omitempty"`
	NotProtected []string `json:"not_protected,omitempty"`
}

func (b Backend) String() string {
	if b.Kind == "fusion" {
		return "Sandbox Fusion at " + b.URL
	}
	return fmt.Sprintf("%s, %d slots, Python %s", b.Rung, b.Slots, b.Version)
}

// Open makes a judge with the sandbox it needs. Close gives that back.
func Open(ctx context.Context, cfg Config) (*Judge, error) {
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
	j.backend = backend
	return j, nil
}

// judge adds the cells for trusted code: checkers, and the reward file, loaded where there is one.
func (cfg Config) judge(ctx context.Context, rules Rules, options sandbox.Options, submissions closingRunner) (*Judge, error) {
	var custom Runner
	trusted := &lazyPool{options: options}
	if cfg.File != "" {
		source, err := os.ReadFile(cfg.File)
		if err != nil {
			return nil, badinput.Errorf("reward_file: %w", err)
		}
		if err := tryRewardFile(ctx, cfg.File, string(source), submissions); err != nil {
			return nil, err
		}
		trusted.options.Preload, custom = string(source), trusted
	}
	j := NewJudge(rules, submissions, trusted, custom)
	if j.custom != nil {
		j.custom.file = cfg.File
	}
	j.closers = []interface{ Close() error }{submissions, trusted}
	return j, nil
}

// rules are the part of the configuration that the judge itself knows.
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
	return r, errors.Join(err, r.Check())
}

// mode is the name of the reward.
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
	o = sandbox.Options{Slots: cfg.Slots, Python: cfg.Python}
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
	return o, nil
}

type closingRunner interface {
	Runner
	Close() error
}

// submissions opens the sandbox that programs of the model run in.
func (cfg Config) submissions(ctx context.Context, o sandbox.Options) (closingRunner, Backend, error) {
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

// tryRewardFile loads the file once, so that a mistake in it is found before anything is scored.
func tryRewardFile(ctx context.Context, name, source string, r Runner) error {
	const probe = "\n\ndef has_compute_reward():\n    return callable(globals().get('compute_reward'))\n"
	a, err := call(ctx, r, "", sandbox.Program{Code: source + probe, Call: "has_compute_reward"},
		sandbox.Limits{CPU: time.Minute})
	switch {
	case err != nil:
		return err
	case a.note != "":
		return badinput.Errorf("reward_file=%s cannot be loaded in the sandbox: %s", name, a.note)
	case a.value != true:
		return badinput.Errorf("reward_file=%s: found no function compute_reward(completion, ground_truth)", name)
	}
	return nil
}

// lazyPool opens a pool when something is run on it: most runs have nothing for it to do.
type lazyPool struct {
	options sandbox.Options

	once sync.Once
	pool *sandbox.Pool
	err  error
}

func (l *lazyPool) Run(ctx context.Context, group string, prog sandbox.Program, inputs []sandbox.Input, limits sandbox.Limits,
	each func(i int, r sandbox.Result) (more bool)) error {
	l.once.Do(func() { l.pool, l.err = sandbox.Open(context.WithoutCancel(ctx), l.options) })
	if l.err != nil {
		return l.err
	}
	return l.pool.Run(ctx, group, prog, inputs, limits, each)
}

// Close closes the pool where it was opened, and keeps it from being opened later.
func (l *lazyPool) Close() error {
	l.once.Do(func() { l.err = sandbox.ErrClosed })
	if l.pool == nil {
		return nil
	}
	return l.pool.Close()
}
