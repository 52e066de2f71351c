package configs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// write writes c.yaml in a new folder and changes to it, so that messages are short.
func write(t *testing.T, text string) {
	t.Helper()
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("c.yaml", []byte(text), 0o644))
}

func TestLayers(t *testing.T) {
	write(t,
		"\uFEFFversion: 1\nextends: tiny_smoke\nlora_rank: 4 # small\nstop: [\"a,b\", '#']\ndata_sources:\n  - x\n  - y\ncache_memory: 1.5GiB\n")
	c, err := Load(Source{File: "c.yaml",
		Overrides: []string{"learning_rate=1e-3", "lora_targets=q_proj,v_proj", "seed=18446744073709551615"}})
	require.NoError(t, err)
	want := Defaults()
	require.Equal(t, want.Temperature, c.Temperature)             // a default
	require.Equal(t, "tiny", c.Model)                             // from the preset of the preset
	require.Equal(t, 15, c.MaxSteps)                              // from the preset
	require.Equal(t, 4, c.LoRARank)                               // from the file
	require.Equal(t, 1e-3, c.LearningRate)                        // from an override
	require.Equal(t, []string{"q_proj", "v_proj"}, c.LoRATargets) //
	require.Equal(t, []string{"a,b", "#"}, c.Stop)
	require.Equal(t, []string{"x", "y"}, c.DataSources)
	require.Equal(t, Bytes(3<<29), c.CacheMemory)
	require.Equal(t, uint64(1<<64-1), c.Seed)

	beside, err := Load(Source{File: "c.yaml", Preset: "tiny_smoke"})
	require.NoError(t, err)
	require.Equal(t, 4, beside.LoRARank)

	write(t, "version: 1\nlora_rank: 4\n")
	below, err := Load(Source{File: "c.yaml", Preset: "tiny"})
	require.NoError(t, err)
	require.Equal(t, 4, below.LoRARank)
	require.Equal(t, "tiny", below.Model)
}

// The settings of a run are a base like a preset: overrides change them and the settings that follow.
func TestSettingsOfARunAreABase(t *testing.T) {
	base, err := Load(Source{Preset: "tiny_smoke", Overrides: []string{"max_steps=7", "lora_targets=q_proj"}})
	require.NoError(t, err)
	kept := *base
	c, err := Load(Source{Base: base, Overrides: []string{"learning_rate=1e-3", "lora_targets=v_proj", "loss=ppo"}})
	require.NoError(t, err)
	require.Equal(t, &kept, base, "Load must not change the base")
	want := kept
	want.LearningRate, want.LoRATargets, want.Loss, want.ClipLow, want.ClipHigh = 1e-3, []string{"v_proj"}, "ppo", 0.8, 1.2
	require.Equal(t, &want, c)
	_, err = Load(Source{Base: base, Preset: "tiny"})
	require.ErrorContains(t, err, "give one of them")
}

