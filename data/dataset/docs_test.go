package dataset

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data/prompt"
)

// Every example of docs/tasks.md is accepted.
func TestDocumentedExamples(t *testing.T) {
	page, err := os.ReadFile("../../docs/tasks.md")
	require.NoError(t, err)
	var lines strings.Builder
	for _, m := range regexp.MustCompile("(?s)```jsonl\n(.*?)```").FindAllSubmatch(page, -1) {
		lines.Write(m[1])
	}
	set := open(t, write(t, t.TempDir(), "docs.jsonl", lines.String()), Options{Strict: true})
	require.Len(t, set.Problems(), 20)
	require.Empty(t, set.Manifest().Unread)

	template := regexp.MustCompile("(?s)```\n({{define.*?)```").FindSubmatch(page)
	path := filepath.Join(t.TempDir(), "p.tmpl")
	require.NoError(t, os.WriteFile(path, template[1], 0o644))
	b, err := prompt.Load(path)
	require.NoError(t, err)
	m, err := b.Messages(&set.Problems()[1])
	require.NoError(t, err)
	require.Equal(t, "You write Python.", m[0].Content)
	require.Equal(t, "Write a function that adds up a list of integers.\nWrite the function total.\n", m[1].Content)
}
