package siege

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// attack is one attack, with the limits of its cost.
type attack struct {
	name   string
	quick  bool     // runs in go test ./...
	flags  []string // of the server
	tls    bool
	memory int64 // MB at most; 0: 64
	cpu    time.Duration
	asks   int // instead of cpu: the cost may not exceed that of this many honest requests, which holds on any machine
	do     func(c *target) (answered string)
}

// TestSiege attacks a server: it must answer as the attack expects, at a bounded cost, and go on answering another client.
func TestSiege(t *testing.T) {
	full, only := os.Getenv("GRPO_SIEGE") != "", os.Getenv("GRPO_SIEGE_ONLY")
	all := slices.Concat(keylessAttacks, connectionAttacks, bodyAttacks, parameterAttacks, tinkerAttacks)
	var shared *target
	if !full {
		shared = start(t)
	}
	var table strings.Builder
	for _, a := range all {
		if !full && !a.quick || !strings.Contains(a.name, only) {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			c := shared
			if full {
				if a.tls {
					a.flags = certificate(t)
				}
				c = start(t, a.flags...)
			} else {
				c.t = t
			}
			bound := max(a.cpu, 2*time.Second)
			if full && a.asks > 0 {
				bound = c.measure(func() { c.honest(a.asks) }).cpu
			}
			var answered string
			k := c.measure(func() { answered = a.do(c) })
			fmt.Fprintf(&table, "| %s | %s | %s | %d MB | %s |\n", a.name, answered, rounded(k.cpu), k.memory>>20, rounded(k.wait))
			if full && os.Getenv("GRPO_SIEGE_BINARY") == "" {
				require.Less(t, k.memory>>20, max(a.memory, 64), "MB")
				require.Less(t, k.cpu, bound)
				require.NotContains(t, c.said(), "panic")
			}
		})
	}
	t.Logf("what was tried, what was answered, processor, memory, the longest that another client waited\n%s", &table)
}

func rounded(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
