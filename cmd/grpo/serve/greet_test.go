package serve

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// The printed address can be opened in a browser, also if the server listens on all addresses.
func TestTheAddressToOpen(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1:8000": "127.0.0.1:8000/", "[::1]:8000": "[::1]:8000/",
		"0.0.0.0:8443": "localhost:8443/, from another machine by the name of this one",
		"[::]:8443":    "localhost:8443/, from another machine by the name of this one",
	} {
		at, err := net.ResolveTCPAddr("tcp", text)
		require.NoError(t, err)
		require.Equal(t, want, browserURL(at))
	}
}
