// Package footprint computes the memory of a run before anything is loaded, compares it with what this process may use,
// and names the setting to change if it does not fit.
package footprint

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/optim"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Plan is the memory of a run, by purpose.
type Plan struct {
	Items   []Item
	Sampler sampler.Options // with the size of the KV cache
	Model   model.Options   // with the settings that were left open
	Why     string          // of the choices

	rooms rooms
	least int  // the smallest possible KV cache
	given bool // the size of the KV cache is set by the user
	files int  // memory of the model's mapped files
}

// Item is the memory for one purpose.
type Item struct {
	Name  string
	Bytes sides
}

// Run is the input of a plan.
type Run struct {
	*configs.Config
	Backend      kernels.Backend
	Dir          string // of the model
	MaxPrompt    int    // tokens of the longest prompt; 0: not known yet
	Trains       bool   // the policy is trained
	LocalSandbox bool   // sandboxes run on this machine
	Loaded       bool   // the model's weights are loaded already
	ScoringOnly  bool   // no sampling: MaxPrompt is the longest sequence

	sketch *sketch // shared between plans; nil: each plan makes its own
}

// sketch is the part of a plan that does not depend on batch size and recompute.
type sketch struct {
	ledger *kernels.Ledger
	policy *model.Policy // nil: not made yet
	items  []Item        // weights, adapter and moments
}

// ModelOptions are the model's options in a configuration: batches, precision and quantisation.
func ModelOptions(cfg *configs.Config) (o model.Options, err error) {
	o.MaxRows, o.SharePrefixes = cfg.MaxRows, cfg.SharePrefixes
	if cfg.Recompute != "" && cfg.Recompute != "auto" {
		if err = o.Recompute.Set(cfg.Recompute); err != nil {
			return o, badinput.Errorf("recompute: %w", err)
		}
	}
	if o.Precision, err = model.ParsePrecision(cfg.Precision); err != nil {
		return o, badinput.Errorf("precision: %w", err)
	}
	if o.Cache, err = model.ParseCache(cfg.KVCacheDtype); err != nil {
		return o, badinput.Errorf("kv_cache_dtype: %w", err)
	}
	if o.AdapterPrecision, err = model.ParseCache(cfg.AdapterPrecision); err != nil {
		return o, badinput.Errorf("adapter_precision: %w", err)
	}
	if o.Quantise, err = model.ParseQuantisation(cfg.Quantize); err != nil {
		err = badinput.Errorf("quantize: %w", err)
	}
	return o, err
}

// Record replaces auto in a configuration by what was chosen.
func Record(cfg *configs.Config, o model.Options) {
	cfg.Precision, cfg.KVCacheDtype, cfg.AdapterPrecision = o.Precision.String(), o.Cache.String(), o.AdapterPrecision.String()
}

// plan computes the memory with all settings given. The run's own allocations are made on a ledger in place of the
// backend.
func (r Run) plan(rooms rooms) (p *Plan, err error) {
	p = &Plan{rooms: rooms}
	if p.Model, err = ModelOptions(r.Config); err != nil {
		return nil, err
	}
	p.Model.Frozen = !r.Trains
	l, policy, err := r.sketched(p)
	if err != nil {
		return nil, err
	}
	if rooms[p.host()].Mapped && !r.Loaded {
		p.files = filesOf(r.Dir)
	}
	length := min(max(r.MaxPrompt, 1)+r.mostDrawn(), policy.MaxPositions)
	work := policy.Work(length, r.Trains)
	if work.Sequences = r.MaxSequences; work.Sequences == 0 {
		work.Sequences = sampler.UsualSequences
	}
	if r.SharePrefixes { // how many rows sharing saves is unknown
		work.Trees = r.mostCompletions()
		if r.ScoringOnly {
			work.Trees = 2 * r.RowsPerStep
		}
	}
	if r.Trains {
		training, scoring, err := policy.Prepare(length)
		if err != nil {
			return nil, err
		}
		p.add("activations", training, 0)
		p.add("scorer", scoring, 0)
		bytes, host := l.Take()
		p.add("batches", bytes-training-scoring+l.WorkSize(work), host)
	}
	p.addOthers(r, length)
	if r.Trains && r.Serve != "" {
		if err := r.addServing(p, l, policy); err != nil {
			return nil, err
		}
	}
	if !r.ScoringOnly {
		if err := r.sampler(p, l, policy, length); err != nil {
			return nil, err
		}
	}
	if !r.Trains {
		p.add("batches", l.WorkSize(work), 0)
	}
	return p, nil
}

// sketched adds the part of a plan that does not depend on the batch size, and returns the model.
func (r Run) sketched(p *Plan) (l *kernels.Ledger, policy *model.Policy, err error) {
	s := r.sketch
	if s != nil && s.policy != nil {
		s.policy.Again(p.Model)
		s.ledger.Take()
		p.Items = slices.Clone(s.items)
		return s.ledger, s.policy, nil
	}
	l = kernels.NewLedger(r.Backend)
	if policy, err = model.Sketch(l, r.Dir, r.Train == "full", p.Model); err != nil {
		return nil, nil, err
	}
	if r.Loaded {
		l.Take()
	} else {
		p.take("weights", l)
	}
	if err := r.learner(p, l, policy); err != nil {
		return nil, nil, err
	}
	if s != nil {
		*s = sketch{l, policy, slices.Clone(p.Items)}
	}
	return l, policy, nil
}

