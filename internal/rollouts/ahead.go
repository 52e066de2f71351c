package rollouts

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/conversation"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// SampledAhead has the rollouts sampled ahead for the next step, in a checkpoint. The policy that sampled them is gone when the
// run resumes, so they cannot be sampled again. They can be scored again, so saving need not wait for scores.
type SampledAhead struct {
	Policy   string         `json:"policy_sha256"`
	Updates  int            `json:"updates"`
	Refilled int            `json:"groups_refilled"`
	Epoch    int            `json:"epoch"`
	Groups   []SampledGroup `json:"groups"`
}

// SampledGroup is a problem with its rollouts, in the order of samples.
type SampledGroup struct {
	Problem  string            `json:"problem"`
	Prompt   []int32           `json:"prompt"`
	Rollouts []sampler.Rollout `json:"rollouts"`
	// Conversations are the conversations of the rollouts, in the same order. They are not scored again. Empty for plain completions.
	Conversations []ScoredConversation `json:"conversations,omitempty"`
}

// ScoredConversation is a conversation with its score.
type ScoredConversation struct {
	Record *conversation.Record `json:"record"`
	Score  reward.Score         `json:"score"`
}

// Conversation is the record of sample i; nil for a plain completion.
func (g SampledGroup) Conversation(i int) *conversation.Record {
	if len(g.Conversations) == 0 {
		return nil
	}
	g.Conversations[i].Record.Score = g.Conversations[i].Score
	return g.Conversations[i].Record
}

// ReadSampledAhead reads the rollouts for a model with that vocabulary; nil if there is no such file. If the environment failed in so many
// conversations that the step would end the run, it warns and returns nil, so that they are sampled again: the environment may be back.
func ReadSampledAhead(path string, vocabulary int, tooMany func(failed, all int) bool, warn func(string)) (*SampledAhead, error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	a := new(SampledAhead)
	if err := json.Unmarshal(text, a); err != nil {
		return nil, badinput.Errorf("%s: %w", path, err)
	}
	for i, g := range a.Groups {
		if err := g.check(i, vocabulary); err != nil {
			return nil, badinput.Errorf("%s: group %d: %w", path, i, err)
		}
	}
	if failed, all := a.failures(); tooMany(failed, all) {
		warn(fmt.Sprintf("the environment had failed in %d of %d conversations that were drawn ahead; others are drawn in their place",
			failed, all))
		return nil, nil
	}
	return a, nil
}

// failures counts the conversations that could not be scored, and all.
func (a *SampledAhead) failures() (failed, all int) {
	for _, g := range a.Groups {
		for _, h := range g.Conversations {
			if all++; h.Score.Excluded.Failed() {
				failed++
			}
		}
	}
	return failed, all
}

// check validates a group before it is used: indices, tokens, and a log-probability for each token.
func (g SampledGroup) check(index, vocabulary int) error {
	if len(g.Prompt) == 0 {
		return fmt.Errorf("the prompt is empty")
	}
	if err := checkTokens(g.Prompt, vocabulary); err != nil {
		return fmt.Errorf("prompt: %w", err)
	}
	if n := len(g.Conversations); n > 0 && n != len(g.Rollouts) {
		return fmt.Errorf("%d rollouts and %d conversations, expected one for each, or none", len(g.Rollouts), n)
	}
	for i, h := range g.Conversations {
		if h.Record == nil || !h.Record.Within(len(g.Rollouts[i].Tokens)) {
			return fmt.Errorf("sample %d: the turns of its conversation do not stand in its %d tokens", i, len(g.Rollouts[i].Tokens))
		}
	}
	for i, r := range g.Rollouts {
		switch {
		case r.Request != index || r.Sample != i:
			return fmt.Errorf("sample %d of group %d is not in its place", r.Sample, r.Request)
		case len(r.Tokens) == 0 || len(r.LogProbs) != len(r.Tokens):
			return fmt.Errorf("sample %d has %d tokens and %d log-probabilities", i, len(r.Tokens), len(r.LogProbs))
		case r.Finish != sampler.Stop && r.Finish != sampler.Length:
			return fmt.Errorf("sample %d ended by %q, expected %s or %s", i, r.Finish, sampler.Stop, sampler.Length)
		}
		if err := checkTokens(r.Tokens, vocabulary); err != nil {
			return fmt.Errorf("sample %d: %w", i, err)
		}
	}
	return nil
}

func checkTokens(tokens []int32, vocabulary int) error {
	for _, id := range tokens {
		if id < 0 || int(id) >= vocabulary {
			return fmt.Errorf("no token has id %d; expected 0 to %d", id, vocabulary-1)
		}
	}
	return nil
}
