package splitmix

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The numbers are those published by other implementations of the generator for these seeds.
func TestKnownNumbers(t *testing.T) {
	for seed, want := range map[uint64][]uint64{
		0:       {0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC},
		1234567: {6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821},
	} {
		for i, v := range want {
			require.Equal(t, v, At(seed, uint64(i)), "number %d of seed %d", i, seed)
		}
	}
	require.Zero(t, Mix(0))
	require.Equal(t, At(0, 0), Mix(increment))
}

// The state wraps around: any index is valid.
func TestTheCounterWraps(t *testing.T) {
	require.Equal(t, Mix(5), At(5, 1<<64-1))
}
