package lora

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
)

func TestSaveAndLoad(t *testing.T) {
	for _, c := range []Config{
		Defaults(), {Rank: 3, Alpha: 6.5, Targets: []Target{Q, Down}}, {Rank: 1, Alpha: 1e-3, Targets: []Target{K}},
	} {
		a := random(t, c, small, 5)
		first, second := filepath.Join(t.TempDir(), "new", "folder"), t.TempDir()
		for _, dir := range []string{first, second, second} {
			if err := a.Save(dir, "Qwen/Qwen3-0.6B"); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{weightsName, configName} {
			if !bytes.Equal(mustRead(t, filepath.Join(first, name)), mustRead(t, filepath.Join(second, name))) {
				t.Errorf("%s: saved twice, two different files", name)
			}
		}
		if found, _ := os.ReadDir(second); len(found) != 2 {
			t.Errorf("the folder holds %v", found)
		}
		b, err := Load(first, small)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(a.Values, b.Values) || a.Config.Rank != b.Config.Rank || a.Config.Alpha != b.Config.Alpha ||
			!slices.Equal(a.Config.Targets, b.Config.Targets) {
			t.Errorf("%+v came back as %+v, or with other numbers", a.Config, b.Config)
		}
	}
}

// Saving over an adapter of another shape replaces it; the two are never mixed.
func TestSaveOverAnother(t *testing.T) {
	dir := t.TempDir()
	if err := random(t, Config{Rank: 8, Alpha: 16, Targets: []Target{Up, Q}}, small, 5).Save(dir, "x"); err != nil {
		t.Fatal(err)
	}
	a := random(t, Config{Rank: 2, Alpha: 16, Targets: []Target{V}}, small, 6)
	if err := a.Save(dir, "x"); err != nil {
		t.Fatal(err)
	}
	a.Values[3] = float32(math.NaN()) // Save itself refuses this
	if err := a.WriteTensors(filepath.Join(dir, weightsName), a.Values); err != nil {
		t.Fatal(err)
	}
	_, err := Load(dir, small)
	if err == nil || !badinput.Is(err) || !strings.Contains(err.Error(), `lora_A.weight": element 3 is NaN`) {
		t.Errorf("got %v", err)
	}
}

func TestLoadWidensEveryEncoding(t *testing.T) {
	a := random(t, Config{Rank: 4, Alpha: 4, Targets: []Target{K, O}}, small, 9)
	for _, enc := range []kernels.Encoding{kernels.EncodedBF16, kernels.EncodedF16, kernels.EncodedF32} {
		dir := t.TempDir()
		if err := a.Save(dir, "x"); err != nil {
			t.Fatal(err)
		}
		want := New(a.Layout)
		var sources []tensorfile.Source
		for _, e := range a.Entries() {
			wide, coded := make([]float64, e.Len()), make([]byte, e.Len()*enc.Size())
			for i, x := range a.Of(e) {
				wide[i] = float64(x)
			}
			tensorfile.Narrow(coded, enc, wide)
			tensorfile.Widen(want.Of(e), enc, coded)
			sources = append(sources,
				tensorfile.FromTensor(tensorfile.Tensor{Name: e.Name, Encoding: enc, Shape: []int{e.Rows, e.Cols}, Bytes: coded}))
		}
		if err := tensorfile.Write(filepath.Join(dir, weightsName), sources, nil); err != nil {
			t.Fatal(err)
		}
		got, err := Load(dir, small)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Values, want.Values) {
			t.Errorf("encoding %d: other numbers", enc)
		}
	}
}

func mustRead(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestSaveFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	a := random(t, Defaults(), small, 1)
	if err := a.Save(filepath.Join(file, "below"), "x"); err == nil {
		t.Error("saved below a file")
	}
	var pathError *os.PathError
	if err := a.WriteTensors(filepath.Join(file, "x"), a.Values); !errors.As(err, &pathError) {
		t.Errorf("got %v", err)
	}
}

