package lora

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// An adapter that a program put together, and that is none, is refused with what is missing.
func TestAnAdapterWithoutALayout(t *testing.T) {
	for what, call := range map[string]func(a *Adapter){
		"Init": func(a *Adapter) { a.Init(1) },
		"Hash": func(a *Adapter) { a.Hash() },
	} {
		require.PanicsWithValue(t, "lora: the adapter has no layout; make it by lora.New, or read it by lora.Load",
			func() { call(&Adapter{}) }, what)
		require.Panics(t, func() { call(nil) }, what)
	}
	require.ErrorContains(t, new(Adapter).Save(t.TempDir(), "base"), "no layout")
	require.PanicsWithValue(t, "lora.LoadInto: the argument room is nil, expected a function that makes a slice of so many numbers",
		func() { _, _ = LoadInto(t.TempDir(), Dims{}, nil) })
}

// So are values that are too few for the layout, and entries of another layout.
func TestValuesThatAreTooFew(t *testing.T) {
	l, err := NewLayout(Config{Rank: 2, Alpha: 2, Targets: AllTargets()}, Dims{Layers: 1, Hidden: 4, Q: 4, KV: 4, Intermediate: 8})
	require.NoError(t, err)
	a := &Adapter{Layout: l, Values: make([]float32, 3)}
	require.PanicsWithValue(t, fmt.Sprintf("lora: found 3 numbers, expected %d, as many as the layout has", l.Len()), func() { a.Init(1) })
	last := l.Entries()[len(l.Entries())-1]
	require.Panics(t, func() { a.Of(last) })
	require.PanicsWithValue(t, `lora: "other" is values -4 to 0, and the adapter has 3; expected an entry of its layout`,
		func() { a.Of(Entry{Name: "other", Offset: -4, Rows: 2, Cols: 2}) })
}

// Numbers that are not finite are found in the adapter, before anything is merged.
func TestMergeOfAnAdapterThatIsNotFinite(t *testing.T) {
	base, a := writeBase(t, 0), random(t, Config{Rank: 2, Alpha: 2, Targets: []Target{Q}}, small, 1)
	a.Values[0] = float32(math.NaN())
	out := filepath.Join(t.TempDir(), "merged")
	require.ErrorContains(t, Merge(base, a, out), "layers.0.self_attn.q_proj.lora_A.weight: element 0 is NaN, expected finite numbers")
	require.NoDirExists(t, out)
	require.ErrorContains(t, Merge(base, &Adapter{}, out), "no layout")
}
