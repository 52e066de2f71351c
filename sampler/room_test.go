package sampler

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
)

// emptied is a scheduler with a group of one waiting sequence, all of whose blocks were taken.
func emptied(t *testing.T) (*scheduler, *group, []int32) {
	s := &scheduler{Engine: engine(t, open(t, backend(t), "qwen3-tied", ""), Options{MaxLength: 128, MaxSequences: 2}), replies: newReplies()}
	t.Cleanup(s.close)
	g := newGroup(0, Request{Prompt: make([]int32, 100), N: 1, Params: Params{MaxTokens: 20}}, Listener{})
	s.add(g)
	var taken []int32
	for len(s.blocks.free) > 0 {
		taken = append(taken, s.blocks.take())
	}
	return s, g, taken
}

// An unused prefix is evicted, and that is enough: no sequence is preempted, and none has to wait.
func TestAnIdlePrefixMakesRoom(t *testing.T) {
	s, g, taken := emptied(t)
	g.prefix, g.prefilled = taken, len(taken)*s.Block
	require.False(t, s.makeRoom(1, g), "a group must not evict its own prefix")
	s.lackedBlocks = false
	require.True(t, s.makeRoom(len(taken), nil))
	require.False(t, s.lackedBlocks)
	require.Empty(t, g.prefix)
	require.Zero(t, g.prefilled, "an evicted prefix is computed again")
	require.Equal(t, s.Blocks, s.FreeBlocks())
}

// A sequence that cannot continue for want of blocks waits, and releases those found in the cache.
func TestAWaitingSequenceKeepsNothingThatIsRemembered(t *testing.T) {
	s, g, taken := emptied(t)
	q := g.pending[0]
	require.False(t, s.resumeOn(q, taken[:1]))
	require.Equal(t, waiting, q.state)
	require.Zero(t, g.running)
	require.Equal(t, taken[:1], s.blocks.free)
}

// Once the windows of all sequences are past the prompt, the group has no blocks any more: all blocks are the sequences' own.
func TestAPromptBehindAWindowIsGivenUp(t *testing.T) {
	p := open(t, backend(t), "mistral-yarn", "")
	s := &scheduler{Engine: engine(t, p, Options{MaxLength: 352, MaxSequences: 4, TokenBudget: 32}), replies: newReplies()}
	defer s.close()
	prompt := randomTokens(rand.New(rand.NewPCG(8, 8)), p.Vocab, 150)
	g := newGroup(0, Request{Prompt: prompt, N: 3, Params: Params{Temperature: 1, MaxTokens: 200}}, Listener{})
	s.add(g)
	for len(g.pending[0].tokens) < (kernels.BlocksAtOnce+1)*s.Block {
		require.NoError(t, s.iterate())
	}
	require.Equal(t, 3, g.running)
	require.Empty(t, g.prefix)
	theirs := 0
	for _, q := range g.pending {
		theirs += len(q.table) - q.freed
	}
	require.Equal(t, s.Blocks-theirs, s.FreeBlocks())
}

// The blocks of a prompt are kept as long as a sequence may begin on them, reads them or writes them.
func TestAPromptIsKeptAsLongAsItIsNeeded(t *testing.T) {
	p := open(t, backend(t), "mistral-yarn", "")
	s := &scheduler{Engine: engine(t, p, Options{MaxLength: 352, MaxSequences: 4, TokenBudget: 32})}
	for name, c := range map[string]struct {
		prefix, running int
		grown, kept     bool
	}{
		"it is behind all":              {kernels.BlocksAtOnce, 2, false, false},
		"its end is not":                {kernels.BlocksAtOnce + 1, 2, false, true},
		"one is to begin":               {kernels.BlocksAtOnce, 1, false, true},
		"it has rows in this iteration": {kernels.BlocksAtOnce, 2, true, true},
	} {
		g := newGroup(0, Request{N: 2}, Listener{})
		g.running, g.prefilling = c.running, c.grown
		q := &sequence{group: g, computed: s.reach + kernels.BlocksAtOnce*s.Block}
		for range kernels.BlocksAtOnce + 2 {
			q.table = append(q.table, s.blocks.take())
		}
		for range c.prefix {
			g.prefix = append(g.prefix, s.blocks.take())
		}
		s.slide(q)
		require.Equal(t, kernels.BlocksAtOnce, q.freed, name)
		require.Equal(t, c.kept, len(g.prefix) > 0, name)
		s.release(q)
		s.dropPrefix(g)
		require.Equal(t, s.Blocks, s.FreeBlocks(), name)
	}
}

// The blocks of a prompt are not replaced by equal blocks of another one while rows of it are being written.
func TestAPromptInWorkKeepsItsBlocks(t *testing.T) {
	s, g, taken := emptied(t)
	s.tree = newTree(s.Block, s.blocks)
	g.prefix, g.prefilling = taken, true
	require.False(t, s.dropDouble(g))
	require.False(t, s.evictIdlePrefix(nil))
	require.Len(t, g.prefix, s.Blocks)
	g.prefilling = false
	require.True(t, s.dropDouble(g))
	require.Equal(t, s.Blocks, s.FreeBlocks())
	require.False(t, s.dropDouble(g), "there is no duplicate prefix left to drop")
}
