package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Policy is what a name stands for.
type Policy struct {
	Name     string
	Base     string // the name of the model below an adapter; that of a model is its own
	Language *sources.Language
	Live     *sampler.Live
	Model    *model.Policy // its weights; whoever computes with it holds the host's turn
	Adapter  *model.Served // what Request.Adapter has to be; nil for a model
	Created  time.Time     // when it was loaded
}

// Options say what a host opens. Nothing of Sampling has to be said.
type Options struct {
	Models   []NamedDir
	Adapters []Adapter
	Backend  kernels.Backend // whoever opened it closes it, after the host
	Model    model.Options
	Sampling sampler.Options // of each model
	Speech   Speech
}

// Adapter is one to be served from the start.
type Adapter struct {
	NamedDir
	Base string // the name of its model; "" where there is one only
}

// ErrFull refuses an adapter where a model has as many as there is room for.
var ErrFull = errors.New("as many adapters are served as there is room for")

// Host has policies by name. Its methods are safe for concurrent use.
type Host struct {
	backend kernels.Backend
	turn    sync.Locker // is held by whoever computes
	lives   []*sampler.Live
	room    int           // adapters that a model may have a name for at a time
	ended   chan struct{} // closed when Run has returned, or can no longer begin

	mu       sync.Mutex // guards what follows
	policies []Policy   // by name
	loading  map[string]bool
	placed   map[string]int  // adapters in the memory, and those that are being loaded, by their model
	twice    map[string]bool // names whose adapters are being replaced: each is in the memory twice at the most
	once     sync.Cond       // is told when one of them is there once again
	running  bool
	closed   bool
	failure  error
}

// Open opens the models and adapters. Nothing is drawn before Run.
func Open(ctx context.Context, o Options) (*Host, error) {
	h := newHost(o.Backend, new(sync.Mutex), o.Sampling.Adapters)
	if len(o.Models) == 0 {
		return nil, badinput.Errorf("nothing to serve: expected a model; type --model tiny, or --model DIR")
	}
	for i, m := range o.Models {
		if slices.ContainsFunc(o.Models[:i], func(n NamedDir) bool { return n.Name == m.Name }) {
			return nil, taken(m.Name)
		}
	}
	opened, err := openModels(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := fits(o.Sampling.MaxLength, opened); err != nil {
		return nil, err
	}
	for i, m := range opened {
		if err := ctx.Err(); err != nil { // a cache of gigabytes is written to when it is made
			return nil, err
		}
		if err := h.enliven(m, m.sampling(o.Sampling, len(opened)-i)); err != nil {
			return nil, err
		}
	}
	for _, a := range o.Adapters {
		if err := h.LoadAdapter(a.Name, a.Base, a.Dir); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return h, nil
}

// newHost makes one without models, which has room for so many names of adapters.
func newHost(b kernels.Backend, turn sync.Locker, adapters int) *Host {
	h := &Host{backend: b, room: cmp.Or(adapters, UsualAdapters), turn: turn, ended: make(chan struct{}),
		loading: map[string]bool{}, placed: map[string]int{}, twice: map[string]bool{}}
	h.once.L = &h.mu
	return h
}

// enliven gives a model a sampler.
func (h *Host) enliven(m opened, o sampler.Options) error {
	live, err := sampler.NewLive(m.policy, o)
	if err != nil {
		return fmt.Errorf("model %s: %w", m.name, err)
	}
	live.Turn = h.turn
	h.lives = append(h.lives, live)
	h.add(Policy{Name: m.name, Base: m.name, Language: m.language, Live: live, Model: m.policy})
	return nil
}

// Turn is held by whoever computes on the host's backend.
func (h *Host) Turn() sync.Locker { return h.turn }

// Backend is what its models compute on.
func (h *Host) Backend() kernels.Backend { return h.backend }

// Policies are what is served, sorted by name.
func (h *Host) Policies() []Policy {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.policies)
}

// Find is the policy of a name; the error is a NotFound.
func (h *Host) Find(name string) (*Policy, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.find(name)
}

func (h *Host) find(name string) (*Policy, error) {
	i, found := slices.BinarySearchFunc(h.policies, name, byName)
	if !found {
		return nil, &NotFound{name, names(h.policies)}
	}
	p := h.policies[i]
	return &p, nil
}

func byName(p Policy, name string) int { return strings.Compare(p.Name, name) }

func (h *Host) add(p Policy) {
	p.Created = time.Now()
	i, _ := slices.BinarySearchFunc(h.policies, p.Name, byName)
	h.policies = slices.Insert(h.policies, i, p)
}

func (h *Host) remove(name string) {
	h.policies = slices.DeleteFunc(h.policies, func(p Policy) bool { return p.Name == name })
}

// LoadAdapter serves the PEFT adapter in dir, over the model named base, which may be "" where there is one only.
func (h *Host) LoadAdapter(name, base, dir string) error {
	return h.serve(name, base, func(below *Policy) (*model.Served, error) { return load(below, dir) })
}

// serve adds an adapter, which load brings to the sampler of the model below it.
func (h *Host) serve(name, base string, load func(below *Policy) (*model.Served, error)) error {
	if err := CheckName(name); err != nil {
		return err
	}
	below, err := h.reserve(name, base)
	if err != nil {
		return err
	}
	served, err := load(below)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.loading, name)
	if err != nil {
		h.placed[below.Name]--
		return fmt.Errorf("adapter %s: %w", name, err)
	}
	h.add(Policy{Name: name, Base: below.Name, Language: below.Language, Live: below.Live, Model: below.Model, Adapter: served})
	return nil
}

