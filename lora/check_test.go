package lora

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
)

// changed is a copy of an adapter with its numbers changed.
func changed(a *Adapter, change func(e Entry, values []float32)) *Adapter {
	b := New(a.Layout)
	copy(b.Values, a.Values)
	for _, e := range a.Entries() {
		change(e, b.Of(e))
	}
	return b
}

// scaled multiplies the B matrices of an adapter.
func scaled(a *Adapter, by float32) *Adapter {
	return changed(a, func(e Entry, values []float32) {
		if e.Side == B {
			for i := range values {
				values[i] *= by
			}
		}
	})
}

// swapped reverses the order of layers in the matrices of one side.
func swapped(a *Adapter, side Side) *Adapter {
	return changed(a, func(e Entry, values []float32) {
		if e.Side == side {
			ea, eb, _ := a.Pair(a.Dims.Layers-1-e.Layer, e.Target)
			copy(values, a.Of([2]Entry{ea, eb}[side]))
		}
	})
}

// For an adapter of any magnitude, its own merge passes the check, and another adapter's does not.
func TestCheckMergeKnowsTheAdapter(t *testing.T) {
	base := writeBase(t, 0)
	whole := random(t, Config{Rank: 5, Alpha: 7, Targets: AllTargets()}, small, 11)
	for _, size := range []float32{1, 1e-2, 1e-4} {
		a := scaled(whole, size)
		if size == 1 && a.Values[0] == 0 {
			t.Fatal("an adapter of nothing")
		}
		for name, merged := range map[string]*Adapter{
			"": a, "lost": New(a.Layout), "sign": scaled(a, -1), "half": scaled(a, 0.5),
			"layers of A": swapped(a, A), "layers of B": swapped(a, B), "layers": swapped(swapped(a, A), B),
		} {
			out := filepath.Join(t.TempDir(), "merged")
			if err := Merge(base, merged, out); err != nil {
				t.Fatal(err)
			}
			kept, err := CheckMerge(base, a, out)
			switch {
			case name == "" && (err != nil || kept < leastKept || kept > 1.1):
				t.Errorf("size %g: the merge keeps %v of its adapter, %v", size, kept, err)
			case name != "" && (err == nil || !strings.Contains(err.Error(), "in the merged model")):
				t.Errorf("size %g, %s: %v", size, name, err)
			}
		}
	}
}

// An adapter that is lost in the rounding of every weight is not merged.
func TestCheckMergeRefusesWhatIsRoundedAway(t *testing.T) {
	base, out := writeBase(t, 0), filepath.Join(t.TempDir(), "merged")
	a := scaled(random(t, Config{Rank: 5, Alpha: 7, Targets: []Target{Q}}, small, 11), 1e-30)
	if err := Merge(base, a, out); err != nil {
		t.Fatal(err)
	}
	_, err := CheckMerge(base, a, out)
	if !badinput.Is(err) || !strings.Contains(err.Error(), "only 0 % of the adapter's change is left") {
		t.Errorf("%v", err)
	}
	if kept, err := CheckMerge(base, New(a.Layout), out); err != nil || kept != 1 {
		t.Errorf("an adapter of zeroes: %v, %v", kept, err)
	}
}

// Weights without an adapter must be equal to the bit.
func TestCheckMergeSeesOtherWeights(t *testing.T) {
	base, out := writeBase(t, 0), filepath.Join(t.TempDir(), "merged")
	a := random(t, Config{Rank: 5, Alpha: 7, Targets: []Target{Q}}, small, 11)
	if err := Merge(base, a, out); err != nil {
		t.Fatal(err)
	}
	more := random(t, Config{Rank: 5, Alpha: 7, Targets: []Target{Q, O}}, small, 11)
	if err := os.RemoveAll(out); err != nil {
		t.Fatal(err)
	}
	if err := Merge(base, more, out); err != nil {
		t.Fatal(err)
	}
	if _, err := CheckMerge(base, a, out); err == nil {
		t.Error("a weight without an adapter was changed, and nobody saw it")
	}
}

// A weight in another encoding makes another model on disk, even if its numbers are the same.
func TestCheckMergeSeesAnotherEncoding(t *testing.T) {
	base, out := writeBase(t, 0), filepath.Join(t.TempDir(), "merged")
	a := New(random(t, Config{Rank: 5, Alpha: 7, Targets: AllTargets()}, small, 11).Layout)
	set, err := tensorfile.OpenModel(base)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	var sources []tensorfile.Source
	for _, name := range set.Names() {
		x, err := set.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, tensorfile.FromFloat32s(name, tensorfile.Float32s(x), x.Shape...))
	}
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := tensorfile.WriteModel(out, sources, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := CheckMerge(base, a, out); err == nil || !strings.Contains(err.Error(), "has another encoding") {
		t.Errorf("%v", err)
	}
}

// An adapter of another model is refused with a message, by Merge and by its check.
func TestCheckMergeOfAnotherModel(t *testing.T) {
	base, out := writeBase(t, 0), filepath.Join(t.TempDir(), "merged")
	c := Config{Rank: 5, Alpha: 7, Targets: AllTargets()}
	if err := Merge(base, random(t, c, small, 11), out); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(d *Dims){
		"less":   func(d *Dims) { d.Hidden, d.Q, d.KV, d.Intermediate = 10, 12, 5, 16 },
		"more":   func(d *Dims) { d.Hidden, d.Q, d.KV, d.Intermediate = 40, 48, 14, 66 },
		"layers": func(d *Dims) { d.Layers++ },
		"fewer":  func(d *Dims) { d.Layers-- },
	} {
		d := small
		change(&d)
		other := random(t, c, d, 11)
		if _, err := CheckMerge(base, other, out); !badinput.Is(err) || !strings.Contains(err.Error(), "proj.weight") {
			t.Errorf("%s: %v", name, err)
		}
		if err := Merge(base, other, filepath.Join(t.TempDir(), "other")); !badinput.Is(err) {
			t.Errorf("%s: merged, %v", name, err)
		}
	}
}
