package loopback

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIs(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:8000": true, "localhost:0": true, "[::1]:80": true, "127.9.9.9:1": true,
		"0.0.0.0:8000": false, ":8000": false, "192.168.0.1:8000": false, "localhost.example:80": false} {
		local, err := Is(address)
		require.NoError(t, err)
		require.Equal(t, want, local, address)
	}
	_, err := Is("127.0.0.1")
	require.EqualError(t, err, `found "127.0.0.1", expected an address such as 127.0.0.1:8000`)
}
