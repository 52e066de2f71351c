package sampler

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
)

// failing is a backend that fails after a number of waits.
type failing struct {
	kernels.Backend
	left  int
	broke func() // called then
}

var errBroken = errors.New("the machine is broken")

func (f *failing) Sync() error {
	if f.left--; f.left < 0 {
		f.broke()
		return errBroken
	}
	return f.Backend.Sync()
}

// A failing backend ends all requests with its error, also waiting ones and those that arrive meanwhile, and no more are accepted.
func TestAFailingMachineEndsAllRequests(t *testing.T) {
	for _, left := range []int{0, 8} {
		b := &failing{Backend: backend(t), left: 1 << 30}
		l, err := NewLive(open(t, b, "qwen3-tied", ""), Options{MaxLength: 128, MaxSequences: 3})
		require.NoError(t, err)
		var ended []Rollout
		r := Request{Prompt: make([]int32, 70), N: 2, Params: Params{MaxTokens: 30}}
		submit := func() {
			_, err := l.Submit(r, Listener{Done: func(r Rollout) { ended = append(ended, r) }})
			require.NoError(t, err)
		}
		for range 3 {
			submit()
		}
		b.left, b.broke = left, submit
		require.ErrorIs(t, l.Run(t.Context()), errBroken)
		require.Len(t, ended, 8)
		for _, r := range ended {
			require.Equal(t, Failed, r.Finish)
			require.ErrorIs(t, r.Err, errBroken)
		}
		require.Equal(t, left > 0, len(ended[0].Tokens) > 0)
		require.Empty(t, ended[7].Tokens)
		l.Close()
		_, err = l.Submit(r, Listener{})
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, err, errBroken)
		require.Equal(t, l.s.Blocks, l.FreeBlocks())
		require.Equal(t, left > 0, len(l.s.tree.roots) > 0, "results of the failed iteration are discarded")
	}
}
