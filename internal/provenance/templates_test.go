package provenance

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Chat templates in a subfolder are part of a model's fingerprint; a model without them keeps its fingerprint.
func TestTemplatesInAFolder(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "additional_chat_templates")
	put := func(path, text string) Part {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		p, err := FingerprintModel(dir)
		require.NoError(t, err)
		return p
	}
	plain := put(filepath.Join(dir, "config.json"), "{}")
	require.Equal(t, "618e78a54d1cd92150df1af0dd7d6f54", plain.SHA256[:32])
	require.NoError(t, os.Mkdir(folder, 0o755))
	require.Equal(t, plain, put(filepath.Join(folder, "rag.jinja"), "nothing asks for it"))
	with := put(filepath.Join(folder, "tool_use.jinja"), "T")
	require.Contains(t, with.Files, "additional_chat_templates/tool_use.jinja")
	other := put(filepath.Join(folder, "tool_use.jinja"), "U")
	require.Contains(t, Parts{"model": other}.Differences(Parts{"model": with})["model"], "additional_chat_templates/tool_use.jinja changed")
	require.Equal(t, plain.asBase(), other.asBase())
}
