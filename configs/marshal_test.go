package configs

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Values written by Marshal, and by JSON, load as the same, without a preset.
func TestRoundTrip(t *testing.T) {
	sources := []Source{
		{Overrides: []string{"train=full", "loss=cispo", "reward=weights", "reward_weights=correct=1,format=0.1", "refill=true",
			"comparator=tolerant"}},
		{Overrides: []string{`stop=["<end>", "a, b", "\"q\" \\ '", "new\nline", "  ", "é 漢 🙂", "null", "~", "-", "0x10", "# no", "k: ` +
			`v", "\t"]`, "data_sources="}},
		{Overrides: []string{"eval_every=-1", "cache_memory=8GiB", "data=~/a b.jsonl", "run_dir=-x", "python=null", "adam_eps=1e-08",
			"learning_rate=123456789.125"}},
	}
	for _, name := range Presets() {
		sources = append(sources, Source{Preset: name})
	}
	for _, s := range sources {
		c, err := Load(s)
		require.NoError(t, err, "%v", s)
		write(t, string(c.Marshal()))
		again, err := Load(Source{File: "c.yaml"})
		require.NoError(t, err, "%s", c.Marshal())
		require.Equal(t, c, again)

		text, err := json.MarshalIndent(c, "", "  ")
		require.NoError(t, err)
		write(t, string(text))
		again, err = Load(Source{File: "c.yaml"})
		require.NoError(t, err, "%s", text)
		require.Equal(t, c, again)
		require.Empty(t, Changed(c, again))
	}
}

// The written file has comments, in lines that fit a screen.
func TestMarshal(t *testing.T) {
	d := Defaults()
	text := string(d.Marshal())
	require.True(t, strings.HasPrefix(text, "# The version of this format.\nversion: 1\n\n# ── Model\n\n# A Hugging Face"), text)
	require.Contains(t, text, "\nlearning_rate: 4e-5\n")
	require.Contains(t, text, "\nadapter: \"\"\n")
	for line := range strings.Lines(text) {
		require.LessOrEqual(t, len(line), lineWidth+4)
	}
}

func TestChanged(t *testing.T) {
	before, after := Defaults(), Defaults()
	after.LearningRate, after.Stop, after.RunDir = 1e-4, []string{"x y"}, "a"
	var got []string
	for _, c := range Changed(&before, &after) {
		require.False(t, c.Guarded)
		got = append(got, c.String())
	}
	require.Equal(t, []string{`stop: [] → ["x y"]`, "learning_rate: 4e-5 → 1e-4", `run_dir: "" → a`}, got)
	after = before
	after.Loss = "ppo"
	require.True(t, Changed(&before, &after)[0].Guarded)
}

// Any text in an override can be written and read again.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "a", " a ", "null", "~", "a: b", "- x", "'", `"\`, "\x00", "\u0085\u2028\ufeff", "é", "0x1", "\r\n",
		"<>&"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := Load(Source{Overrides: []string{"run_dir=" + s}})
		if err != nil {
			require.True(t, badinput.Is(err))
			return
		}
		c.Stop = append(c.Stop, "x"+s)
		parsed, err := parseLayer("c.yaml", c.Marshal())
		require.NoError(t, err)
		l := loader{config: Defaults(), where: map[string]string{}}
		require.NoError(t, l.apply(parsed))
		require.Equal(t, c, &l.config)
	})
}
