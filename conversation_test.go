package grpo

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/episode"
	"github.com/seed-7879b91d/grpo/internal/openenv/openenvtest"
	"github.com/seed-7879b91d/grpo/internal/rollouts"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
	"github.com/seed-7879b91d/grpo/sampler"
)

// talkSetup are runs of conversations with a model that writes noise, so that most turns are cut off.
func talkSetup(t *testing.T, dir string, words ...string) setup {
	t.Helper()
	template := filepath.Join(t.TempDir(), "heal")
	require.NoError(t, os.WriteFile(template, []byte("no{{if .Program}}w{{end}}\n"), 0o644))
	return setup{dir: dir, words: append([]string{"env=heal", "heal_template=" + template, "max_turns=3", "max_conversation_tokens=120",
		"turn_reward=best", "max_steps=3", "eval_samples=0", "eval_k=0", "prompts_per_step=1"}, words...)}
}

// Training on conversations gives the same bits with any number of threads.
func TestRunsOfConversationsAreEqualToTheByte(t *testing.T) {
	var want map[string]string
	for _, threads := range []int{1, 2} {
		s := talkSetup(t, t.TempDir(), "deterministic=true", "eval_every=2")
		s.threads = threads
		tr, l := s.open(t)
		require.NoError(t, tr.Run(t.Context()))
		for _, m := range l.metrics {
			require.Zero(t, m.OnPolicy)
			require.Greater(t, m.Conversations.Turns, 1.5)
			require.Len(t, m.Conversations.SolvedByTurn, 3)
			require.LessOrEqual(t, m.MaxLength, 3*12, "tokens of the environment are not counted")
		}
		require.NotNil(t, l.evals[0].Conversations)
		got := files(t, s.dir)
		if want == nil {
			want = got
		}
		requireSame(t, want, got)
	}
}

// A run of conversations that is interrupted ends like an uninterrupted one, also if those of the next step are sampled ahead, and with
// tools; and its steps can be replayed.
func TestInterruptedConversations(t *testing.T) {
	ahead := talkSetup(t, "", "pipeline=full")
	answered := setup{options: []Option{WithEnvironment(toolEnv{})}, words: []string{"env=own", "max_turns=5", "max_conversation_tokens=100",
		"max_steps=3", "eval_every=2", "prompts_per_step=1"}}
	for name, s := range map[string]setup{"ahead": ahead, "with tools": answered} {
		t.Run(name, func(t *testing.T) { interruptedConversations(t, s) })
	}
}

func interruptedConversations(t *testing.T, s setup) {
	s.dir = t.TempDir()
	tr, l := s.open(t)
	phases := 0
	l.onPhase = func(string) { phases++ }
	require.NoError(t, tr.Run(t.Context()))
	want := files(t, s.dir)
	requireConversations(t, s, l.metrics)
	for stop := 7; stop <= phases; stop += stride(t, 60) {
		cut := s
		cut.dir = t.TempDir()
		require.ErrorIs(t, cut.runUntil(t, stop), context.Canceled)
		tr, l := cut.open(t)
		require.NoError(t, tr.Run(t.Context()))
		requireConversations(t, s, l.metrics)
		requireSame(t, want, files(t, cut.dir))
	}
	steps, _, err := replayed(t, s.dir, 3)
	require.NoError(t, err)
	require.Equal(t, []int{3}, steps)
}

// If a context is cancelled with a cause, the run is saved as of its last whole step, as usual.
func TestConversationsAreStoppedWithAWord(t *testing.T) {
	s := talkSetup(t, t.TempDir(), "save_every=-1", "eval_every=-1")
	tr, l := s.open(t)
	ctx, stop := context.WithCancelCause(t.Context())
	l.onPhase = func(name string) {
		if name == "sample" && tr.StepsDone() == 1 {
			stop(errors.New("enough"))
		}
	}
	require.ErrorIs(t, tr.Run(ctx), context.Canceled)
	require.DirExists(t, checkpoint(s.dir, 1))
}

// requireConversations compares steps with what was drawn: unless sampled ahead, the trainer's log-probabilities equal the sampler's to
// the bit, also for turns that were cut off and after a resume.
func requireConversations(t *testing.T, s setup, steps []Metrics) {
	t.Helper()
	require.NotEmpty(t, steps)
	for _, m := range steps {
		require.Greater(t, m.Conversations.Turns, 1.0)
		if len(s.options) > 0 {
			require.Positive(t, m.Conversations.Endings[episode.OutOfTokens], "some have no room for another turn")
			require.Zero(t, m.OnPolicy)
		}
	}
}

