package compare

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// A line that cannot be read is named, with what to do about it.
func TestALineThatIsNone(t *testing.T) {
	bad := made{heldOut: "h", model: "m", steps: 1}.write(t, filepath.Join(t.TempDir(), "bad"))
	require.NoError(t, os.WriteFile(filepath.Join(bad, "metrics.jsonl"), []byte("{\"step\":1,\"kl\":NaN}\n"), 0o644))
	_, err := Open([]string{bad})
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, "metrics.jsonl:1: invalid character 'N' looking for beginning of value; mend that line, or leave "+
		bad+" out")
}
