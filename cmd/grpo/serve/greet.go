package serve

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/serving"
)

func policyNames(host *serving.Host) []string {
	var list []string
	for _, p := range host.Policies() {
		list = append(list, p.Name)
	}
	return slices.Clip(list)
}

// greet prints where the server is, and the size of each model's KV cache.
func (f *flags) greet(w io.Writer, at net.Addr, host *serving.Host) {
	scheme := "http"
	if f.door.TLS != nil {
		scheme = "https"
	}
	fmt.Fprintf(w, "grpo: serving %s on %s://%s/v1\n", strings.Join(policyNames(host), ", "), scheme, at)
	for _, p := range host.Policies() {
		if p.Name == p.Base {
			fmt.Fprintf(w, "grpo: %s: %s\n", p.Name, p.Live.Plan())
		}
	}
	fmt.Fprintf(w, "grpo: to talk to them, open %s://%s\n", scheme, browserURL(at))
	if f.store != "" {
		key := "local"
		if f.keys != "" {
			key = "KEY  # KEY: a key of --keys"
		}
		where, _, _ := strings.Cut(browserURL(at), "/")
		fmt.Fprintf(w, "grpo: to train with Tinker's clients, type export TINKER_BASE_URL=%s://%s TINKER_API_KEY=tml-%s\n", scheme, where, key)
	}
}

// browserURL is a URL for a browser. If the server listens on all addresses, it is that of this machine.
func browserURL(at net.Addr) string {
	if tcp, ok := at.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("localhost:%d/, from another machine by the name of this one", tcp.Port)
	}
	return at.String() + "/"
}
