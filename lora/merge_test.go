package lora

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
)

// writeBase writes a model directory of small's shape: weights in three encodings and two shards, and the other files of a model.
func writeBase(t testing.TB, bad float64) string {
	dir := t.TempDir()
	shards := map[string][]tensorfile.Source{}
	weightMap := []string{}
	add := func(name string, enc kernels.Encoding, shape ...int) {
		n := 1
		for _, s := range shape {
			n *= s
		}
		values, coded := make([]float64, n), make([]byte, n*enc.Size())
		for i := range values {
			values[i] = float64(uniform(tensorKey(3, name), uint64(i)))
		}
		if strings.Contains(name, "2.mlp.up_proj") {
			values[n-1] = bad
		}
		tensorfile.Narrow(coded, enc, values)
		shard := fmt.Sprintf("model-%05d-of-00002.safetensors", len(name)%2+1)
		shards[shard] = append(shards[shard],
			tensorfile.FromTensor(tensorfile.Tensor{Name: name, Encoding: enc, Shape: shape, Bytes: coded}))
		weightMap = append(weightMap, fmt.Sprintf("%q: %q", name, shard))
	}
	add("model.embed_tokens.weight", kernels.EncodedBF16, 50, small.Hidden)
	add("model.norm.weight", kernels.EncodedF32, small.Hidden)
	for layer := range small.Layers {
		for _, target := range AllTargets() {
			out, in := small.Shape(target)
			enc := []kernels.Encoding{kernels.EncodedBF16, kernels.EncodedF16, kernels.EncodedF32}[(layer+int(target))%3]
			add(fmt.Sprintf("model.layers.%d.%s.weight", layer, target.module()), enc, out, in)
		}
	}
	for name, sources := range shards {
		if err := tensorfile.Write(filepath.Join(dir, name), sources, map[string]string{"format": "pt", "shard": name}); err != nil {
			t.Fatal(err)
		}
	}
	index := `{"metadata": {}, "weight_map": {` + strings.Join(weightMap, ",") + "}}"
	if err := os.WriteFile(filepath.Join(dir, tensorfile.IndexName), []byte(index), 0o600); err != nil {
		t.Fatal(err)
	}
	writeCompanions(t, dir)
	return dir
}

