package sources

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/privilege"
)

// A model whose folder or tokenizer is not readable is not reported as missing, and is the user's mistake.
func TestAModelOfSomebodyElse(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	file := filepath.Join(dir, "tokenizer.json")
	require.NoError(t, os.WriteFile(file, nil, 0o000))
	require.NoError(t, os.Mkdir("locked", 0o000))
	defer os.Chmod("locked", 0o700)
	privilege.Drop(t)
	for _, name := range []string{"locked/model", filepath.Join(dir, "locked", "model")} {
		_, err := ModelDir(t.Context(), name)
		require.EqualError(t, err, `model "`+name+`": you may not read it; get permission, or choose another model`)
		require.True(t, badinput.Is(err))
	}
	_, err := tokenizer.Load(file)
	require.EqualError(t, err, "open "+file+": permission denied; make it readable, or choose another model")
	require.True(t, badinput.Is(err))
}