// toolEnv is an environment with a tool that always answers, and that can be told to fail.
type toolEnv struct {
	fails error         // at the second turn
	times *atomic.Int32 // the number of failures left; nil: always
}

func (g toolEnv) Open(context.Context, *data.Problem) (Episode, error) {
	return toolTalk{g}, nil
}

type toolTalk struct{ toolEnv }

func (g toolTalk) Turn(_ context.Context, said Said) (Answer, error) {
	if g.fails != nil && said.Turn == 1 && (g.times == nil || g.times.Add(-1) >= 0) {
		return Answer{}, g.fails
	}
	worth, _ := vowels(context.Background(), reward.Completion{Text: said.Raw})
	return Answer{Reward: worth.Reward, Over: said.Tokens < 3,
		Messages: []chat.Message{{Role: "tool", ToolCallID: "malformed", Content: fmt.Sprint(said.Turn)}}}, nil
}

func (toolTalk) Close() error { return nil }

// A Go program can bring an environment. Its messages are read but not trained on, and the record says that it was the program's own.
func TestAnOwnEnvironment(t *testing.T) {
	s := setup{dir: t.TempDir(), words: []string{"env=own", "max_turns=2", "max_conversation_tokens=120", "max_steps=2", "eval_every=-1",
		"deterministic=true"}, options: []Option{WithEnvironment(toolEnv{}), WithGroups(func(_ int, groups []Group) error {
		for _, g := range groups {
			for i, r := range g.Rollouts {
				if d := g.datum(i); d.Trainable() != r.drawn() || r.drawn() >= len(r.Tokens) && len(r.Conversation.Turns) > 1 {
					return fmt.Errorf("%d tokens of %d are learned from, %d were drawn", d.Trainable(), len(r.Tokens), r.drawn())
				}
			}
		}
		return nil
	})}}
	tr, l := s.open(t)
	require.NoError(t, tr.Run(t.Context()))
	require.Zero(t, l.metrics[1].OnPolicy)
	require.Greater(t, l.metrics[1].Conversations.Turns, 1.0)
	kept, err := rollouts.Read(s.dir, 1, 2)
	require.NoError(t, err)
	c := kept.Groups[2][0][0].Conversation
	require.Equal(t, []string{"assistant", "tool", "assistant"}, []string{c.Messages[0].Role, c.Messages[1].Role, c.Messages[2].Role})

	s.options = nil
	s.dir = t.TempDir()
	_, _, err = s.tryOpen(t)
	require.EqualError(t, err, "env=own is for a Go program that brings an environment (grpo.WithEnvironment); type env=heal or env=none")
	_, _, err = setup{options: []Option{WithEnvironment(toolEnv{})}}.tryOpen(t)
	require.EqualError(t, err, "env: the program brings an environment of its own, and env=none; type env=own")
}

// Failures of the machine exclude a conversation, and too many end the run; a failure of the environment ends it at once.
func TestEnvironmentsThatFail(t *testing.T) {
	broken := &sandbox.InfraError{Attempts: 3, Err: errors.New("no cells")}
	words := []string{"env=own", "max_turns=2", "max_conversation_tokens=120", "max_steps=1", "eval_every=-1"}
	once := func() *atomic.Int32 { var n atomic.Int32; n.Store(1); return &n }
	tr, _ := setup{words: words, options: []Option{WithEnvironment(toolEnv{broken, once()})}}.open(t)
	m, err := tr.Step(t.Context(), nil, StepOptions{})
	require.NoError(t, err)
	require.Equal(t, 1, m.RewardErrors)
	ended := 0
	for _, n := range m.Conversations.Endings {
		ended += n
	}
	require.Equal(t, 2*6-1, ended, "an unfinished conversation has no result")
	tr, _ = setup{words: words, options: []Option{WithEnvironment(toolEnv{fails: broken})}}.open(t)
	_, err = tr.Step(t.Context(), nil, StepOptions{})
	require.ErrorContains(t, err, "the environment failed in 9 conversations, most recently: ")
	tr, _ = setup{words: append([]string{"infra_threshold=11"}, words...), options: []Option{WithEnvironment(toolEnv{fails: broken})}}.open(t)
	_, err = tr.Step(t.Context(), nil, StepOptions{})
	require.ErrorContains(t, err, "the environment failed in 12 conversations, most recently: ", "the last one has no conversation after it")
	tr, _ = setup{words: words, options: []Option{WithEnvironment(toolEnv{fails: errors.New("a bug")})}}.open(t)
	_, err = tr.Step(t.Context(), nil, StepOptions{})
	require.ErrorContains(t, err, "step 1: sample: ")
	require.ErrorContains(t, err, "a bug")
}

