// Package footprint knows what a run will hold in memory before anything of it is loaded, compares that with what this
// process may still take, and names the setting to change where it does not fit.
package footprint

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/memory"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/optim"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Plan is the memory of a run, by what it is for.
type Plan struct {
	Items   []Item
	Sampler sampler.Options // with the size of the cache

	room  memory.Room
	known bool // whether room is
	least int  // the smallest cache that the run can have
	given bool // the size of the cache is
	files int  // what the files of the model take while they are mapped
}

// Item is one purpose.
type Item struct {
	Name  string
	Bytes int
}

// Run is what a plan is made for.
type Run struct {
	*configs.Config
	Backend kernels.Backend
	Dir     string // of the model
	Prompt  int    // tokens of the longest prompt; 0: not known yet
	Learns  bool   // the policy is trained, not only asked
	Cells   bool   // programs run on this machine
}

// ModelOptions are what a configuration says of batches and precision.
func ModelOptions(cfg *configs.Config) (o model.Options, err error) {
	o.MaxRows, o.SharePrefixes = cfg.MaxRows, cfg.SharePrefixes
	if cfg.Recompute == "blocks" {
		o.Recompute = model.RecomputeBlocks
	}
	if o.Precision, err = model.ParsePrecision(cfg.Precision); err != nil {
		return o, badinput.Errorf("precision: %w", err)
	}
	if o.Cache, err = model.ParseCache(cfg.KVCacheDtype, o.Precision); err != nil {
		err = badinput.Errorf("kv_cache_dtype: %w", err)
	}
	return o, err
}

// AdapterLayout is where the numbers of the adapter lie that a configuration asks for.
func AdapterLayout(cfg *configs.Config, d lora.Dims) (*lora.Layout, error) {
	targets, err := lora.ParseTargets(cfg.LoRATargets)
	if err != nil {
		return nil, err
	}
	return lora.NewLayout(lora.Config{Rank: cfg.LoRARank, Alpha: cfg.LoRAAlpha, Targets: targets}, d)
}

// CheckAdapter refuses an adapter that the run cannot start from: one of another shape than its settings say, or of
// another model. It reads no weights.
func CheckAdapter(cfg *configs.Config, d lora.Dims) error {
	layout, err := AdapterLayout(cfg, d)
	if err != nil {
		return err
	}
	has, err := lora.Check(cfg.Adapter, d)
	if err != nil {
		return badinput.Errorf("adapter: %w", err)
	}
	wants := layout.Config
	given, err := lora.NewLayout(has, d)
	if err != nil || given.Len() != layout.Len() || given.Scale() != layout.Scale() {
		return badinput.Errorf("adapter %s has rank %d, alpha %v and targets %v; the configuration says rank %d, alpha %v and targets %v; "+
			"type lora_rank=%d lora_alpha=%v lora_targets=%s", cfg.Adapter, has.Rank, has.Alpha, has.Targets, wants.Rank, wants.Alpha,
			wants.Targets, has.Rank, has.Alpha, names(has.Targets))
	}
	return nil
}

func names(targets []lora.Target) string {
	all := make([]string, len(targets))
	for i, t := range targets {
		all[i] = t.String()
	}
	return strings.Join(all, ",")
}

// Of plans a run, and refuses what does not fit. The sizes are those of the allocations that the run makes: everything
// is opened on a ledger in place of the backend.
func Of(r Run) (*Plan, error) {
	room, known := r.Backend.Free()
	p, err := r.plan(room, known)
	if err != nil || p.fits() {
		return p, err
	}
	return nil, r.refuse(p)
}

func (r Run) plan(room memory.Room, known bool) (*Plan, error) {
	p := &Plan{room: room, known: known}
	l := kernels.NewLedger(r.Backend)
	o, err := ModelOptions(r.Config)
	if err != nil {
		return nil, err
	}
	policy, err := model.Sketch(l, r.Dir, r.Train == "full", o)
	if err != nil {
		return nil, err
	}
	p.add("weights", l.Take())
	if room.Mapped {
		p.files = filesOf(r.Dir)
	}
	if err := r.learner(p, l, policy); err != nil {
		return nil, err
	}
	length := min(max(r.Prompt, 1)+r.MaxTokens, policy.MaxPositions)
	work := policy.Work(length, r.Learns)
	if r.SharePrefixes { // by how much rows become fewer nobody knows
		work.Trees = r.PromptsPerStep * r.CompletionsPerPrompt * (1 + r.MaxRefills)
	}
	if r.Learns {
		training, scoring, err := policy.Prepare(length)
		if err != nil {
			return nil, err
		}
		p.add("activations", training)
		p.add("scorer", scoring)
		p.add("batches", l.Take()-training-scoring+l.WorkSize(work))
	}
	p.rest(r)
	if err := r.sampler(p, l, policy, length); err != nil {
		return nil, err
	}
	if !r.Learns {
		p.add("batches", l.WorkSize(work))
	}
	return p, nil
}