// mostCompletions is the most completions of a step.
func (r Run) mostCompletions() int {
	n := r.PromptsPerStep * r.CompletionsPerPrompt * (1 + r.MaxRefills)
	if r.Autopilot { // which may double them
		n *= 2
	}
	return n
}

// learner adds what is trained, with a copy on the host for saving, and Adam's moments.
func (r Run) learner(p *Plan, l *kernels.Ledger, policy *model.Policy) error {
	if r.Train != "full" {
		layout, err := AdapterLayout(r.Config, policy.LoRADims())
		if err != nil {
			return err
		}
		if err := policy.Attach(&lora.Adapter{Layout: layout}); err != nil {
			return err
		}
		bytes, host := l.Take()
		p.add("adapter", bytes, host+kernels.F32.Size()*layout.Len())
	}
	if !r.Trains {
		return nil
	}
	params, grads, locate := policy.Slabs()
	_, err := optim.NewAdam(l, params, grads, optim.Defaults(), locate)
	p.take("moments", l)
	return err
}

// Estimates of what is not allocated by this program's backends: a Python interpreter with a typical program, and the Go heap for
// problems, waiting completions, and the history of the run when its report is drawn.
const (
	cellBytes       = 64 << 20
	problemBytes    = 60 << 20
	completionBytes = 20 << 10
	tokenBytes      = 32
	leastReport     = 96 << 20
)

// report is the Go heap for a step with all its completions.
func (r Run) report(length int) int {
	if r.ScoringOnly || !r.Trains {
		return leastReport
	}
	return max(leastReport, problemBytes+r.PromptsPerStep*r.CompletionsPerPrompt*(completionBytes+tokenBytes*length))
}

func (p *Plan) addOthers(r Run, length int) {
	if r.LocalSandbox {
		p.add("sandbox", 0, r.slots()*cellBytes)
	}
	p.add("report", 0, r.report(length))
	if p.host() == host {
		p.add("transfers", 0, driver.PinnedBytes)
	}
}

// slots is how many sandboxes run at once.
func (r Run) slots() int {
	slots, err := strconv.Atoi(os.Getenv("SANDBOX_MAX_CONCURRENCY"))
	switch {
	case r.SandboxSlots > 0:
		return r.SandboxSlots
	case err != nil || slots < 1:
		return runtime.NumCPU()
	}
	return slots
}

// sampler adds the sampler and its KV cache. If the size of the cache is not set, it is half of what is left.
func (r Run) sampler(p *Plan, l *kernels.Ledger, policy *model.Policy, length int) error {
	o := sampler.Options{MaxSequences: r.MaxSequences, MaxLength: length, TokenBudget: r.TokenBudget, CacheBytes: int64(r.CacheMemory),
		NoDrafts: !r.Speculate}
	smallest := o
	smallest.CacheBytes, smallest.Free = 0, 1
	least, err := sampler.NewPlan(policy, smallest)
	if err != nil {
		return err
	}
	p.add("drafts", 0, least.DraftBytes())
	p.least, p.given = int(least.CacheBytes), o.CacheBytes > 0
	if p.given && o.CacheBytes < least.CacheBytes {
		return badinput.Errorf("cache_memory: found %v, and one sequence of %d tokens takes %v; raise it, or leave it out",
			r.CacheMemory, length, configs.Bytes(least.CacheBytes))
	}
	switch {
	case p.given: // checked against the free memory here
		o.Free = math.MaxInt64
	case p.rooms[device].known:
		o.Free = max(p.rooms[device].Bytes-int64(p.total(device)), 1)
	}
	e, err := sampler.NewPlan(policy, o)
	if err != nil {
		return err
	}
	if _, err := policy.NewDecoder(e.Decoder()); err != nil {
		return err
	}
	bytes, host := l.Take()
	p.add("cache", int(e.CacheBytes), 0)
	p.add("sampler", bytes-int(e.CacheBytes), host)
	p.Sampler = o
	p.Sampler.CacheBytes = e.CacheBytes
	return nil
}

// take adds what a ledger has recorded.
func (p *Plan) take(name string, l *kernels.Ledger) {
	bytes, host := l.Take()
	p.add(name, bytes, host)
}

// add adds memory of the backend, and of the host.
func (p *Plan) add(name string, bytes, onHost int) {
	item := Item{Name: name}
	item.Bytes[device] = bytes
	item.Bytes[p.host()] += onHost
	p.Items = append(p.Items, item)
}

// BytesOf is the memory for one purpose.
func (p *Plan) BytesOf(name string) int {
	i := slices.IndexFunc(p.Items, func(i Item) bool { return i.Name == name })
	if i < 0 {
		return 0
	}
	return p.Items[i].Bytes[device] + p.Items[i].Bytes[host]
}

// filesOf is the size of a model's weight files.
func filesOf(dir string) (bytes int) {
	paths, _ := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			bytes += int(info.Size())
		}
	}
	return bytes
}
