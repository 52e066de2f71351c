package sampler

import (
	"slices"
	"time"

	"github.com/seed-7879b91d/grpo/model"
)

// asked is the purpose of one draw: a token of a sequence, or the log-probability of a token of a prompt.
type asked struct {
	*group
	q  *sequence // nil: a log-probability
	at int       // the place in the prompt; or of a sequence the number of drafted tokens before this draw
}

// accept hands the results of the draws to sequences and prompts, and finishes the sequences that are done.
func (s *scheduler) accept(d model.Drawn, took time.Duration) {
	tokens := 0
	for i, a := range s.drawn {
		t := Token{ID: d.Tokens[i], LogProb: d.LogProbs[i]}
		if d.Raw != nil {
			t.Raw = d.Raw[i]
		}
		if a.q == nil {
			a.score(a.at, t.Raw, likely(d, i, len(s.drawn), a.request.PromptTop))
			continue
		}
		if a.at != a.q.accepted {
			continue // it follows a draft that was rejected
		}
		t.Sample, t.Top = a.q.sample, likely(d, i, len(s.drawn), a.request.Top)
		tokens++
		s.hand(a.q, t)
		s.verify(a.q, t.ID)
	}
	if n := len(s.rows.Tokens); n == s.decodeDraws && n > 0 {
		s.drafts.costs.saw(n, tokens, took)
	}
	s.forget()
}

// hand gives a sequence its next token, and parks or finishes it if that ends it.
func (s *scheduler) hand(q *sequence, t Token) {
	if q.err != nil {
		s.finish(q, Failed, q.err)
		return
	}
	if !q.request.raw() {
		t.Raw = 0
	}
	done, why, drops := true, Length, q.request.onlyScores()
	if !drops {
		done, why = q.accept(t)
	}
	if q.on.Prompt != nil && q.prompt != nil && !q.scoresSent {
		q.scoresSent = true
		q.on.Prompt(q.prompt, q.promptTop)
	}
	if q.on.Token != nil && !drops {
		q.on.Token(t)
	}
	switch {
	case done && q.request.Next != nil:
		s.park(q, why)
	case done:
		s.finish(q, why, nil)
	}
}

// likely are the n most likely tokens at draw i, of draws in all.
func likely(d model.Drawn, i, draws, n int) []Likely {
	if n == 0 {
		return nil
	}
	width := len(d.TopTokens) / draws
	top := make([]Likely, min(n, width))
	for k := range top {
		top[k] = Likely{Token: d.TopTokens[i*width+k], LogProb: d.TopLogProbs[i*width+k]}
	}
	return top
}

// finish reports a sequence as a Rollout and releases its blocks; the last of a group releases the prefix.
func (s *scheduler) finish(q *sequence, why FinishReason, err error) {
	q.ended(why)
	if q.group.learned {
		s.learn(q, 1)
	}
	if q.table != nil {
		if why != Failed {
			s.remember(q)
		}
		s.release(q)
	}
	s.leave(q, finished)
	s.anyFinished = true
	q.job.served = true
	if q.group.unfinished--; q.group.unfinished == 0 {
		s.dropPrefix(q.group)
	}
	if q.on.Done != nil {
		q.on.Done(q.rollout(why, err))
	}
}

// end finishes all unfinished sequences of a group.
func (s *scheduler) end(g *group, why FinishReason, err error) {
	for _, q := range s.sequences {
		if q.group == g && q.state != finished {
			s.finish(q, why, err)
		}
	}
}

// forget removes finished sequences and groups from the lists.
func (s *scheduler) forget() {
	if !s.anyFinished {
		return
	}
	s.anyFinished = false
	s.sequences = slices.DeleteFunc(s.sequences, func(q *sequence) bool { return q.state == finished })
	s.groups = slices.DeleteFunc(s.groups, func(g *group) bool {
		if g.unfinished == 0 && g.request.Adapter != nil {
			s.doneAdapters = append(s.doneAdapters, g.request.Adapter)
		}
		return g.unfinished == 0
	})
	s.nextInLine()
}

// close releases all blocks that are still held, as after an error.
func (s *scheduler) close() {
	for _, q := range s.sequences {
		if q.table != nil {
			s.release(q)
		}
	}
	for _, g := range s.groups {
		s.dropPrefix(g)
	}
}