func load(below *Policy, dir string) (*model.Served, error) {
	if err := provenance.CheckWhole(dir); err != nil {
		return nil, err
	}
	if err := provenance.CheckBase(dir, below.Language.Dir); err != nil {
		return nil, err
	}
	a, err := lora.Load(dir, below.Language.Shape.LoRADims())
	if err != nil {
		return nil, err
	}
	return below.Live.Serve(a)
}

// reserve keeps a name for an adapter that is being loaded, and finds the model below it.
func (h *Host) reserve(name, base string) (*Policy, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := h.find(name); err == nil || h.loading[name] {
		return nil, taken(name)
	}
	if base == "" {
		if len(h.lives) > 1 {
			return nil, badinput.Errorf("adapter %s: there are several models, and it does not say over which of them it goes", name)
		}
		base = h.policies[slices.IndexFunc(h.policies, func(p Policy) bool { return p.Adapter == nil })].Name
	}
	below, err := h.find(base)
	if err != nil {
		return nil, badinput.Errorf("adapter %s: %w", name, err)
	}
	if below.Adapter != nil {
		return nil, badinput.Errorf("adapter %s: %s is an adapter itself; expected a model below it, such as %s", name, base, below.Base)
	}
	if h.placed[below.Name] >= h.room {
		return nil, badinput.Errorf("adapter %s: %w, %d over %s; unload one, or start the server with --max-adapters %d",
			name, ErrFull, h.room, below.Name, h.room+1)
	}
	h.loading[name] = true
	h.placed[below.Name]++
	return below, nil
}

// UnloadAdapter takes an adapter's name away at once. It returns when the requests that read it are done, and its memory
// is free.
func (h *Host) UnloadAdapter(name string) error {
	h.mu.Lock()
	p, err := h.find(name)
	if err == nil && p.Adapter == nil {
		err = stays(name)
	}
	if err == nil {
		h.remove(name)
	}
	h.mu.Unlock()
	if err != nil {
		return err
	}
	p.Live.Withdraw(p.Adapter)
	h.mu.Lock()
	h.placed[p.Base]--
	h.mu.Unlock()
	return nil
}

// Healthy is what went wrong with the machine, after which nothing is drawn any more.
func (h *Host) Healthy() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failure
}

// Run draws until the context ends, until Close, or until the backend fails, which ends all requests with its error.
// It is called once.
func (h *Host) Run(ctx context.Context) error {
	if !h.begin() {
		return sampler.ErrClosed
	}
	defer close(h.ended)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(h.lives))
	var all sync.WaitGroup
	for i, live := range h.lives {
		all.Go(func() {
			if errs[i] = live.Run(ctx); errs[i] != nil {
				h.fail(ctx, errs[i])
				cancel() // they share a backend
			}
		})
	}
	all.Wait()
	return cmp.Or(h.Healthy(), cmp.Or(errs...))
}

// begin reports whether Run may.
func (h *Host) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	may := !h.running && !h.closed
	h.running = h.running || may
	return may
}

// fail keeps the first error that is not the end of the context.
func (h *Host) fail(ctx context.Context, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failure == nil && ctx.Err() == nil {
		h.failure = err
	}
}

// Close takes no more requests, and returns when those that were taken are done. To wait no longer, end the context of
// Run.
func (h *Host) Close() error {
	for _, live := range h.lives {
		live.Close()
	}
	h.mu.Lock()
	h.closed = true
	running := h.running
	h.mu.Unlock()
	if running {
		<-h.ended
	}
	return h.Healthy()
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
