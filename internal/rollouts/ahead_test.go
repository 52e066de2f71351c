package rollouts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/conversation"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

const vocabulary = 384

// twoGroups is a batch of two groups.
func twoGroups() SampledAhead {
	of := func(group, sample int, tokens ...int32) sampler.Rollout {
		r := sampler.Rollout{Request: group, Sample: sample, Tokens: tokens, Finish: sampler.Length}
		for i := range tokens {
			r.LogProbs = append(r.LogProbs, -0.1-float32(i))
		}
		return r
	}
	return SampledAhead{Policy: "aa", Updates: 3, Epoch: 1, Groups: []SampledGroup{
		{Problem: "p0", Prompt: []int32{1, 2}, Rollouts: []sampler.Rollout{of(0, 0, 5, 381), of(0, 1, 7)}},
		{Problem: "p1", Prompt: []int32{383}, Rollouts: []sampler.Rollout{of(1, 0, 0)}, Conversations: []ScoredConversation{{
			Record: &conversation.Record{Turns: []sampler.Turn{{End: 1, Finish: sampler.Length}}, Most: 2, Ending: "over"}}}},
	}}
}

func never(int, int) bool { return false }

func TestReadAhead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ahead.json")
	none, err := ReadSampledAhead(path, vocabulary, never, func(string) {})
	require.NoError(t, err)
	require.Nil(t, none)
	for want, damage := range map[string]func(a *SampledAhead){
		"":                    func(*SampledAhead) {},
		"group 1: the prompt": func(a *SampledAhead) { a.Groups[1].Prompt = nil },
		"group 0: prompt: no token has id 384; expected 0 to 383": func(a *SampledAhead) { a.Groups[0].Prompt[1] = vocabulary },
		"group 0: sample 1: no token has id -1":                   func(a *SampledAhead) { a.Groups[0].Rollouts[1].Tokens[0] = -1 },
		"2 tokens and 1 log-prob":                                 func(a *SampledAhead) { a.Groups[0].Rollouts[0].LogProbs = []float32{0} },
		"sample 1 of group 0 is not in its place":                 func(a *SampledAhead) { a.Groups[0].Rollouts = a.Groups[0].Rollouts[1:] },
		"sample 0 of group 1 is not in its place":                 func(a *SampledAhead) { a.Groups = a.Groups[1:] },
		"1 rollouts and 2 conversations": func(a *SampledAhead) {
			a.Groups[1].Conversations = append(a.Groups[1].Conversations, ScoredConversation{})
		},
		"group 1: sample 0: the turns":                  func(a *SampledAhead) { a.Groups[1].Conversations[0].Record.Turns[0].End = 2 },
		"group 1: sample 0: the turns of its":           func(a *SampledAhead) { a.Groups[1].Conversations[0].Record = nil },
		`sample 0 ended by "", expected stop or length`: func(a *SampledAhead) { a.Groups[1].Rollouts[0].Finish = "" },
	} {
		a := twoGroups()
		damage(&a)
		text, err := json.Marshal(a)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, text, 0o644))
		got, err := ReadSampledAhead(path, vocabulary, never, func(string) {})
		if want == "" {
			require.NoError(t, err)
			require.Equal(t, twoGroups(), *got)
			continue
		}
		require.True(t, badinput.Is(err), "%q: %v", want, err)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, path)
	}
}

// A batch sampled ahead in which the environment failed too often is discarded, with a message.
func TestABatchAheadThatFailed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ahead.json")
	a := twoGroups()
	record := a.Groups[1].Conversations[0].Record
	a.Groups[1].Rollouts = append(a.Groups[1].Rollouts, a.Groups[1].Rollouts[0])
	a.Groups[1].Rollouts[1].Sample, a.Groups[1].Conversations = 1, nil
	for _, why := range []reward.Exclusion{reward.ExcludedInfra, reward.ExcludedTruncated} {
		a.Groups[1].Conversations = append(a.Groups[1].Conversations, ScoredConversation{record, reward.Score{Excluded: why}})
	}
	text, err := json.Marshal(a)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o644))
	for _, most := range []int{0, 1} {
		var told []string
		got, err := ReadSampledAhead(path, vocabulary, func(failed, all int) bool {
			require.Equal(t, []int{1, 2}, []int{failed, all}, "a truncated completion has not failed")
			return failed > most
		}, func(s string) { told = append(told, s) })
		require.NoError(t, err)
		require.Equal(t, most == 1, got != nil)
		if most == 0 {
			const says = "the environment had failed in 1 of 2 conversations that were drawn ahead; others are drawn in their place"
			require.Equal(t, []string{says}, told)
		}
	}
}

// Any file is refused by name, or every token in it is one of the model's and has a log-probability, and it is written as it was read.
func FuzzReadAhead(f *testing.F) {
	text, err := json.Marshal(twoGroups())
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte(strings.ReplaceAll(string(text), "381", "4294967295")))
	f.Add([]byte(strings.ReplaceAll(string(text), "-0.1", "-1e99")))
	f.Add([]byte(`{"groups":null}`))
	f.Add([]byte(`{"groups":[{"prompt":[1],"rollouts":[{"Request":0,"request":1,"Tokens":[1],"LogProbs":[null],"Finish":"stop"}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "ahead.json")
		require.NoError(t, os.WriteFile(path, text, 0o644))
		a, err := ReadSampledAhead(path, vocabulary, never, func(string) {})
		if err != nil {
			require.True(t, badinput.Is(err), "%v", err)
			require.ErrorContains(t, err, path)
			require.NotContains(t, err.Error(), "\n")
			return
		}
		for _, g := range a.Groups {
			for _, r := range g.Rollouts {
				require.Len(t, r.LogProbs, len(r.Tokens))
				for _, id := range append(r.Tokens, g.Prompt...) {
					require.True(t, id >= 0 && id < vocabulary, "%d", id)
				}
			}
		}
		written, err := json.Marshal(a)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, written, 0o644))
		again, err := ReadSampledAhead(path, vocabulary, never, func(string) {})
		require.NoError(t, err)
		require.Equal(t, a, again)
	})
}
