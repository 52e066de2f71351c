package sampler

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
)

// letters decodes token n to the n-th letter.
type letters struct{}

func (letters) Push(token int32) string { return string('a' + token) }

func TestStopStringsMayStraddleTokens(t *testing.T) {
	watch := StopStrings([]string{"bcd", ""}, func() TextStream { return letters{} })
	for _, c := range []struct {
		tokens []int32
		at     int
	}{{[]int32{0, 1, 2, 3, 4}, 3}, {[]int32{1, 2, 1, 2, 3}, 4}, {[]int32{1, 2, 2, 3}, -1}} {
		stopped, w := -1, watch()
		for i, token := range c.tokens {
			if w(token) {
				stopped = i
				break
			}
		}
		require.Equal(t, c.at, stopped, "%v", c.tokens)
	}
	require.Nil(t, StopStrings(nil, nil))
}

func TestStopStringsEndCompletions(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{})
	defer b.Close()
	p := open(t, b, "qwen3-tied", "")
	e := engine(t, p, Options{MaxLength: 64})
	free := Request{Prompt: []int32{1, 2, 3}, N: 1, Params: Params{Temperature: 1, MaxTokens: 20}}
	want := sampleAll(t, e, []Request{free})[0]
	stopped := free
	two := letters{}.Push(want.Tokens[4]) + letters{}.Push(want.Tokens[5])
	stopped.Params.Watch = StopStrings([]string{two}, func() TextStream { return letters{} })
	got := sampleAll(t, e, []Request{stopped})[0]
	require.Equal(t, Stop, got.Finish)
	require.LessOrEqual(t, len(got.Tokens), 6)
	require.Equal(t, want.Tokens[:len(got.Tokens)], got.Tokens, "stops do not change earlier tokens")
	require.Equal(t, want.LogProbs[:len(got.Tokens)], got.LogProbs)
}

// A completion that is stopped by its last token is complete, whether or not there was room for another one. A listener gets every token.
func TestAStopWithoutRoomForMore(t *testing.T) {
	p := open(t, backend(t), "qwen3-tied", "")
	e := engine(t, p, Options{MaxLength: 64})
	free := Request{Prompt: []int32{1, 2, 3}, N: 1, Params: Params{Temperature: 1, MaxTokens: 20}}
	want := sampleAll(t, e, []Request{free})[0]
	last := want.Tokens[9]
	n := slices.Index(want.Tokens, last) + 1
	for _, room := range []int{n, n + 1} {
		for _, watches := range []bool{false, true} {
			ended, heard := free, []int32(nil)
			if ended.Params.MaxTokens = room; !watches {
				ended.Params.StopTokens = []int32{last}
			}
			ended.Params.Watch = func() func(int32) bool {
				return func(token int32) bool {
					heard = append(heard, token)
					return watches && token == last
				}
			}
			got := sampleAll(t, e, []Request{ended})[0]
			require.Equal(t, Stop, got.Finish, "room for %d, watched: %v", room, watches)
			require.Equal(t, want.Tokens[:n], got.Tokens)
			require.Equal(t, got.Tokens, heard)
		}
	}
}