// A run trains with the program of the documentation.
func TestAProgramAsEnvironment(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not on PATH")
	}
	tr, l := setup{words: []string{"env=program:docs/env.py", "turn_seconds=60", "max_conversation_tokens=250", "max_steps=1", "eval_every=-1",
		"completions_per_prompt=3"}}.open(t)
	require.NoError(t, tr.Run(t.Context()))
	require.Zero(t, l.metrics[0].OnPolicy)
	require.Greater(t, l.metrics[0].Conversations.Turns, 1.0)
}

// A run with an environment server: its messages are read but not trained on, two runs are equal, and its steps are replayed without the
// server.
func TestARunAgainstAServer(t *testing.T) {
	game := &openenvtest.Server{Sessions: 5, Turns: 2}
	at := httptest.NewServer(game)
	var want map[string]string
	var dir string
	for range 2 {
		dir = t.TempDir()
		s := setup{dir: dir, words: []string{"env=openenv:" + at.URL, "max_turns=2", "max_conversation_tokens=120", "max_steps=2",
			"eval_every=-1", "deterministic=true"}}
		tr, l := s.open(t)
		require.NoError(t, tr.Run(t.Context()))
		require.Zero(t, l.metrics[1].OnPolicy)
		require.Positive(t, l.metrics[1].Update.GradNorm)
		require.Equal(t, map[episode.Ending]int{episode.Over: 12}, l.metrics[1].Conversations.Endings)
		got := files(t, dir)
		if want == nil {
			want = got
		}
		requireSame(t, want, got)
	}
	most, _, _ := game.SessionCounts()
	require.LessOrEqual(t, most, 5)
	require.Eventually(t, func() bool { // a busy server may keep the run waiting
		_, _, open := game.SessionCounts()
		return open == 0
	}, time.Minute, time.Millisecond)
	require.Equal(t, 2*2*12*2, game.Actions)
	at.Close()
	steps, _, err := replayed(t, dir, 2)
	require.NoError(t, err)
	require.Equal(t, []int{1, 2}, steps)
}

// Conversations sampled ahead while a server was unreachable are discarded: otherwise the resumed step would end the run although the
// server is back.
func TestFailuresThatWereDrawnAheadArePassedOver(t *testing.T) {
	tr, l := setup{words: []string{"max_steps=1", "eval_every=-1"}}.open(t)
	path := filepath.Join(t.TempDir(), "ahead.json")
	for failed, kept := range map[int]bool{1: true, 2: false} {
		s := rollouts.SampledAhead{Groups: []rollouts.SampledGroup{{Problem: tr.Pool().Take(1)[0].ID, Prompt: []int32{1}}}}
		g := &s.Groups[0]
		for i := range 5 {
			held := rollouts.ScoredConversation{Record: &Conversation{Turns: []sampler.Turn{{End: 1}}, Most: 1}}
			if i < failed {
				held.Score = reward.Score{Excluded: reward.ExcludedInfra, Verdict: reward.INFRA, Note: "connection refused"}
			}
			g.Conversations = append(g.Conversations, held)
			g.Rollouts = append(g.Rollouts, sampler.Rollout{Sample: i, Tokens: []int32{2}, LogProbs: []float32{-1}, Finish: sampler.Stop})
		}
		require.NoError(t, atomicfile.WriteJSON(path, s))
		b, err := tr.restoreAhead(path)
		require.NoError(t, err)
		require.Equal(t, kept, b != nil, "%d of 5", failed)
	}
	require.Contains(t, strings.Join(l.warnings, "\n"), "failed in 2 of 5 conversations that were drawn ahead; others are drawn")
}