// learner adds what is trained, with a copy on the host where it is saved from, and the moments of Adam.
func (r Run) learner(p *Plan, l *kernels.Ledger, policy *model.Policy) error {
	if r.Train != "full" {
		layout, err := AdapterLayout(r.Config, policy.LoRADims())
		if err != nil {
			return err
		}
		if err := policy.Attach(&lora.Adapter{Layout: layout}); err != nil {
			return err
		}
		p.add("adapter", l.Take()+kernels.F32.Size()*layout.Len())
	}
	if !r.Learns {
		return nil
	}
	params, grads, locate := policy.Slabs()
	_, err := optim.NewAdam(l, params, grads, optim.Defaults(), locate)
	p.add("moments", l.Take())
	return err
}

// What is not allocated by us, and can only be allowed for: an interpreter with a usual program in it, and what the Go
// side holds of problems, completions and the run's history when it draws the report.
const (
	cellBytes   = 64 << 20
	reportBytes = 96 << 20
)

func (p *Plan) rest(r Run) {
	if r.Cells {
		slots, err := strconv.Atoi(os.Getenv("SANDBOX_MAX_CONCURRENCY"))
		if r.SandboxSlots > 0 {
			slots = r.SandboxSlots
		} else if err != nil || slots < 1 {
			slots = runtime.NumCPU()
		}
		p.add("sandbox", slots*cellBytes)
	}
	p.add("report", reportBytes)
}

// sampler adds the sampler and its cache, of which a size that is not given is half of what is left.
func (r Run) sampler(p *Plan, l *kernels.Ledger, policy *model.Policy, length int) error {
	o := sampler.Options{MaxSequences: r.MaxSequences, MaxLength: length, TokenBudget: r.TokenBudget, CacheBytes: int64(r.CacheMemory)}
	smallest := o
	smallest.CacheBytes, smallest.Free = 0, 1
	least, err := sampler.NewPlan(policy, smallest)
	if err != nil {
		return err
	}
	p.least, p.given = int(least.CacheBytes), o.CacheBytes > 0
	switch {
	case p.given: // and compared with what is free by us
		o.Free = math.MaxInt64
	case p.known:
		o.Free = max(p.room.Bytes-int64(p.Total()), 1)
	}
	e, err := sampler.NewPlan(policy, o)
	if err != nil {
		return err
	}
	if _, err := policy.NewDecoder(e.Decoder()); err != nil {
		return err
	}
	p.add("cache", int(e.CacheBytes))
	p.add("sampler", l.Take()-int(e.CacheBytes))
	p.Sampler = o
	p.Sampler.CacheBytes = e.CacheBytes
	return nil
}

func (p *Plan) add(name string, bytes int) { p.Items = append(p.Items, Item{name, bytes}) }

// Of is what is planned for one purpose.
func (p *Plan) Of(name string) int {
	i := slices.IndexFunc(p.Items, func(i Item) bool { return i.Name == name })
	if i < 0 {
		return 0
	}
	return p.Items[i].Bytes
}

// Total is all of it.
func (p *Plan) Total() (bytes int) {
	for _, i := range p.Items {
		bytes += i.Bytes
	}
	return bytes
}

// needs is the least that the run can do with.
func (p *Plan) needs() int {
	n := p.Total()
	if !p.given {
		n += p.least - p.Of("cache")
	}
	return max(n, p.Of("weights")+p.files) // which are not there at the same time as the rest
}

// spare is the share of what is free that is left alone: others take memory, too, and the kernel's number is a guess.
const spare = 0.05

// limit is the memory that the run may have.
func (p *Plan) limit() float64 { return (1 - spare) * float64(p.room.Bytes) }

func (p *Plan) fits() bool { return !p.known || float64(p.needs()) <= p.limit() }

// String says what the memory is for, and of how much.
func (p *Plan) String() string {
	var parts []string
	for _, i := range p.Items {
		parts = append(parts, i.Name+" "+memory.GB(i.Bytes))
	}
	text := fmt.Sprintf("%s (%s)", memory.GB(p.Total()), strings.Join(parts, ", "))
	if p.known {
		text += "; free: " + p.room.String()
	}
	return text
}

// filesOf is the size of a model's weights on disk.
func filesOf(dir string) (bytes int) {
	paths, _ := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			bytes += int(info.Size())
		}
	}
	return bytes
}