// writeCompanions writes the files beside the weights.
func writeCompanions(t testing.TB, dir string) {
	for name, text := range map[string]string{
		"config.json":          `{"architectures": []}`,
		"tokenizer.json":       "{}",
		"merges.txt":           "a b",
		"LICENSE":              "do as you like",
		"pytorch_model.bin":    "weights that nobody wants twice",
		"other.safetensors":    "not a shard",
		".gitattributes":       "",
		"original/params.json": "{}",
		"additional_chat_templates/tool_use.jinja": "T",
		"pytorch_model.index.json":                 "{}",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The Hub's cache consists of links.
	if err := os.Symlink(filepath.Join(dir, "LICENSE"), filepath.Join(dir, "NOTICE")); err != nil {
		t.Fatal(err)
	}
}

// exactMerge is w + alpha/rank·b·a without any rounding.
func exactMerge(w float32, alpha float64, rank int, b, a func(r int) float32) *big.Float {
	number := func(x float64) *big.Float { return new(big.Float).SetPrec(500).SetFloat64(x) }
	sum := number(0)
	for r := range rank {
		sum.Add(sum, number(0).Mul(number(float64(b(r))), number(float64(a(r)))))
	}
	sum.Mul(sum, number(alpha/float64(rank)))
	return sum.Add(sum, number(float64(w)))
}

// Each merged number is a nearest number of its encoding to the exact one; all else is copied.
func TestMerge(t *testing.T) {
	base, out := writeBase(t, 0), filepath.Join(t.TempDir(), "deep", "merged")
	a := random(t, Config{Rank: 5, Alpha: 7, Targets: []Target{Q, K, O, Up, Down}}, small, 11)
	if err := Merge(base, a, out); err != nil {
		t.Fatal(err)
	}
	before, after := open(t, base), open(t, out)
	if fmt.Sprint(before.Names()) != fmt.Sprint(after.Names()) {
		t.Fatalf("%v became %v", before.Names(), after.Names())
	}
	corrected := 0
	for _, name := range before.Names() {
		w, err := before.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := after.Tensor(name, w.Shape...)
		if err != nil {
			t.Fatal(err)
		}
		if m.Encoding != w.Encoding || filepath.Base(m.File) != filepath.Base(w.File) {
			t.Errorf("%s changed its encoding or its file", name)
		}
		ea, eb := entriesOf(a, name)
		if ea.Rows == 0 {
			if !bytes.Equal(w.Bytes, m.Bytes) {
				t.Errorf("%s has no adapter, and changed", name)
			}
			continue
		}
		corrected++
		checkMerged(t, a, ea, eb, w, m)
	}
	if corrected != small.Layers*5 {
		t.Errorf("%d weights were corrected, expected %d", corrected, small.Layers*5)
	}
	for _, f := range after.Files() {
		if f.Metadata()["shard"] != filepath.Base(f.Path()) {
			t.Errorf("%s has metadata %v", f.Path(), f.Metadata())
		}
	}
	checkCompanions(t, out)
}

// entriesOf returns the adapter's pair for a weight of the base, or entries without rows.
func entriesOf(a *Adapter, weight string) (ea, eb Entry) {
	for _, e := range a.Entries() {
		switch {
		case !strings.HasPrefix(e.Name, "base_model.model."+strings.TrimSuffix(weight, "weight")):
		case e.Side == A:
			ea = e
		default:
			eb = e
		}
	}
	return ea, eb
}

func checkCompanions(t *testing.T, out string) {
	t.Helper()
	var names []string
	found, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		names = append(names, f.Name())
	}
	const want = "LICENSE NOTICE additional_chat_templates config.json merges.txt model-00001-of-00002.safetensors " +
		"model-00002-of-00002.safetensors model.safetensors.index.json tokenizer.json"
	if strings.Join(names, " ") != want {
		t.Errorf("the merged folder holds %v, expected %v", names, want)
	}
	if text := mustRead(t, filepath.Join(out, "additional_chat_templates", "tool_use.jinja")); string(text) != "T" {
		t.Errorf("a chat template was copied as %q", text)
	}
	if text := mustRead(t, filepath.Join(out, "NOTICE")); string(text) != "do as you like" {
		t.Errorf("a link was copied as %q", text)
	}
}

