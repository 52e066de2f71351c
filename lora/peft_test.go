package lora

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// The keys and names that PEFT and vLLM expect.
func TestSavedConfig(t *testing.T) {
	dir := t.TempDir()
	if err := random(t, Config{Rank: 8, Alpha: 16, Targets: []Target{Up, Q}}, small, 5).Save(dir, "some/base"); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(mustRead(t, filepath.Join(dir, configName)), &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"peft_type": `"LORA"`, "task_type": `"CAUSAL_LM"`, "r": "8", "lora_alpha": "16", "lora_dropout": "0",
		"bias": `"none"`, "fan_in_fan_out": "false", "inference_mode": "true", "modules_to_save": "null",
		"rank_pattern": "{}", "alpha_pattern": "{}", "use_rslora": "false", "use_dora": "false",
		"base_model_name_or_path": `"some/base"`, "target_modules": `["q_proj","up_proj"]`,
	} {
		value, ok := got[name]
		if text, _ := json.Marshal(value); !ok || string(text) != want {
			t.Errorf("%s is %s, expected %s", name, text, want)
		}
	}
}

// saved is the directory of a small adapter.
func saved(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := random(t, Config{Rank: 4, Alpha: 8, Targets: []Target{Q, V}}, small, 2).Save(dir, "x"); err != nil {
		t.Fatal(err)
	}
	return dir
}

