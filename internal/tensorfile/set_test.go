package tensorfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sharded makes a model of two shards with the given index.
func sharded(t testing.TB, index string) string {
	dir := t.TempDir()
	for shard, names := range map[string][]string{"one.safetensors": {"a", "c"}, "two.safetensors": {"b"}} {
		var sources []Source
		for _, name := range names {
			sources = append(sources, FromFloat32s(name, []float32{1, 2, 3}, 3))
		}
		if err := Write(filepath.Join(dir, shard), sources, nil); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, IndexName), []byte(index))
	return dir
}

const goodIndex = `{"metadata":{"total_size":36},"weight_map":{"a":"one.safetensors","b":"two.safetensors","c":"one.safetensors"}}`

func TestOpenModel(t *testing.T) {
	dir := sharded(t, goodIndex)
	s, err := OpenModel(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := fmt.Sprintln(s.Names(), len(s.Files()), filepath.Base(s.Files()[0].Path()),
		filepath.Base(s.Index())); got != "[a b c] 2 one.safetensors "+IndexName+"\n" {
		t.Errorf("got %s", got)
	}
	for name, shard := range map[string]string{"a": "one", "b": "two", "c": "one"} {
		x, err := s.Tensor(name, 3)
		if err != nil || filepath.Base(x.File) != shard+".safetensors" || fmt.Sprint(Float32s(x)) != "[1 2 3]" || !s.Has(name) {
			t.Errorf("%s is %v in %s: %v", name, x.Shape, x.File, err)
		}
		s.Release(name)
	}
	s.Release("not there")
	refused(t, second(s.Tensor("d")), s.Index(), `tensor "d" is missing`)
	refused(t, second(s.Tensor("a", 1, 3)), "one.safetensors", `tensor "a" has shape [3], expected [1 3]`)

	// A single file takes precedence over an index.
	if err := Write(filepath.Join(dir, SingleName), []Source{FromFloat32s("only", nil, 0)}, nil); err != nil {
		t.Fatal(err)
	}
	single, err := OpenModel(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer single.Close()
	if got := fmt.Sprintln(single.Names(), len(single.Files()), single.Index()); got != "[only] 1 \n" {
		t.Errorf("got %s", got)
	}
	refused(t, second(single.Tensor("a")), filepath.Join(dir, SingleName), `tensor "a" is missing`)
}

func TestOpenModelRefuses(t *testing.T) {
	for name, c := range map[string]struct{ index, want string }{
		"absent shard": {strings.Replace(goodIndex, "two.s", "three.s", 1),
			`shard "three.safetensors" is absent; model.safetensors.index.json lists it for tensor "b"`},
		"absent tensor": {strings.Replace(goodIndex, `"c"`, `"d"`, 1),
			`one.safetensors: tensor "d" is missing; model.safetensors.index.json lists it there`},
		"other shard": {strings.Replace(goodIndex, `"c":"one`, `"c":"two`, 1), `two.safetensors: tensor "c" is missing`},
		"escape": {strings.Replace(goodIndex, "two.s", "../two.s", 1),
			`tensor "b" is said to be in "../two.safetensors", expected a file inside`},
		"absolute":        {strings.Replace(goodIndex, "two.s", "/two.s", 1), `expected a file inside`},
		"hidden escape":   {strings.Replace(goodIndex, "two.s", "x/../../two.s", 1), `expected a file inside`},
		"nothing":         {strings.Replace(goodIndex, "two.safetensors", "", 1), `expected a file inside`},
		"the folder":      {strings.Replace(goodIndex, "two.safetensors", "x/..", 1), `expected a file inside`},
		"not a shard":     {strings.Replace(goodIndex, "two.safetensors", IndexName, 1), IndexName + ": the header claims"},
		"twice":           {strings.Replace(goodIndex, `"c"`, `"a"`, 1), `"a" is there twice`},
		"not JSON":        {"{", "it ends too early"},
		"no map":          {"{}", `"weight_map" is missing or empty`},
		"empty map":       {`{"weight_map":{}}`, `"weight_map" is missing or empty`},
		"a list":          {`{"weight_map":["one.safetensors"]}`, "it is not an index"},
		"number as shard": {`{"weight_map":{"a":1}}`, "it is not an index"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := sharded(t, c.index)
			s, err := OpenModel(dir)
			if s != nil {
				t.Error("a set came with the error")
			}
			refused(t, err, dir, c.want)
			if mapped, err := os.ReadFile("/proc/self/maps"); err == nil && strings.Contains(string(mapped), dir) {
				t.Error("a shard stays mapped")
			}
		})
	}
	dir := t.TempDir()
	refused(t, second(OpenModel(dir)), dir+": it holds neither model.safetensors nor model.safetensors.index.json")
	write(t, filepath.Join(dir, SingleName), []byte("short"))
	refused(t, second(OpenModel(dir)), filepath.Join(dir, SingleName)+": the file has 5 bytes")

	big := sharded(t, goodIndex)
	if err := os.Truncate(filepath.Join(big, IndexName), maxHeader+1); err != nil { // a sparse file
		t.Fatal(err)
	}
	refused(t, second(OpenModel(big)), "it has 100000001 bytes, at most 100000000")
}

// The reference models open, and all their numbers are finite.
func TestReferenceModels(t *testing.T) {
	for model, want := range map[string]struct{ files, tensors, bytes int }{
		"qwen3-tied": {1, 2 + 3*11, 0}, "qwen3-untied-sharded": {3, 3 + 2*11, 541760},
	} {
		s, err := OpenModel(filepath.Join("..", "..", "model", "testdata", "golden", model))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		total := 0
		for _, name := range s.Names() {
			x, err := s.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := CheckFinite(x); err != nil {
				t.Error(err)
			}
			total += len(x.Bytes)
		}
		if len(s.Files()) != want.files || len(s.Names()) != want.tensors || want.bytes != 0 && total != want.bytes {
			t.Errorf("%s: %d files, %d tensors, %d bytes; expected %+v", model, len(s.Files()), len(s.Names()), total, want)
		}
	}
}

// No index makes the parser panic, and no accepted shard is outside the model's folder.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(goodIndex))
	f.Add([]byte(`{"weight_map":{"a":"../x"}}`))
	f.Add([]byte(`{"weight_map":null,"WEIGHT_MAP":{"a":"b//c"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		weightMap, err := parseIndex(text)
		if err != nil {
			return
		}
		for name, shard := range weightMap {
			path := filepath.Join("/models/this", shard)
			if !strings.HasPrefix(path, "/models/this/") {
				t.Fatalf("tensor %q is looked for in %q", name, path)
			}
		}
	})
}

// Chat templates are copied with a model, but no other files of their folder; most models have none.
func TestTemplatesAreCopied(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	if err := CopyTemplates(from, to); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(from, "additional_chat_templates")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"about.txt", "tool_use.jinja"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := CopyTemplates(from, to); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(to, "*", "*"))
	if err != nil || len(found) != 1 || filepath.Base(found[0]) != "tool_use.jinja" {
		t.Fatalf("copied %q, %v", found, err)
	}
	if err := CopyTemplates(from, filepath.Join(found[0], "x")); err == nil {
		t.Error("nothing can be written below a file")
	}
}
