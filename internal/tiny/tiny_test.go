package tiny

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/model"
)

func TestProblems(t *testing.T) {
	train, heldOut, err := Problems()
	require.NoError(t, err)
	require.Greater(t, len(train), 500)
	require.Greater(t, len(heldOut), 200)
	seen, kinds := map[string]bool{}, map[data.Kind]int{}
	families := map[string]bool{}
	for i, p := range append(train, heldOut...) {
		require.False(t, seen[p.ID] || seen[p.Statement], p.ID)
		seen[p.ID], seen[p.Statement] = true, true
		kinds[p.Kind]++
		require.GreaterOrEqual(t, p.NumTests, 3, p.ID)
		if i < len(train) {
			families[string(p.Metadata)] = true
		}
	}
	require.Greater(t, kinds[data.Stdin], 300)
	require.Greater(t, kinds[data.Call], 200)
	known := 0
	for _, p := range heldOut {
		if families[string(p.Metadata)] {
			known++
		}
	}
	require.Greater(t, known, 80)
	require.Greater(t, len(heldOut)-known, 80)
}

func TestModel(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "on", "demand")
	require.NoError(t, Extract(dir))
	b, err := cpu.New(cpu.Options{Threads: 1})
	require.NoError(t, err)
	defer b.Close()
	p, err := model.Open(b, dir, false, model.Options{})
	require.NoError(t, err)
	tok, err := tokenizer.Load(dir)
	require.NoError(t, err)
	require.Equal(t, p.Vocab, tok.VocabSize())
	renderer, err := chat.ForModel(tok, chat.Options{})
	require.NoError(t, err)
	require.Equal(t, renderer.Stop(), tok.EOS())
	wording, err := PromptTemplate()
	require.NoError(t, err)
	train, heldOut, err := Problems()
	require.NoError(t, err)
	for _, q := range append(train, heldOut...) {
		messages, err := wording.Messages(&q)
		require.NoError(t, err)
		ids, text, err := renderer.Prompt(messages)
		require.NoError(t, err)
		require.Less(t, len(ids), 100, text)
		require.True(t, strings.HasSuffix(text, "assistant\n"))
	}

	// Existing files are kept; damaged ones are replaced.
	path := filepath.Join(dir, "config.json")
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, want[:10], 0o644))
	require.NoError(t, Extract(dir))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Len(t, Fingerprint(), 16)
}