// edit is such a directory with its configuration edited.
func edit(t *testing.T, old, new string) string {
	t.Helper()
	dir := saved(t)
	path := filepath.Join(dir, configName)
	text := string(mustRead(t, path))
	if !strings.Contains(text, old) {
		t.Fatalf("%s does not hold %q", text, old)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(text, old, new, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// PEFT lists the modules of a small model one by one. A module missing in a layer is refused.
func TestTargetsMayBePaths(t *testing.T) {
	paths := func(layers int) (s string) {
		for i := range layers {
			s += fmt.Sprintf(`"model.layers.%d.self_attn.q_proj", `, i)
		}
		return s
	}
	want, err := Load(saved(t), small)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Load(edit(t, `"q_proj",`, paths(small.Layers)), small)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Values, want.Values) || !slices.Equal(got.Config.Targets, want.Config.Targets) {
		t.Errorf("targets %v by their paths are another adapter than %v", got.Config.Targets, want.Config.Targets)
	}
	larger := small
	larger.Layers++
	if _, err := Load(edit(t, `"q_proj",`, paths(small.Layers)), larger); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("a layer without an adapter: %v", err)
	}
}

// PEFT writes no task_type if none was given; an adapter does not depend on it.
func TestAnAdapterWithoutATaskIsRead(t *testing.T) {
	want, err := Load(saved(t), small)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Load(edit(t, `"task_type": "CAUSAL_LM"`, `"task_type": null`), small)
	if err != nil || !slices.Equal(got.Values, want.Values) {
		t.Errorf("it is refused, or another one: %v", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	check := func(name, dir string, d Dims, wants ...string) {
		t.Run(name, func(t *testing.T) {
			_, err := Load(dir, d)
			if err == nil || !badinput.Is(err) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("got %v, expected an input error on one line", err)
			}
			for _, want := range wants {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, expected %q", err, want)
				}
			}
		})
	}
	for _, c := range []struct{ old, new, want string }{
		{`"r": 4`, `"r": "4"`, `field "r" is "4", expected a whole number above 0`},
		{`"r": 4`, `"r": 0`, `field "r" is 0`},
		{`"r": 4`, `"r": 1000000000`, `rank is 1000000000`},
		{`"r": 4,`, ``, `field "r" is missing`},
		{`"r": 4`, `"r": 5`, `lora_A.weight" has shape [4 20], expected [5 20]`},
		{`"lora_alpha": 8`, `"lora_alpha": 1e999`, `field "lora_alpha" is 1e999, expected a number above 0 and at most 3.4e38`},
		{`"use_rslora": false`, `"use_rslora": true`, `field "use_rslora" is true, which is not supported`},
		{`"use_dora": false`, `"use_dora": true`, `field "use_dora" is true`},
		{`"rank_pattern": {}`, `"rank_pattern": {"q_proj": 8}`, `field "rank_pattern" is {"q_proj": 8}`},
		{`"alpha_pattern": {}`, `"alpha_pattern": {"q_proj": 8}`, `field "alpha_pattern"`},
		{`"r": 4`, `"r": 4, "lora_bias": true`, `field "lora_bias" is true`},
		{`"r": 4`, `"r": 4, "of_the_future": {"deep": [1]}`, `field "of_the_future" is {"deep": [1]}`},
		{`"modules_to_save": null`, `"modules_to_save": ["lm_head"]`, `field "modules_to_save" is ["lm_head"]`},
		{`"bias": "none"`, `"bias": "all"`, `field "bias" is "all"`},
		{`"fan_in_fan_out": false`, `"fan_in_fan_out": true`, `field "fan_in_fan_out"`},
		{`"init_lora_weights": true`, `"init_lora_weights": "pissa"`, `field "init_lora_weights" is "pissa"`},
		{`"peft_type": "LORA"`, `"peft_type": "IA3"`, `field "peft_type" is "IA3", expected "LORA"`},
		{`"task_type": "CAUSAL_LM"`, `"task_type": "SEQ_CLS"`, `field "task_type" is "SEQ_CLS"`},
		{`"q_proj"`, `"qkv_proj"`, `field "target_modules": target "qkv_proj" is not known; expected one of ["q_proj"`},
		{`"q_proj"`, `"v_proj"`, `target v_proj is there twice`},
		{`"q_proj"`, `"k_proj"`, `tensor "base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight" is missing`},
		{`"q_proj",`, ``, `q_proj.lora_A.weight" has no place: adapter_config.json and the model ask for [v_proj] in layers 0 to 2`},
		{"[\n    \"q_proj\",\n    \"v_proj\"\n  ]", `".*_proj"`, `field "target_modules" is ".*_proj", expected a list`},
		{`{`, ``, `it is not a JSON object`},
	} {
		file := configName
		if strings.Contains(c.want, "lora_A") {
			file = weightsName // here the two do not match
		}
		check(c.new, edit(t, c.old, c.new), small, file+": ", c.want)
	}
	larger, fewer := small, small
	larger.Layers, fewer.Hidden = 4, 16
	check("more layers", saved(t), larger, weightsName, `layers.3.self_attn.q_proj.lora_A.weight" is missing`)
	check("other width", saved(t), fewer, weightsName, `has shape [4 20], expected [4 16]`)
	fewer.Hidden, fewer.Layers = small.Hidden, 2
	check("fewer layers", saved(t), fewer, weightsName, `layers.2.self_attn.q_proj.lora_A.weight" has no place`)
	check("no folder", filepath.Join(t.TempDir(), "none"), small, "none", "PEFT adapter directory")
	dir := saved(t)
	if err := os.Remove(filepath.Join(dir, weightsName)); err != nil {
		t.Fatal(err)
	}
	check("no weights", dir, small, weightsName, "no such file")
	check("long", edit(t, `{`, strings.Repeat(" ", maxConfig)+`{`), small, configName, "at most 1048576 are allowed")
}

// The reference adapters have exactly the numbers of their files, and survive a round trip.
func TestReferenceAdapters(t *testing.T) {
	for model, d := range map[string]Dims{
		"qwen3-tied":           {Layers: 3, Hidden: 64, Q: 128, KV: 64, Intermediate: 160},
		"qwen3-untied-sharded": {Layers: 2, Hidden: 96, Q: 96, KV: 16, Intermediate: 224},
	} {
		for _, name := range []string{"adapter", "train_init", "train_final"} {
			dir, copied := filepath.Join("..", "model", "testdata", "golden", model, name), t.TempDir()
			a, err := Load(dir, d)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Save(copied, "golden"); err != nil {
				t.Fatal(err)
			}
			want, got := rawTensors(t, filepath.Join(dir, weightsName)), rawTensors(t, filepath.Join(copied, weightsName))
			if len(want) != len(got) || len(want) != len(a.Entries()) {
				t.Fatalf("%s/%s: %d tensors, loaded as %d, saved as %d", model, name, len(want), len(a.Entries()), len(got))
			}
			for _, e := range a.Entries() {
				if !bytes.Equal(want[e.Name], got[e.Name]) {
					t.Errorf("%s/%s: %s was saved with other bytes", model, name, e.Name)
				}
				for i, x := range a.Of(e) {
					if math.Float32bits(x) != binary.LittleEndian.Uint32(want[e.Name][4*i:]) {
						t.Fatalf("%s/%s: %s[%d] was loaded as %v", model, name, e.Name, i, x)
					}
				}
			}
			if a.Scale() != 2 {
				t.Errorf("%s/%s: scale %v, expected 2", model, name, a.Scale())
			}
		}
	}
}

// rawTensors reads a safetensors file without the package under test.
func rawTensors(t *testing.T, path string) map[string][]byte {
	data := mustRead(t, path)
	n := 8 + int(binary.LittleEndian.Uint64(data))
	var head map[string]struct {
		Offsets [2]int `json:"data_offsets"`
	}
	if err := json.Unmarshal(data[8:n], &head); err != nil {
		t.Fatal(err)
	}
	delete(head, "__metadata__")
	out := make(map[string][]byte)
	for name, h := range head {
		out[name] = data[n+h.Offsets[0] : n+h.Offsets[1]]
	}
	return out
}

// No text makes the parser panic, and an accepted one can be laid out and written again.
func FuzzParseConfig(f *testing.F) {
	text, err := encodeConfig(Defaults(), "base")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"peft_type":"LORA","r":1,"lora_alpha":0.5,"target_modules":["v_proj"],"bias":"none"}`))
	f.Add([]byte(`{"peft_type":null,"r":null,"lora_alpha":null,"target_modules":null}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parseConfig(text)
		if err != nil {
			return
		}
		if _, err := NewLayout(c, small); err != nil {
			t.Fatalf("accepted %q, but: %v", text, err)
		}
		again, err := encodeConfig(c, "")
		if err != nil {
			t.Fatal(err)
		}
		if c2, err := parseConfig(again); err != nil || c2.Rank != c.Rank || c2.Alpha != c.Alpha {
			t.Fatalf("%+v was written as %q and read as %+v, %v", c, again, c2, err)
		}
	})
}
