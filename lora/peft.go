package lora

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/openfile"
)

// peftConfig is adapter_config.json as we write it: the fields that PEFT and vLLM expect, in the order of
// their keys. Fields of newer versions of PEFT are left out; their defaults are right.
type peftConfig struct {
	AlphaPattern      struct{} `json:"alpha_pattern"`
	AutoMapping       *string  `json:"auto_mapping"`
	BaseModel         string   `json:"base_model_name_or_path"`
	Bias              string   `json:"bias"`
	FanInFanOut       bool     `json:"fan_in_fan_out"`
	InferenceMode     bool     `json:"inference_mode"`
	InitLoraWeights   bool     `json:"init_lora_weights"`
	LayerReplication  *string  `json:"layer_replication"`
	LayersPattern     *string  `json:"layers_pattern"`
	LayersToTransform *string  `json:"layers_to_transform"`
	LoftqConfig       struct{} `json:"loftq_config"`
	LoraAlpha         float64  `json:"lora_alpha"`
	LoraDropout       float64  `json:"lora_dropout"`
	MegatronConfig    *string  `json:"megatron_config"`
	MegatronCore      string   `json:"megatron_core"`
	ModulesToSave     *string  `json:"modules_to_save"`
	PeftType          string   `json:"peft_type"`
	R                 int      `json:"r"`
	RankPattern       struct{} `json:"rank_pattern"`
	Revision          *string  `json:"revision"`
	TargetModules     []string `json:"target_modules"`
	TaskType          string   `json:"task_type"`
	UseDora           bool     `json:"use_dora"`
	UseRslora         bool     `json:"use_rslora"`
}

// encodeConfig is the text of adapter_config.json.
func encodeConfig(c Config, base string) ([]byte, error) {
	p := peftConfig{
		BaseModel: base, Bias: "none", InferenceMode: true, InitLoraWeights: true, LoraAlpha: c.Alpha,
		MegatronCore: "megatron.core", PeftType: "LORA", R: c.Rank, TaskType: "CAUSAL_LM",
	}
	for _, t := range c.Targets {
		p.TargetModules = append(p.TargetModules, t.String())
	}
	text, err := json.MarshalIndent(p, "", "  ")
	return append(text, '\n'), err
}

// harmless are the fields that do not change what an adapter's tensors mean. Dropout is one of them: it
// matters in training only, and ours has none.
var harmless = []string{
	"auto_mapping", "base_model_name_or_path", "ensure_weight_tying", "inference_mode", "lora_dropout",
	"megatron_core", "peft_version", "qalora_group_size", "revision", "runtime_config",
}

// maxConfig is far above any honest adapter_config.json.
const maxConfig = 1 << 20

// lastAdapterHint is a hint for a folder that is no adapter: the last adapter inside it, as in the directory of a run.
func lastAdapterHint(dir string) string {
	var found []string
	for _, where := range []string{"adapter", filepath.Join("checkpoints", "*", "adapter")} {
		paths, _ := filepath.Glob(filepath.Join(dir, where, configName))
		found = append(found, paths...)
	}
	if len(found) == 0 {
		return ""
	}
	return ", such as " + filepath.Dir(found[len(found)-1])
}

// ReadConfig reads the configuration in a PEFT adapter directory.
func ReadConfig(dir string) (Config, error) {
	path := filepath.Join(dir, configName)
	info, err := os.Stat(path)
	if err != nil {
		return Config{}, badinput.Errorf("%w; expected a PEFT adapter directory%s", err, lastAdapterHint(dir))
	}
	if info.Size() > maxConfig {
		return Config{}, badinput.Errorf("%s: it has %d bytes, at most %d are allowed", path, info.Size(), maxConfig)
	}
	text, err := openfile.Read(path)
	if err != nil {
		return Config{}, badinput.Errorf("%w", err)
	}
	c, err := parseConfig(text)
	if err != nil {
		return Config{}, badinput.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// parseConfig reads the fields that we support and ignores harmless ones. It refuses every other field
// that is not switched off, as it may change what the tensors mean.
func parseConfig(text []byte) (Config, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return Config{}, fmt.Errorf("it is not a JSON object: %w", err)
	}
	for _, name := range []string{"peft_type", "r", "lora_alpha", "target_modules"} {
		if fields[name] == nil {
			return Config{}, fmt.Errorf("field %q is missing", name)
		}
	}
	var c Config
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if slices.Contains(harmless, name) {
			continue
		}
		if err := c.take(name, fields[name]); err != nil {
			return Config{}, err
		}
	}
	return c, c.check()
}

// take puts one field into c, or refuses it.
func (c *Config) take(name string, value json.RawMessage) error {
	expected := func(what string) error {
		return fmt.Errorf("field %q is %s, expected %s", name, short(value), what)
	}
	switch name {
	case "peft_type":
		if string(value) != `"LORA"` {
			return expected(`"LORA"`)
		}
	case "task_type":
		if s := string(value); s != `"CAUSAL_LM"` && s != "null" {
			return expected(`"CAUSAL_LM"`)
		}
	case "r":
		if err := json.Unmarshal(value, &c.Rank); err != nil || c.Rank < 1 {
			return expected("a whole number above 0")
		}
	case "lora_alpha":
		if err := json.Unmarshal(value, &c.Alpha); err != nil || !(c.Alpha > 0) {
			return expected("a number above 0 and at most 3.4e38")
		}
	case "target_modules":
		return c.takeTargets(value)
	case "init_lora_weights":
		// Other ways to start change the base weights too.
		if !slices.Contains([]string{"true", "false", "null", `"gaussian"`, `"eva"`, `"orthogonal"`}, string(value)) {
			return expected("true: adapters that go with changed base weights cannot be loaded")
		}
	default:
		if !switchesOff(value) {
			return fmt.Errorf("field %q is %s, which is not supported; only plain LoRA adapters can be loaded", name, short(value))
		}
	}
	return nil
}

// takeTargets reads names of linears, with or without the paths of their modules, as PEFT writes them for small models. A
// linear that is adapted in some layers only is found when its tensors are read: some are missing.
func (c *Config) takeTargets(value json.RawMessage) error {
	var names []string
	if err := json.Unmarshal(value, &names); err != nil || len(names) == 0 {
		return fmt.Errorf("field \"target_modules\" is %s, expected a list of some of %q", short(value), targetNames)
	}
	for _, name := range names {
		dot := strings.LastIndexByte(name, '.')
		t, err := ParseTarget(name[dot+1:])
		if err != nil {
			return fmt.Errorf("field \"target_modules\": %w", err)
		}
		if dot >= 0 && slices.Contains(c.Targets, t) {
			continue // in another layer
		}
		c.Targets = append(c.Targets, t)
	}
	return nil
}

// switchesOff reports whether a value switches its field off.
func switchesOff(value json.RawMessage) bool {
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return false
	}
	return slices.Contains([]string{"null", "false", "0", `""`, `"none"`, "[]", "{}"}, b.String())
}

// short is a value for a one-line message.
func short(value json.RawMessage) string {
	s := strings.Join(strings.Fields(string(value)), " ")
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}
