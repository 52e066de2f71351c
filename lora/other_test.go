package lora

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/nlpodyssey/safetensors"

	"github.com/seed-7879b91d/grpo/internal/tensorfile"
)

// A tensor that is not a weight, such as a list of positions, is copied, and the check notices if it differs.
func TestMergeTakesAlongWhatIsNoWeight(t *testing.T) {
	base, out := t.TempDir(), filepath.Join(t.TempDir(), "merged")
	before := open(t, writeBase(t, 0))
	positions := tensorfile.Other{Name: "model.position_ids", DType: safetensors.I64, Shape: []int{1, 2}, Bytes: []byte("0123456789abcdef")}
	all := []tensorfile.Source{tensorfile.FromOther(positions)}
	for _, name := range before.Names() {
		w, err := before.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tensorfile.FromTensor(w))
	}
	if err := tensorfile.WriteModel(base, all, nil); err != nil {
		t.Fatal(err)
	}
	a := random(t, Defaults(), small, 4)
	if err := Merge(base, a, out); err != nil {
		t.Fatal(err)
	}
	if got, ok := open(t, out).Other(positions.Name); !ok || !reflect.DeepEqual(got, positions) {
		t.Errorf("%v became %v", positions, got)
	}
	if _, err := CheckMerge(base, a, out); err != nil {
		t.Error(err)
	}
	path := filepath.Join(out, tensorfile.SingleName)
	damaged := bytes.Replace(mustRead(t, path), positions.Bytes, []byte("0123456789abcdeF"), 1)
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := CheckMerge(base, a, out); err == nil || !strings.Contains(err.Error(), "it differs in the merged model") {
		t.Errorf("positions that are others: %v", err)
	}
}

// A nil adapter is refused by name.
func TestNoAdapterIsNotSaved(t *testing.T) {
	defer func() {
		if said := recover(); said != "lora.Adapter.Save: the argument a is nil, expected an adapter, such as lora.New makes" {
			t.Errorf("found %v", said)
		}
	}()
	_ = (*Adapter)(nil).Save(t.TempDir(), "base")
}
