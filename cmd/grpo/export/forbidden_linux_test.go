package export

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/privilege"
)

// A run whose folder is not readable is not reported as missing.
func TestARunOfSomebodyElse(t *testing.T) {
	dir := recorded(t)
	require.NoError(t, os.Chmod(dir, 0o000))
	defer os.Chmod(dir, 0o700)
	privilege.Drop(t)
	_, err := exported(t, "csv", dir)
	require.EqualError(t, err, dir+": you may not read it; get permission, or choose another run")
	require.True(t, badinput.Is(err))
}
