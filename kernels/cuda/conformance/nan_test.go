//go:build gpu

package conformance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
)

// A NaN or infinity in a row does not reach the rows before it, nor another sequence, although tiles multiply later rows by 0.
func TestWhatIsNoNumberStaysBehind(t *testing.T) {
	card := opened(t)()
	defer func() { require.NoError(t, card.Close()) }()
	r := rand.New(rand.NewPCG(17, 19))
	h := kernels.Attn{Heads: kernels.Heads{Q: 4, KV: 2, Dim: 16}}
	starts, row := []int32{0, 40, 60}, 21
	isNaN := func(x float32) bool { return x != x }
	for _, kv := range cacheTypes {
		for what, bad := range map[string]float32{"NaN": float32(math.NaN()), "+Inf": float32(math.Inf(1)), "-Inf": float32(math.Inf(-1))} {
			for part, first := range map[string]int{"queries": 0, "keys": h.Q * h.Dim, "values": (h.Q + h.KV) * h.Dim} {
				o := operands{t, card, r.IntN(2)}
				qkv := normals(r, 60*h.Width(), 1)
				want, wantLSE := o.packedRows(card, qkv, starts, h, kv)
				qkv[row*h.Width()+first+3] = bad
				out, lse := o.packedRows(card, qkv, starts, h, kv)
				name := fmt.Sprintf("%v, %s among %s", kv, what, part)
				require.Equal(t, want[:row*h.OutWidth()], out[:row*h.OutWidth()], name)
				require.Equal(t, wantLSE[:row*h.Q], lse[:row*h.Q], name)
				require.Equal(t, want[40*h.OutWidth():], out[40*h.OutWidth():], name)
				of := out[row*h.OutWidth():][:h.OutWidth()]
				if what == "NaN" || part == "values" {
					require.True(t, slices.ContainsFunc(of, isNaN), "the row itself shows it: "+name)
				}

				p := newPaging(o, card, r, h, kv, 2, 40)
				p.rows(run{0, 0, qkv[:5*h.Width()]})
				got := p.rows(run{0, 5, qkv[5*h.Width() : 40*h.Width()]}, run{1, 0, qkv[40*h.Width():]})
				require.Equal(t, want[5*h.OutWidth():row*h.OutWidth()], got[:(row-5)*h.OutWidth()], name)
				require.Equal(t, want[40*h.OutWidth():], got[35*h.OutWidth():], name)
			}
		}
	}
}
