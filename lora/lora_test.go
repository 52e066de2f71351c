package lora

import (
	"math"
	"slices"
	"strings"
	"testing"
)

var small = Dims{Layers: 3, Hidden: 20, Q: 24, KV: 7, Intermediate: 33}

// mustLayout is a layout for tests of something else.
func mustLayout(t testing.TB, c Config, d Dims) *Layout {
	t.Helper()
	l, err := NewLayout(c, d)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// random is an adapter whose B is not zero.
func random(t testing.TB, c Config, d Dims, seed uint64) *Adapter {
	a := New(mustLayout(t, c, d))
	a.Init(seed)
	for _, e := range a.Entries() {
		if e.Side == B {
			for i, v := 0, a.Of(e); i < len(v); i++ {
				v[i] = uniform(seed^tensorKey(1, e.Name), uint64(i)) * 0.1
			}
		}
	}
	return a
}

func TestLayout(t *testing.T) {
	for _, targets := range [][]Target{AllTargets(), {Down, Q, V}, {O}} {
		for _, rank := range []int{1, 5, 16} {
			checkLayout(t, rank, targets)
		}
	}
}

// checkLayout checks the properties of a layout: every matrix has its place, the padding is right, and each offset and each pair is
// found.
func checkLayout(t *testing.T, rank int, targets []Target) {
	t.Helper()
	l := mustLayout(t, Config{Rank: rank, Alpha: 7, Targets: targets}, small)
	if !slices.IsSorted(l.Config.Targets) || len(l.Entries()) != small.Layers*len(targets)*2 {
		t.Fatalf("targets %v: %d entries for %v", targets, len(l.Entries()), l.Config.Targets)
	}
	end := 0
	for i, e := range l.Entries() {
		out, in := small.Shape(e.Target)
		wantRows, wantCols := rank, in
		if e.Side == B {
			wantRows, wantCols = out, rank
		}
		if e.Rows != wantRows || e.Cols != wantCols || e.Layer != i/(2*len(targets)) {
			t.Errorf("entry %d is %+v, expected %dx%d", i, e, wantRows, wantCols)
		}
		// The A matrices of one input are adjacent; everything else starts at a multiple of 16.
		follows := i > 0 && e.Side == A && l.Entries()[i-1].Side == A
		if follows && e.Offset != end || !follows && e.Offset != (end+15)/16*16 {
			t.Errorf("entry %+v stands after offset %d", e, end)
		}
		for at := end; at < e.Offset; at++ {
			if got := l.Locate(at); !strings.HasPrefix(got, "the padding after base_model") {
				t.Errorf("padding at %d is located in %q", at, got)
			}
		}
		for _, at := range []int{e.Offset, e.Offset + e.Len() - 1} {
			if got := l.Locate(at); got != e.Name {
				t.Errorf("offset %d is located in %q, expected %q", at, got, e.Name)
			}
		}
		end = e.Offset + e.Len()
		if a, b, ok := l.Pair(e.Layer, e.Target); !ok || (a != e && b != e) || a.Side != A || b.Side != B {
			t.Errorf("the pair of %s is %s and %s", e.Name, a.Name, b.Name)
		}
	}
	if l.Len() < end || l.Len()%16 != 0 || l.Len()-end >= 16 {
		t.Errorf("the slab has %d floats, the last entry ends at %d", l.Len(), end)
	}
}

func TestLocatingInALayout(t *testing.T) {
	l := mustLayout(t, Config{Rank: 4, Alpha: 6, Targets: []Target{Q, Down}}, small)
	if l.Scale() != 1.5 {
		t.Errorf("scale %v, expected 1.5", l.Scale())
	}
	for _, at := range []int{-1, l.Len()} {
		if got := l.Locate(at); !strings.Contains(got, "outside") {
			t.Errorf("offset %d is located in %q", at, got)
		}
	}
	for _, layer := range []int{-1, small.Layers} {
		if _, _, ok := l.Pair(layer, Q); ok {
			t.Errorf("layer %d has a pair", layer)
		}
	}
	if _, _, ok := l.Pair(0, Up); ok {
		t.Error("a target that is not adapted has a pair")
	}
	for at, want := range map[int]string{
		3: "base_model.model.model.layers.0.mlp.down_proj.lora_B.weight",
		4: "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight",
	} {
		if got := l.Entries()[at].Name; got != want {
			t.Errorf("name %q, expected %q", got, want)
		}
	}
}

func TestOrderOfALayer(t *testing.T) {
	l := mustLayout(t, Config{Rank: 4, Alpha: 6, Targets: AllTargets()}, small)
	var got []string
	for _, e := range l.Entries()[:14] {
		got = append(got, e.Target.String()[:1]+e.Side.String()[5:])
	}
	if want := "qA kA vA qB kB vB oA oB gA uA gB uB dA dB"; strings.Join(got, " ") != want {
		t.Errorf("a layer is laid out as %v, expected %v", got, want)
	}
}

func TestLayoutRefuses(t *testing.T) {
	ok := Defaults()
	for want, change := range map[string]func(*Config, *Dims){
		"rank is 0":     func(c *Config, d *Dims) { c.Rank = 0 },
		"rank is 65537": func(c *Config, d *Dims) { c.Rank = 65537 },
		"alpha is 0":    func(c *Config, d *Dims) { c.Alpha = 0 },
		"alpha is NaN":  func(c *Config, d *Dims) { c.Alpha = math.NaN() },
		"alpha is +Inf": func(c *Config, d *Dims) { c.Alpha = math.Inf(1) },
		"alpha is 1e+300, expected a number above 0 and at most 3.4e38":   func(c *Config, d *Dims) { c.Alpha = 1e300 },
		"alpha is 1e-300: divided by rank 32 it is 0 in single precision": func(c *Config, d *Dims) { c.Alpha = 1e-300 },
		"alpha is 2e-45: divided by rank 65536 it is 0 in single":         func(c *Config, d *Dims) { c.Alpha, c.Rank = 2e-45, 65536 },
		"no targets":                            func(c *Config, d *Dims) { c.Targets = nil },
		"target 9 is not known":                 func(c *Config, d *Dims) { c.Targets = []Target{9} },
		"target k_proj is there tw":             func(c *Config, d *Dims) { c.Targets = []Target{K, Q, K} },
		"more than the 65536 that there may be": func(c *Config, d *Dims) { d.Layers = math.MaxInt / 4 },
		"with rank 65536 make 1.5e+23 numbers, expected at most 1.1e+12": func(c *Config, d *Dims) {
			c.Rank, c.Targets, d.Layers, d.Hidden, d.Q = 65536, []Target{Q}, 1, math.MaxInt/8+1, math.MaxInt/8+1
		},
		"Layers:0": func(c *Config, d *Dims) { d.Layers = 0 },
	} {
		c, d := ok, small
		change(&c, &d)
		if _, err := NewLayout(c, d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected %q", err, want)
		}
	}
	if _, err := ParseTarget("qkv"); err == nil || !strings.Contains(err.Error(), `"qkv"`) {
		t.Errorf("got %v", err)
	}
}

func TestInit(t *testing.T) {
	d := Dims{Layers: 2, Hidden: 400, Q: 300, KV: 100, Intermediate: 500}
	all := New(mustLayout(t, Config{Rank: 16, Alpha: 16, Targets: AllTargets()}, d))
	all.Init(7)
	some := New(mustLayout(t, Config{Rank: 16, Alpha: 3, Targets: []Target{Down, K}},
		Dims{Layers: 1, Hidden: 400, Q: 20, KV: 100, Intermediate: 500}))
	some.Init(7)

	byName := make(map[string][]float32)
	for _, e := range all.Entries() {
		byName[e.Name] = all.Of(e)
		if e.Side == B {
			if slices.ContainsFunc(all.Of(e), func(x float32) bool { return x != 0 }) {
				t.Errorf("%s is not zero", e.Name)
			}
			continue
		}
		var sum, squares, largest float64
		for _, x := range all.Of(e) {
			sum, squares, largest = sum+float64(x), squares+float64(x)*float64(x), max(largest, math.Abs(float64(x)))
		}
		n, bound := float64(e.Len()), 1/math.Sqrt(float64(e.Cols))
		// A uniform distribution in ±b has mean 0 and variance b²/3; five standard errors are allowed.
		if mean := sum / n; math.Abs(mean) > 5*bound/math.Sqrt(3*n) {
			t.Errorf("%s has mean %v", e.Name, mean)
		}
		if v := squares / n; math.Abs(v/(bound*bound)-1./3) > 5*math.Sqrt(4./45/n) {
			t.Errorf("%s has variance %v, expected %v", e.Name, v, bound*bound/3)
		}
		if largest > bound*(1+1e-7) || largest < 0.99*bound {
			t.Errorf("%s reaches %v, expected %v", e.Name, largest, bound)
		}
	}
	for _, e := range some.Entries() {
		if !slices.Equal(some.Of(e), byName[e.Name]) {
			t.Errorf("%s depends on what else is adapted", e.Name)
		}
	}

	before := all.Hash()
	all.Init(7)
	if all.Hash() != before {
		t.Error("the same seed gave other numbers")
	}
	all.Init(8)
	if all.Hash() == before {
		t.Error("another seed gave the same numbers")
	}
	if a0, a1 := byName["base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"],
		byName["base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight"]; slices.Equal(a0, a1) {
		t.Error("two tensors start alike")
	}
}

// Every later version must be able to repeat a run: the initial values are fixed for all time.
func TestInitIsFixed(t *testing.T) {
	a := New(mustLayout(t, Config{Rank: 4, Alpha: 4, Targets: AllTargets()}, small))
	a.Init(42)
	if got, want := a.Hash(), "7463294a30d8756b0853dd66c6718dd30445ffbd7e4165a8b7c923c0f6bb908a"; got != want {
		t.Errorf("hash %s, expected %s", got, want)
	}
}

func TestHashSeesEveryNumberAndNoPadding(t *testing.T) {
	a := random(t, Config{Rank: 3, Alpha: 3, Targets: []Target{V}}, small, 1)
	before := a.Hash()
	for i, x := range a.Values {
		a.Values[i] = x + 1
		if padding := strings.Contains(a.Locate(i), "padding"); (a.Hash() == before) != padding {
			t.Fatalf("offset %d, padding %v: hash changed %v", i, padding, a.Hash() != before)
		}
		a.Values[i] = x
	}
}

func TestNamesOfWhatIsNone(t *testing.T) {
	if got := Target(9).String() + " " + Target(9).module() + " " + Side(2).String(); got != "Target(9) mlp.Target(9) Side(2)" {
		t.Errorf("%q", got)
	}
	if got := (Down + 1).String(); got != "Target(7)" {
		t.Errorf("%q", got)
	}
	if _, _, ok := mustLayout(t, Defaults(), small).Pair(0, Target(9)); ok {
		t.Error("a target that is none has a pair")
	}
}