// If Save is stopped between its two files, Load refuses the folder; there is never a mixture.
func TestSaveIsNeverMixed(t *testing.T) {
	dir := t.TempDir()
	first := random(t, Config{Rank: 8, Alpha: 16, Targets: []Target{Up}}, small, 5)
	if err := first.Save(dir, "x"); err != nil {
		t.Fatal(err)
	}
	// A folder in place of the weights file stops Save there.
	if err := os.Remove(filepath.Join(dir, weightsName)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, weightsName, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := first.Save(dir, "x"); err == nil {
		t.Fatal("saved over a folder")
	}
	if _, err := os.Stat(filepath.Join(dir, configName)); err != nil {
		t.Errorf("the same configuration is right before and after: %v", err)
	}
	other := random(t, Config{Rank: 8, Alpha: 32, Targets: []Target{Up}}, small, 5)
	if err := other.Save(dir, "x"); err == nil {
		t.Fatal("saved over a folder")
	}
	if _, err := os.Stat(filepath.Join(dir, configName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old alpha stands beside new weights: %v", err)
	}
}

// Values that do not fit the layout, or that Load would refuse, are reported before anything is written.
func TestSaveRefuses(t *testing.T) {
	whole := random(t, Config{Rank: 2, Alpha: 2, Targets: []Target{V, O}}, small, 5)
	nan := changed(whole, func(Entry, []float32) {})
	third := nan.Entries()[2]
	nan.Of(third)[3] = float32(math.NaN())
	for want, a := range map[string]*Adapter{
		"found 3 numbers, expected":                        {whole.Layout, make([]float32, 3)},
		"found 0 numbers, expected":                        {Layout: whole.Layout},
		third.Name + ": element 3 is NaN, expected finite": nan,
	} {
		dir := filepath.Join(t.TempDir(), "new")
		if err := a.Save(dir, "x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected %q", err, want)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q left a folder: %v", want, err)
		}
	}
	if err := whole.WriteTensors(filepath.Join(t.TempDir(), "x"), whole.Values[:40]); err == nil ||
		!strings.Contains(err.Error(), "found 40 numbers, expected") {
		t.Errorf("%v", err)
	}
	if err := whole.WriteTensors(filepath.Join(t.TempDir(), "gradients"), nan.Values); err != nil {
		t.Errorf("gradients that are looked at may be none: %v", err)
	}
	short := &Adapter{Layout: whole.Layout}
	base := writeBase(t, 0)
	if err := Merge(base, short, filepath.Join(t.TempDir(), "merged")); err == nil || !strings.Contains(err.Error(), "found 0 numbers") {
		t.Errorf("%v", err)
	}
	defer func() {
		if s := recover(); s == nil || !strings.Contains(fmt.Sprint(s), "found 0 numbers") {
			t.Errorf("%v", s)
		}
	}()
	short.Hash()
}

// The same for a configuration that was changed after its layout was made.
func TestSaveRefusesAnotherConfiguration(t *testing.T) {
	for want, change := range map[string]func(l *Layout){
		"alpha is 0, expected":             func(l *Layout) { l.Config.Alpha = 0 },
		"rank is 0, expected":              func(l *Layout) { *l = Layout{} },
		"made for another configuration":   func(l *Layout) { l.Config.Rank = 2 },
		"made for another configuration o": func(l *Layout) { l.Dims.Layers++ },
	} {
		a, dir := random(t, Config{Rank: 4, Alpha: 4, Targets: []Target{K, O}}, small, 9), filepath.Join(t.TempDir(), "new")
		change(a.Layout)
		a.Values = a.Values[:a.Len()]
		if err := a.Save(dir, "x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected %q", err, want)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something was written: %v", want, err)
		}
	}
}

// Memory of the caller may have another size, which is refused, and any content: the padding becomes zero.
func TestLoadIntoRoomThatWasUsed(t *testing.T) {
	dir := t.TempDir()
	d := Dims{Layers: 1, Hidden: 5, Q: 7, KV: 3, Intermediate: 2}
	a := random(t, Config{Rank: 3, Alpha: 4, Targets: []Target{Q, V}}, d, 9)
	if err := a.Save(dir, "x"); err != nil {
		t.Fatal(err)
	}
	b, err := LoadInto(dir, d, func(n int) []float32 { return slices.Repeat([]float32{7}, n) })
	if err != nil || !slices.Equal(a.Values, b.Values) {
		t.Errorf("%v: got %v, expected %v", err, b.Values, a.Values)
	}
	for _, more := range []int{-1, 1} {
		if _, err := LoadInto(dir, d, func(n int) []float32 { return make([]float32, n+more) }); err == nil {
			t.Errorf("%d more numbers were taken", more)
		}
	}
}
