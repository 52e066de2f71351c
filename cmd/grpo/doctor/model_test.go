package doctor

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/memory"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/model"
)

// A model is listed with the memory of its possible precisions, and the settings if only one of them fits.
func TestExamineModel(t *testing.T) {
	golden := func(name string) string { return filepath.Join("..", "..", "..", "model", "testdata", "golden", name) }
	plain := golden("qwen3-untied-sharded")
	f, err := examineModel(plain, memory.Room{}, false)
	require.NoError(t, err)
	require.True(t, f.OK)
	require.Regexp(t, `^weights [\d.]+ MB as published, [\d.]+ MB with quantize=nf4$`, f.Found)
	require.Empty(t, f.Do)
	require.NotContains(t, strings.Join(f.Notes, " "), "decodes", "a card multiplies codes of four bits as they are")

	f, err = examineModel(golden("nf4-double"), memory.Room{Bytes: 1 << 40}, true)
	require.NoError(t, err)
	require.Contains(t, f.Found, "in four bits, as published")

	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	stored, err := weightBytes(b, plain, model.AsStored)
	require.NoError(t, err)
	f, err = examineModel(plain, memory.Room{Bytes: int64(stored)}, true)
	require.NoError(t, err)
	require.True(t, f.OK)
	require.Contains(t, f.Do, "set quantize=nf4")
	coded, err := weightBytes(b, plain, model.NF4)
	require.NoError(t, err)
	f, err = examineModel(plain, memory.Room{Bytes: int64(coded)}, true)
	require.NoError(t, err)
	require.False(t, f.OK)
	require.Contains(t, f.Do, "take a smaller model")

	_, err = examineModel(t.TempDir(), memory.Room{}, false)
	require.True(t, badinput.Is(err), err)
}
