package provenance

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/kernels"
)

// If two orders differ because of GRPO_CPU=portable, the error says so, and what to type.
func TestRoundedProductsAreExplained(t *testing.T) {
	const tiles, rounds = "f32 in series, bf16 in tiles", kernels.Rounded
	for _, c := range []struct{ variable, now, before, says string }{
		{"portable", tiles + rounds, tiles, "; products are rounded by GRPO_CPU=portable, which is in the environment: " +
			"type unset GRPO_CPU first"},
		{"", tiles + rounds, tiles, "; products are rounded here, as this processor has no fused multiply-adds"},
		{"portable", tiles + rounds, tiles + rounds, ""},
		{"portable", tiles + rounds, "as a card does", ""},
		{"", tiles, "f32 in series, bf16 by pairs", ""},
	} {
		t.Setenv("GRPO_CPU", c.variable)
		require.Equal(t, c.says, Rounding(c.now, c.before))
	}
	back := Rounding(tiles, tiles+rounds)
	require.Equal(t, runtime.GOARCH == "amd64", strings.Contains(back, "with GRPO_CPU=portable in front of the command"), back)
	cfg := configs.Config{RunDir: "run"}
	require.ErrorContains(t, checkOrder(&cfg, &cfg, tiles+rounds, tiles), "to resume it here anyway"+back)
}
