// Package loopback recognises addresses that only this machine can reach.
package loopback

import (
	"fmt"
	"net"
)

// Names are the host names of requests from this machine.
var Names = []string{"localhost", "127.0.0.1", "::1"}

// Is reports whether an address can only be reached from this machine.
func Is(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, fmt.Errorf("found %q, expected an address such as 127.0.0.1:8000", address)
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback(), nil
}
