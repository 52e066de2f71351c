package sampler

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
)

// failing is a backend that breaks after so many waits for it.
type failing struct {
	kernels.Backend
	left int
}

var errBroken = errors.New("the machine is broken")

func (f *failing) Sync() error {
	if f.left--; f.left < 0 {
		return errBroken
	}
	return f.Backend.Sync()
}

// A machine that fails ends all requests with its error, those that wait too, and no more are taken.
func TestAFailingMachineEndsAllRequests(t *testing.T) {
	b := &failing{Backend: backend(t), left: 1 << 30}
	l, err := NewLive(open(t, b, "qwen3-tied", ""), Options{MaxLength: 64, MaxSequences: 3})
	require.NoError(t, err)
	var ended []Rollout
	r := Request{Prompt: []int32{1, 2}, N: 2, Params: Params{MaxTokens: 30}}
	for range 3 {
		_, err := l.Submit(r, Listener{Done: func(r Rollout) { ended = append(ended, r) }})
		require.NoError(t, err)
	}
	b.left = 8
	require.ErrorIs(t, l.Run(t.Context()), errBroken)
	require.Len(t, ended, 6)
	for _, r := range ended {
		require.Equal(t, Failed, r.Finish)
		require.ErrorIs(t, r.Err, errBroken)
	}
	require.NotEmpty(t, ended[0].Tokens)
	require.Empty(t, ended[5].Tokens)
	_, err = l.Submit(r, Listener{})
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, err, errBroken)
	require.Equal(t, l.s.Blocks, l.s.FreeBlocks())
	require.Empty(t, l.s.tree.roots[nil].children, "what was computed at last is not relied on")
}
