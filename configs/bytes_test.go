package configs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBytes(t *testing.T) {
	for text, want := range map[string]Bytes{"0": 0, "1000": 1000, "8GiB": 8 << 30, "1.5 KiB": 1536, "2TiB": 2 << 40} {
		var b, again Bytes
		require.NoError(t, b.UnmarshalText([]byte(text)))
		require.Equal(t, want, b, text)
		require.NoError(t, again.UnmarshalText([]byte(b.String())))
		require.Equal(t, b, again)
	}
	for _, text := range []string{"", "GiB", "8GB", "1.0001KiB", "1e99", "NaN", "99999999TiB", "x"} {
		var b Bytes
		require.Error(t, b.UnmarshalText([]byte(text)), text)
	}
}
