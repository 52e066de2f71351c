package learning

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/model"
)

// Saved datums are read unchanged, conversations included; values that cannot be saved give an error.
func TestSavedDatumsAreRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.jsonl")
	all := []model.Datum{
		model.NewDatum([]int32{5, 6, 7}, 1, []float32{-1, -2}, 0.5),
		model.NewConversation([]int32{5, 6, 7, 8, 9}, [][2]int{{1, 2}, {3, 5}}, []float32{-3, 0, -1, -2}, -1e30),
	}
	readable, err := Save(path, all)
	require.NoError(t, err)
	require.True(t, readable)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	require.Len(t, lines, len(all))
	for i, line := range lines {
		var d model.Datum
		require.NoError(t, json.Unmarshal([]byte(line), &d))
		require.Equal(t, all[i], d)
	}
	all[0].Advantages[1] = 2
	readable, err = Save(path, all)
	require.NoError(t, err)
	require.False(t, readable)
	all[1].OldLogProbs[2] = float32(math.NaN())
	_, err = Save(path, all)
	require.ErrorContains(t, err, "unsupported value: NaN")
	there, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(there), `"advantages":[`, "the file is as it was")
}