func open(t testing.TB, dir string) *tensorfile.Set {
	t.Helper()
	s, err := tensorfile.OpenModel(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func checkMerged(t *testing.T, a *Adapter, ea, eb Entry, w, m tensorfile.Tensor) {
	t.Helper()
	was, is := tensorfile.Float32s(w), tensorfile.Float32s(m)
	changed := false
	for i := range is {
		row, col := i/ea.Cols, i%ea.Cols
		exact := exactMerge(was[i], a.Config.Alpha, a.Config.Rank,
			func(r int) float32 { return a.Of(eb)[row*eb.Cols+r] }, func(r int) float32 { return a.Of(ea)[r*ea.Cols+col] })
		x, _ := exact.Float64()
		// Half the distance between neighbours, and the error of double precision itself.
		bits := map[kernels.Encoding]int{kernels.EncodedBF16: 8, kernels.EncodedF16: 11, kernels.EncodedF32: 24}[m.Encoding]
		half := math.Ldexp(1, max(math.Ilogb(x), -14)-bits)
		if math.Abs(float64(is[i])-x) > half*(1+1e-6) {
			t.Fatalf("%s[%d,%d]: %v + correction is %v, merged to %v", w.Name, row, col, was[i], x, is[i])
		}
		changed = changed || was[i] != is[i]
	}
	if !changed {
		t.Errorf("%s did not change", w.Name)
	}
}

// Merging twice gives the same bytes, also with more rows than a block.
func TestMergeRepeats(t *testing.T) {
	base := writeBase(t, 0)
	a := random(t, Defaults(), small, 4)
	first, second := filepath.Join(t.TempDir(), "m"), t.TempDir() // an empty folder is accepted
	for _, out := range []string{first, second} {
		if err := Merge(base, a, out); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range open(t, first).Files() {
		if !bytes.Equal(mustRead(t, f.Path()), mustRead(t, filepath.Join(second, filepath.Base(f.Path())))) {
			t.Errorf("%s: merged twice, two different files", f.Path())
		}
	}
}

// A correction of zero changes nothing; a long weight is processed in several blocks.
func TestMergeOfNothingChangesNothing(t *testing.T) {
	const out, in = 1031, 9
	values := make([]float32, out*in)
	for i := range values {
		values[i] = uniform(1, uint64(i))
	}
	var was, is bytes.Buffer
	if err := tensorfile.WriteFloat32s(&was, values); err != nil {
		t.Fatal(err)
	}
	w := tensorfile.Tensor{Name: "w", Encoding: kernels.EncodedF32, Shape: []int{out, in}, Bytes: was.Bytes()}
	c := newCorrection(make([]float32, 2*in), make([]float32, out*2), Config{Rank: 2, Alpha: 2})
	if err := c.write(&is, w); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(is.Bytes(), was.Bytes()) {
		t.Error("weights changed")
	}
	c.a[in-1], c.b[2*out-2] = 3, 0.5 // the last number of the last row
	is.Reset()
	if err := c.write(&is, w); err != nil {
		t.Fatal(err)
	}
	if got := is.Bytes(); bytes.Equal(got, was.Bytes()) || !bytes.Equal(got[:len(got)-4], was.Bytes()[:len(got)-4]) {
		t.Error("expected the last number to change, and no other")
	}
}

// After any error there is no merged model.
func TestMergeRefuses(t *testing.T) {
	a := random(t, Defaults(), small, 4)
	large := small
	large.Layers = 4
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, base, out, want string
		a                     *Adapter
	}{
		{"no model", t.TempDir(), "", "neither model.safetensors nor", a},
		{"other model", writeBase(t, 0), "", `tensor "model.layers.3.self_attn.q_proj.weight" is missing`, random(t, Defaults(), large, 4)},
		{"NaN", writeBase(t, math.NaN()), "", `tensor "model.layers.2.mlp.up_proj.weight": element 659 is NaN`, a},
		{"not empty", writeBase(t, 0), full, "the folder is not empty", a},
	} {
		t.Run(c.name, func(t *testing.T) {
			parent := t.TempDir()
			out := c.out
			if out == "" {
				out = filepath.Join(parent, "out")
			}
			err := Merge(c.base, c.a, out)
			if err == nil || !badinput.Is(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, expected %q", err, c.want)
			}
			if found, _ := os.ReadDir(parent); len(found) != 0 {
				t.Errorf("left behind: %v", found)
			}
		})
	}
}

func BenchmarkMergeDown(b *testing.B) {
	const out, in, rank = 1024, 3072, 32
	w := tensorfile.Tensor{Name: "w", Encoding: kernels.EncodedBF16, Shape: []int{out, in}, Bytes: make([]byte, out*in*2)}
	c := newCorrection(make([]float32, rank*in), make([]float32, out*rank), Config{Rank: rank, Alpha: 32})
	b.SetBytes(int64(len(w.Bytes)))
	for b.Loop() {
		if err := c.write(io.Discard, w); err != nil {
			b.Fatal(err)
		}
	}
}

// cancelAfter is a context that is cancelled after Err was called a number of times.
type cancelAfter struct {
	context.Context
	left atomic.Int64
}

func (o *cancelAfter) Err() error {
	if o.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// Cancelling a merge at any moment leaves nothing, and ends the check early.
func TestAStoppedMergeLeavesNothing(t *testing.T) {
	base, whole := writeBase(t, 0), filepath.Join(t.TempDir(), "merged")
	a := random(t, Defaults(), small, 4)
	if err := Merge(base, a, whole); err != nil {
		t.Fatal(err)
	}
	for _, asked := range []int64{0, 1, 2, 7, 20} {
		ctx := &cancelAfter{Context: t.Context()}
		ctx.left.Store(asked)
		parent := t.TempDir()
		if err := MergeContext(ctx, base, a, filepath.Join(parent, "out")); !errors.Is(err, context.Canceled) || badinput.Is(err) {
			t.Errorf("stopped at %d: %v", asked, err)
		}
		if found, _ := os.ReadDir(parent); len(found) != 0 {
			t.Errorf("left behind: %v", found)
		}
		ctx.left.Store(asked)
		if _, err := CheckMergeContext(ctx, base, a, whole); !errors.Is(err, context.Canceled) {
			t.Errorf("stopped at %d: %v", asked, err)
		}
	}
}
