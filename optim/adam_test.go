package optim

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
)

// Two runs from the same start are equal to the last bit; another gradient makes a difference.
func TestAdamRepeats(t *testing.T) {
	onEach(t, func(t *testing.T, b kernels.Backend) {
		run := func(last uint64) []float32 {
			p := newProblem(t, b, draws(1, 1000), Config{Beta1: 0.9, Beta2: 0.95, Eps: 1e-12, WeightDecay: 0.01, ClipNorm: 3})
			for _, seed := range []uint64{4, 5, last} {
				p.step(draws(seed, 1000), 0.01)
			}
			return p.all()
		}
		if !slices.Equal(run(6), run(6)) {
			t.Error("the same steps gave other numbers")
		}
		if slices.Equal(run(6), run(7)) {
			t.Error("another gradient made no difference")
		}
	})
}

// Adam minimises a quadratic with very different curvatures.
func TestAdamDescends(t *testing.T) {
	onEach(t, func(t *testing.T, b kernels.Backend) {
		curvature := []float32{1e-3, 1, 1e3, 30}
		p := newProblem(t, b, []float32{1, -2, 3, -4}, Defaults())
		loss := func() (sum float64) {
			for i, x := range p.get(p.params) {
				sum += float64(curvature[i]) * float64(x) * float64(x) / 2
			}
			return sum
		}
		before := loss()
		schedule := Schedule{Shape: Cosine, Total: 300, Warmup: 10}
		for step := 1; step <= 300; step++ {
			g := p.get(p.params)
			for i := range g {
				g[i] *= curvature[i]
			}
			p.step(g, 0.1*schedule.Factor(step))
		}
		if after := loss(); after > 1e-4*before {
			t.Errorf("the loss went from %v to %v", before, after)
		}
	})
}

// A non-finite gradient is found at any index, and the step does not happen.
func TestNonFiniteGradient(t *testing.T) {
	race.SkipSerial(t)
	onEach(t, func(t *testing.T, b kernels.Backend) {
		const n = chunk + 30 // the last ones are in a second chunk
		p := newProblem(t, b, make([]float32, n), Defaults())
		p.step(draws(2, n), 0.1)
		before := p.all()
		for at, bad := range map[int]float64{0: math.NaN(), 17: math.Inf(1), chunk - 1: math.Inf(-1), n - 1: math.NaN()} {
			g := draws(3, n)
			g[at] = float32(bad)
			p.b.Upload(p.grads, g)
			u, err := p.Step(0.1)
			var e *NonFiniteError
			if !errors.As(err, &e) || u != (Update{}) {
				t.Fatalf("%v at %d: got %+v, %v", bad, at, u, err)
			}
			if e.Index != at || e.Tensor != fmt.Sprintf("tensor%d", at/10) || float64(e.Value) != bad && bad == bad ||
				!strings.Contains(err.Error(), e.Tensor+" is ") {
				t.Errorf("%v at %d: got %+v: %v", bad, at, e, err)
			}
			if p.Steps() != 1 || !slices.Equal(p.all(), before) {
				t.Fatalf("%v at %d changed something", bad, at)
			}
		}
		if u := p.step(draws(3, n), 0.1); u.Step != 2 {
			t.Errorf("the next good step is %+v", u)
		}
		// Large gradients that are clipped are fine: their squares are summed in double precision.
		huge := make([]float32, n)
		huge[5] = math.MaxFloat32
		p.cfg.ClipNorm = 1
		if u := p.step(huge, 0.1); u.GradNorm != math.MaxFloat32 {
			t.Errorf("norm %v, expected %v", u.GradNorm, math.MaxFloat32)
		}
	})
}

// Step keeps the gradients; ZeroGrad zeroes them. Parameters with gradient 0 do not move.
func TestGradientsAreLeftUntilZeroed(t *testing.T) {
	onEach(t, func(t *testing.T, b kernels.Backend) {
		p := newProblem(t, b, draws(1, 20), Defaults())
		p.step(draws(2, 20), 0.1)
		if !slices.Equal(p.get(p.grads), draws(2, 20)) {
			t.Error("the step changed the gradients")
		}
		p.ZeroGrad()
		if !slices.Equal(p.get(p.grads), make([]float32, 20)) {
			t.Error("the gradients are not zero")
		}
		q := newProblem(t, b, draws(1, 20), Defaults())
		if u := q.step(make([]float32, 20), 0.1); u.GradNorm != 0 || !slices.Equal(q.get(q.params), draws(1, 20)) {
			t.Errorf("a step without gradients did something: %+v", u)
		}
	})
}