// A faulty file gives one line that says where, what was found, and what is expected.
func TestFaultyFiles(t *testing.T) {
	const head = "version: 1\nextends: tiny\n"
	for _, c := range []struct{ text, message string }{
		{"", "c.yaml: the version of its format is missing; write version: 1 at the top"},
		{"# nothing\n", "c.yaml: the version of its format is missing; write version: 1 at the top"},
		{"version: 2\nwhat: 3\n", `c.yaml:1: version: found "2", expected 1, the format that this program reads`},
		{"version: [1]\n", `c.yaml:1: version: found "", expected 1, the format that this program reads`},
		{"version: 1\nextends: tinny\n",
			`c.yaml: extends: preset "tinny" is not known; expected ` + or(Presets()) + `; a file of your own is --config-file FILE`},
		{"version: 1\nextends: ''\n", `c.yaml:2: extends: expected ` + or(Presets())},
		{head + "lerning_rate: 1\n", "c.yaml:3: lerning_rate: this key is not known; did you mean learning_rate?"},
		{head + "abcdefghijklmnopqrstuvwxyz: 1\n",
			"c.yaml:3: abcdefghijklmnopqrstuvwxyz: this key is not known; 'grpo --print-config' lists all"},
		{head + "max_steps: many\n", `c.yaml:3: max_steps: found "many", expected a whole number`},
		{head + "max_steps: 1.5\n", `c.yaml:3: max_steps: found "1.5", expected a whole number`},
		{"\ufeff" + head + "max_steps: many\n", `c.yaml:3: max_steps: found "many", expected a whole number`},
		{head + "max_steps:\n",
			`c.yaml:3: max_steps: found nothing, expected a value; write "" for no text, [] for no list, or leave the line out`},
		{head + "max_steps: [1]\n", `c.yaml:3: max_steps: found a list, expected a whole number`},
		{head + "data: [x]\n", `c.yaml:3: data: found a list, expected text`},
		{head + "stop: x\n", `c.yaml:3: stop: found "x", expected a list, as in [a, b]`},
		{head + "stop: [x, [y]]\n", `c.yaml:3: stop: found sequence, expected a plain value`},
		{head + "stop: [x, ]\nstop: [y]\n", `c.yaml:4: mapping key "stop" already defined at [3:1]`},
		{head + "data: {a: b}\n", `c.yaml:3: data: found mapping, expected a plain value`},
		{head + "data: &a x\n", `c.yaml:3: data: found anchor, expected a plain value`},
		{head + "seed: -1\n", `c.yaml:3: seed: found "-1", expected a whole number of at least 0`},
		{head + "refill: yes\n", `c.yaml:3: refill: found "yes", expected true or false`},
		{head + "cache_memory: 8GB\n", `c.yaml:3: cache_memory: found "8GB", expected an amount of memory such as 8GiB`},
		{head + "eval_every: 0\n", `c.yaml:3: eval_every: found 0, expected 1 or more; type eval_every=-1 to switch evaluation off`},
		{head + "batch_size: 102\n",
			`c.yaml:3: batch_size=102: that number of completions does not divide among 4 prompts (group_size); type batch_size=100 or 104`},
		{head + "learning_rate: .nan\n", `c.yaml:3: learning_rate: found ".nan", expected a number`},
		{"- version: 1\n", "c.yaml:1: found sequence, expected lines of key: value"},
		{"version: 1\n---\nversion: 1\n", "c.yaml: found 2 documents, expected one"},
		{head + "stop: [a\n", "c.yaml:3: sequence end token ']' not found"},
		{head + "data: \"a\n", "c.yaml:3: could not find end character of double-quoted text"},
		{head + "data: \xff\n", "c.yaml: found bytes that are not UTF-8"},
		{head + strings.Repeat("#", maxFile), "c.yaml: found 65561 bytes, expected a configuration of at most 65536"},
		{head + "max_stepz: 1\nlearning_rate: x\n",
			"c.yaml:3: max_stepz: this key is not known; did you mean max_steps?\nc.yaml:4: learning_rate: found \"x\", expected a number"},
	} {
		write(t, c.text)
		_, err := Load(Source{File: "c.yaml"})
		require.EqualError(t, err, c.message)
		require.True(t, badinput.Is(err))
	}
	write(t, head)
	_, err := Load(Source{File: "c.yaml", Preset: "defaults"})
	require.EqualError(t, err, "c.yaml says extends: tiny, the command line --preset defaults; give one of them")
	_, err = Load(Source{File: filepath.Join("no", "c.yaml")})
	require.EqualError(t, err, "config file: open no/c.yaml: no such file or directory")
	require.True(t, badinput.Is(err))
}

// A file without a preset must set everything; the error lists what is missing.
func TestCompleteFile(t *testing.T) {
	d := Defaults()
	whole := string(d.Marshal())
	write(t, strings.NewReplacer("\nmax_tokens: 24576\n", "\n", "\nseed: 0\n", "\n").Replace(whole))
	_, err := Load(Source{File: "c.yaml"})
	require.EqualError(t, err,
		"c.yaml: names no max_tokens, seed; add them, or write extends: defaults (or another preset) to take them from there")

	write(t, strings.NewReplacer("prompts_per_step: 8", "group_size: 4", "completions_per_prompt: 16", "batch_size: 64").Replace(whole))
	c, err := Load(Source{File: "c.yaml"})
	require.NoError(t, err)
	require.Equal(t, "4 prompts × 16 completions", c.Batch())
}

// Any file is read or refused as bad input; what is read can be written and read again.
func FuzzFile(f *testing.F) {
	d := Defaults()
	f.Add(string(d.Marshal()))
	for _, s := range []string{
		"version: 1\nextends: tiny\n", "version: 1\nextends: tiny\nstop: [\"\\u2028\", 'a''b', >\n  x\n]\n",
		"{version: 1, extends: tiny, seed: 7}",
		"version: 1\nextends: tiny\nrun_dir: |\n  a\n   b\n\n", "? a\n: b\n", "&a [*a]", "!!str x: y", "%YAML 1.2\n---\n",
		"version: 1\nextends: tiny\nbatch_size: 64\ngroup_size: 4\ntrain: full\n", "<<: {a: b}", "\ufeffversion: 1\r\nextends: tiny\r\n",
	} {
		f.Add(s)
	}
	path := filepath.Join(f.TempDir(), "c.yaml")
	load := func(t *testing.T, text []byte) (*Config, error) {
		require.NoError(t, os.WriteFile(path, text, 0o600))
		return Load(Source{File: path})
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 16<<10 {
			t.Skip("long")
		}
		c, err := load(t, []byte(text))
		if err != nil {
			require.True(t, badinput.Is(err), "%v", err)
			return
		}
		again, err := load(t, c.Marshal())
		require.NoError(t, err, "%s", c.Marshal())
		require.Equal(t, c, again)
	})
}
