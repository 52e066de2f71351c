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

// Policy is a model or an adapter that is served.
type Policy struct {
	Name     string
	Base     string // name of the model below an adapter; a model's own name
	Language *sources.Language
	Live     *sampler.Live
	Model    *model.Policy // the weights; hold the host's turn to compute with them
	Adapter  *model.Served // for Request.Adapter; nil for a model
	Created  time.Time     // when it was loaded
}

// Options say what a host opens. Sampling may be left zero.
type Options struct {
	Models   []NamedDir
	Adapters []Adapter
	Backend  kernels.Backend // the caller closes it, after the host
	Model    model.Options
	Sampling sampler.Options // for the sampler of each model
	Speech   PromptOptions
}

// Adapter is an adapter to be served from the start.
type Adapter struct {
	NamedDir
	Base string // name of its model; may be "" if there is only one
}

// ErrFull is the error of loading an adapter when its model has the most adapters that fit.
var ErrFull = errors.New("there is no room for another adapter")

// Host serves policies by name. Its methods are safe for concurrent use.
type Host struct {
	backend kernels.Backend
	turn    sync.Locker // held by whoever computes
	lives   []*sampler.Live
	room    int           // the most named adapters of a model
	ended   chan struct{} // closed when Run has returned, or may no longer start

	mu        sync.Mutex // guards the following fields
	policies  []Policy   // sorted by name
	loading   map[string]bool
	placed    map[string]int  // by model: adapters in memory or being loaded
	replacing map[string]bool // names whose adapters are being replaced, so that both versions are in memory
	once      sync.Cond       // signalled when a replacement is done
	running   bool
	closed    bool
	failure   error
}

// Open opens the models and adapters. Nothing is sampled before Run.
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
		if err := ctx.Err(); err != nil { // do not allocate a KV cache of gigabytes for nothing
			return nil, err
		}
		if err := h.startSampler(m, m.sampling(o.Sampling, len(opened)-i)); err != nil {
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

// newHost makes a host without models, for that many named adapters per model.
func newHost(b kernels.Backend, turn sync.Locker, adapters int) *Host {
	h := &Host{backend: b, room: cmp.Or(adapters, DefaultAdapters), turn: turn, ended: make(chan struct{}),
		loading: map[string]bool{}, placed: map[string]int{}, replacing: map[string]bool{}}
	h.once.L = &h.mu
	return h
}

// startSampler starts a sampler for a model.
func (h *Host) startSampler(m opened, o sampler.Options) error {
	live, err := sampler.NewLive(m.policy, o)
	if err != nil {
		return fmt.Errorf("model %s: %w", m.name, err)
	}
	live.Turn = h.turn
	h.lives = append(h.lives, live)
	h.add(Policy{Name: m.name, Base: m.name, Language: m.language, Live: live, Model: m.policy})
	return nil
}

// BackendLock is the lock to hold while computing on the host's backend.
func (h *Host) BackendLock() sync.Locker { return h.turn }

// Backend is the backend of the host's models.
func (h *Host) Backend() kernels.Backend { return h.backend }

// Policies lists what is served, sorted by name.
func (h *Host) Policies() []Policy {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.policies)
}

// Find returns the policy of that name; the error is a NotFoundError.
func (h *Host) Find(name string) (*Policy, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.find(name)
}

func (h *Host) find(name string) (*Policy, error) {
	i, found := slices.BinarySearchFunc(h.policies, name, byName)
	if !found {
		return nil, &NotFoundError{name, names(h.policies)}
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

// LoadAdapter serves the PEFT adapter in dir, over the model named base, which may be "" if there is only one.
func (h *Host) LoadAdapter(name, base, dir string) error {
	return h.serve(name, base, func(below *Policy) (*model.Served, error) { return load(below, dir) })
}

// serve adds an adapter; load passes it to the sampler of the model below it.
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
	if err := provenance.CheckIntact(dir); err != nil {
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

// reserve reserves a name and a slot for an adapter that is being loaded, and finds the model below it.
func (h *Host) reserve(name, base string) (*Policy, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := h.find(name); err == nil || h.loading[name] {
		return nil, taken(name)
	}
	if base == "" {
		if len(h.lives) > 1 {
			return nil, badinput.Errorf("adapter %s: several models are served; name its base model with base_model_name", name)
		}
		base = h.policies[slices.IndexFunc(h.policies, func(p Policy) bool { return p.Adapter == nil })].Name
	}
	below, err := h.find(base)
	if err != nil {
		return nil, badinput.Errorf("adapter %s: %w", name, err)
	}
	if below.Adapter != nil {
		return nil, badinput.Errorf("adapter %s: its base model %s is an adapter itself; expected a model, such as %s", name, base, below.Base)
	}
	if h.placed[below.Name] >= h.room {
		return nil, badinput.Errorf("adapter %s: %w besides the %d of %s; unload one, or start the server with --max-adapters %d",
			name, ErrFull, h.room, below.Name, h.room+1)
	}
	h.loading[name] = true
	h.placed[below.Name]++
	return below, nil
}

// UnloadAdapter removes an adapter's name at once. It returns when the requests that use it are done and its memory is
// free.
func (h *Host) UnloadAdapter(name string) error {
	h.mu.Lock()
	p, err := h.find(name)
	if err == nil && p.Adapter == nil {
		err = notAnAdapter(name)
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

// Healthy returns the failure of the backend that stopped the sampling, if any.
func (h *Host) Healthy() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failure
}

// Run samples until the context ends, until Close, or until the backend fails, which ends all requests with its error. It
// may be called once.
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
				cancel() // the other models use the same backend
			}
		})
	}
	all.Wait()
	return cmp.Or(h.Healthy(), cmp.Or(errs...))
}

// begin reports whether Run may start, and records that it did.
func (h *Host) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	may := !h.running && !h.closed
	h.running = h.running || may
	return may
}

// fail records the first error that is not due to the end of the context.
func (h *Host) fail(ctx context.Context, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failure == nil && ctx.Err() == nil {
		h.failure = err
	}
}

// Close refuses new requests, and returns when those in progress are done. To stop sooner, end the context of Run.
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