func TestNewAdamRefuses(t *testing.T) {
	b := kerneltest.NewReference()
	four, err := b.Alloc(kernels.F32, 4)
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"adam_beta1 is 1, expected":    func(c *Config) { c.Beta1 = 1 },
		"adam_beta1 is -0.1, expected": func(c *Config) { c.Beta1 = -0.1 },
		"adam_beta2 is 0.99999999999":  func(c *Config) { c.Beta2 = 0.99999999999 },
		"adam_beta2 is NaN":            func(c *Config) { c.Beta2 = math.NaN() },
		"adam_eps is 0, expected":      func(c *Config) { c.Eps = 0 },
		"adam_eps is 1e-60, expected":  func(c *Config) { c.Eps = 1e-60 },
		"adam_eps is 1e+300, expected a small number above 0, at most 3.4e38, such as 1e-12": func(c *Config) { c.Eps = 1e300 },
		"weight_decay is 1e+300, expected 0 (off) or more, at most 3.4e38":                   func(c *Config) { c.WeightDecay = 1e300 },
		"weight_decay is NaN, expected":                                                      func(c *Config) { c.WeightDecay = math.NaN() },
		"weight_decay is -1, expected":                                                       func(c *Config) { c.WeightDecay = -1 },
		"grad_clip_norm is -1, expected":                                                     func(c *Config) { c.ClipNorm = -1 },
		"grad_clip_norm is 1e-60, expected 0 (off) or at least 1e-12":                        func(c *Config) { c.ClipNorm = 1e-60 },
		"grad_clip_norm is +Inf, expected ":                                                  func(c *Config) { c.ClipNorm = math.Inf(1) },
	} {
		cfg := Defaults()
		change(&cfg)
		if _, err := NewAdam(b, four, four, cfg, nil); err == nil || !badinput.Is(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected %q", err, want)
		}
		a, err := NewAdam(b, four, four, Defaults(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Configure(cfg); !badinput.Is(err) || !strings.Contains(err.Error(), want) || a.cfg != Defaults() {
			t.Errorf("changed to it: got %v and %+v, expected %q", err, a.cfg, want)
		}
	}
	if _, err := NewAdam(b, four, four.Slice(0, 3), Defaults(), nil); err == nil || !strings.Contains(err.Error(), "equal length") {
		t.Errorf("got %v", err)
	}
	a, err := NewAdam(b, four, four, Defaults(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, lr := range []float64{-1, math.NaN(), math.Inf(1)} {
		if _, err := a.Step(lr); !badinput.Is(err) || !strings.HasPrefix(err.Error(), "learning_rate is ") || a.Steps() != 0 {
			t.Errorf("learning rate %v: %v", lr, err)
		}
	}
}

// Nothing is allocated by a step's own code.
func TestStepAllocatesNothing(t *testing.T) {
	p := newProblem(t, kerneltest.NewReference(), draws(1, 100), Config{Beta1: 0.9, Beta2: 0.95, Eps: 1e-12, ClipNorm: 1})
	p.b.Upload(p.grads, draws(2, 100))
	if n := testing.AllocsPerRun(20, func() {
		if _, err := p.Step(0.01); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The recorded gradients have the recorded norm, and the recorded settings are the defaults.
func TestReferenceSettings(t *testing.T) {
	for _, model := range []string{"qwen3-tied", "qwen3-untied-sharded"} {
		dir := filepath.Join("..", "model", "testdata", "golden", model)
		text, err := os.ReadFile(filepath.Join(dir, "train.json"))
		if err != nil {
			t.Fatal(err)
		}
		var train struct {
			Adam struct {
				LR, Beta1, Beta2, Eps float64
				WeightDecay           float64 `json:"weight_decay"`
			}
			Steps []struct {
				GradNorm float64 `json:"grad_norm"`
			}
		}
		if err := json.Unmarshal(text, &train); err != nil {
			t.Fatal(err)
		}
		cfg := Config{Beta1: train.Adam.Beta1, Beta2: train.Adam.Beta2, Eps: train.Adam.Eps, WeightDecay: train.Adam.WeightDecay}
		if cfg != Defaults() {
			t.Errorf("%s: recorded settings %+v, defaults %+v", model, cfg, Defaults())
		}
		f, err := tensorfile.Open(filepath.Join(dir, "grads_step1.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var g []float32
		for _, name := range f.Names() {
			tensor, err := f.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			g = append(g, tensorfile.Float32s(tensor)...)
		}
		p := newProblem(t, kerneltest.NewReference(), make([]float32, len(g)), cfg)
		if u := p.step(g, train.Adam.LR); math.Abs(u.GradNorm/train.Steps[0].GradNorm-1) > 1e-6 {
			t.Errorf("%s: norm %v, recorded %v", model, u.GradNorm, train.Steps[0].GradNorm)
		}
		// The first step of Adam is the learning rate against the sign of the gradient.
		for i, x := range p.get(p.params) {
			want := -train.Adam.LR * math.Copysign(1, float64(g[i]))
			if g[i] == 0 {
				want = 0
			}
			if math.Abs(float64(x)-want) > 1e-5*train.Adam.LR {
				t.Fatalf("%s: gradient %v moved parameter %d by %v, expected %v", model, g[i], i, x, want)
			}
		}
	}
}

// Spared parameters are updated as usual, without weight decay.
func TestSparedParametersDoNotDecay(t *testing.T) {
	onEach(t, func(t *testing.T, b kernels.Backend) {
		const n = 40
		decaying := Defaults()
		decaying.WeightDecay = 0.5
		step := func(cfg Config, spared [][2]int) []float32 {
			p := newProblem(t, b, draws(1, n), cfg)
			if err := p.Spare(spared); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				p.step(draws(2, n), 0.1)
			}
			return p.all()[:n]
		}
		with, without := step(decaying, nil), step(Defaults(), nil)
		got := step(decaying, [][2]int{{0, 5}, {20, 23}, {37, n}})
		for i := range n {
			want := with[i]
			if i < 5 || i >= 20 && i < 23 || i >= 37 {
				want = without[i]
			}
			if got[i] != want {
				t.Fatalf("parameter %d is %v, expected %v", i, got[i], want)
			}
		}
	})
}

// Ranges that are unordered, overlap or exceed the slab are refused, and the earlier ones stay.
func TestSpareRefuses(t *testing.T) {
	p := newProblem(t, kerneltest.NewReference(), draws(1, 40), Defaults())
	given := [][2]int{{0, 5}, {5, 5}, {5, 7}, {37, 40}}
	if err := p.Spare(given); err != nil {
		t.Fatal(err)
	}
	given[0] = [2]int{3, 1}
	for _, bad := range [][][2]int{{{2, 3}, {0, 1}}, {{0, 3}, {2, 5}}, {{3, 2}}, {{-1, 2}}, {{38, 41}}, {{41, 41}}} {
		if err := p.Spare(bad); err == nil || !strings.Contains(err.Error(), "expected ranges in order, of 0 to 40") {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if want := [][2]int{{0, 5}, {5, 5}, {5, 7}, {37, 40}}; !slices.Equal(p.spared, want) {
		t.Errorf("spared are %v, expected %v", p.spared, want)
	}
	if err := p.Spare(nil); err != nil || len(p.spared) > 0 {
		t.Errorf("%v, %v", p.spared, err)
	}
}

// An optimizer needs a backend and slabs; names of their numbers are optional.
func TestNewAdamWithout(t *testing.T) {
	b := kerneltest.NewReference()
	alloc := func(values []float32) kernels.Buffer {
		slab, err := b.Alloc(kernels.F32, len(values))
		if err != nil {
			t.Fatal(err)
		}
		b.Upload(slab, values)
		return slab
	}
	params, grads := alloc([]float32{1, 2}), alloc([]float32{1, float32(math.NaN())})
	for want, make := range map[string]func() (*Adam, error){
		"optim: found no backend": func() (*Adam, error) { return NewAdam(nil, params, grads, Defaults(), nil) },
		"optim: found no param":   func() (*Adam, error) { return NewAdam(b, nil, grads, Defaults(), nil) },
		"optim: found no grad":    func() (*Adam, error) { return NewAdam(b, params, nil, Defaults(), nil) },
	} {
		if _, err := make(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected %q", err, want)
		}
	}
	a, err := NewAdam(b, params, grads, Defaults(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Step(0.1); err == nil || !strings.Contains(err.Error(), "the gradient of parameter 1 is NaN") {
		t.Errorf("%v", err)
	}
}

// If memory runs out, all buffers allocated before are freed.
func TestNewAdamWithoutRoom(t *testing.T) {
	for room := range 3 {
		b := &limitedBackend{Backend: kerneltest.NewReference(), room: 2}
		params, _ := b.Alloc(kernels.F32, 10)
		grads, _ := b.Alloc(kernels.F32, 10)
		b.room = room
		if _, err := NewAdam(b, params, grads, Defaults(), nil); err == nil || b.taken != 2 {
			t.Errorf("room for %d: %v, %d buffers are taken", room, err, b.taken)
		}
	}
}

// limitedBackend is a backend that has room for a few more buffers.
type limitedBackend struct {
	kernels.Backend
	room, taken int
}

func (c *limitedBackend) Alloc(d kernels.DType, n int) (kernels.Buffer, error) {
	if c.room == 0 {
		return nil, errors.New("no room")
	}
	c.room, c.taken = c.room-1, c.taken+1
	return c.Backend.Alloc(d, n)
}

func (c *limitedBackend) Release(b kernels.Buffer) {
	c.taken--
	c.Backend.Release(b)
}
