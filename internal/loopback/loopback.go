// Package loopback knows the addresses that nobody but this machine reaches.
package loopback

import (
	"fmt"
	"net"
)

// Names are what requests from this machine are sent to.
var Names = []string{"localhost", "127.0.0.1", "::1"}

// Is reports whether nobody but this machine reaches an address.
func Is(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, fmt.Errorf("found %q, expected an address such as 127.0.0.1:8000", address)
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback(), nil
}
