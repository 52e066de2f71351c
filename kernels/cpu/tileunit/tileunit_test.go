//go:build linux && amd64

package tileunit_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels/cpu/tileunit"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/tiles"
)

func use(t *testing.T) {
	if err := tileunit.Use(); err != nil {
		t.Skip(err)
	}
}

// A product of tiles of every shape agrees with the oracle, and does not change the memory around it.
func TestInstructions(t *testing.T) {
	use(t)
	random := rand.New(rand.NewPCG(3, 1))
	const around = 7
	before, _ := tileunit.Executed()
	for range 300 {
		rows, pairs, columns := 1+random.IntN(16), 1+random.IntN(16), 1+random.IntN(16)
		sumsRow, leftRow, rightRow := 2*(columns/2+1+random.IntN(20)), pairs+random.IntN(20), columns+random.IntN(20)
		left, right := bf16s(random, 2*rows*leftRow), bf16s(random, 2*pairs*rightRow)
		sums := make([]float32, rows*sumsRow+around)
		for i := range sums {
			sums[i] = float32(random.NormFloat64())
		}
		want := append([]float32(nil), sums...)
		for i := range rows {
			for j := range columns {
				x, w := make([]float32, 32), make([]float32, 32)
				for k := range 2 * pairs {
					x[k], w[k] = left[2*i*leftRow+k], right[2*(k/2*rightRow+j)+k%2]
				}
				want[i*sumsRow+j] += tiles.Sum(x, w, true)
			}
		}
		tileunit.Try(rows, pairs, columns, sums, sumsRow, packed(left), leftRow, packed(right), rightRow)
		require.Equal(t, want, sums, fmt.Sprint(rows, pairs, columns, sumsRow, leftRow, rightRow))
	}
	executed, holders := tileunit.Executed()
	require.Equal(t, 300*8, executed-before)
	require.Zero(t, holders)
}

// Instructions between those of the unit are emulated as the processor executes them, or left to it.
func TestBetweenInstructions(t *testing.T) {
	use(t)
	random := rand.New(rand.NewPCG(4, 1))
	some := []int64{0, 1, -1, 7, -7, 64, math.MaxInt32, math.MinInt32, math.MaxUint32, math.MaxInt64, math.MinInt64}
	number := func() int64 {
		if random.IntN(3) == 0 {
			return int64(random.Uint64()) >> random.IntN(64)
		}
		return some[random.IntN(len(some))]
	}
	for range 500 {
		a, b, memory := number(), number(), [2]int64{number(), number()}
		before := tileunit.Signals()
		got := tileunit.TryBetween(true, a, b, memory)
		require.LessOrEqual(t, tileunit.Signals()-before, 4)
		require.Equal(t, tileunit.TryBetween(false, a, b, memory), got, fmt.Sprint(a, b, memory))
	}
}

// An invalid use of the unit ends the process with a message; other illegal instructions are left to the previous signal handler.
func TestMistakes(t *testing.T) {
	use(t)
	const variable = "GRPO_TILE_MISTAKE"
	if which, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		tileunit.Mistake(which)
		os.Exit(0)
	}
	for which, says := range []string{
		"an instruction without ldtilecfg before it",
		"ldtilecfg: a palette that there is not",
		"ldtilecfg: a tile of a shape that there is not",
		"ldtilecfg: a tile of a shape that there is not",
		"tdpbf16ps: shapes that do not fit each other",
		"a tile that ldtilecfg did not make",
		"tdpbf16ps: one tile in two places",
		"SIGILL: illegal instruction",
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestMistakes$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", variable, which))
		out, err := cmd.CombinedOutput()
		require.Error(t, err, which)
		require.Contains(t, string(out), says, which)
	}
}

// bf16s are numbers of bf16 of all sizes, some of them zero.
func bf16s(random *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = math.Float32frombits(math.Float32bits(float32(random.NormFloat64()*math.Exp2(float64(random.IntN(30)-15)))) &^ 0xffff)
	}
	return x
}

func packed(x []float32) []uint16 {
	out := make([]uint16, len(x))
	for i, x := range x {
		out[i] = uint16(math.Float32bits(x) >> 16)
	}
	return out
}
