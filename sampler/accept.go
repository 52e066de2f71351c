package sampler

import "slices"

// accept hands the drawn tokens to their sequences and ends those that are done.
func (s *scheduler) accept(tokens []int32, logprobs []float32) {
	for i, q := range s.drawn {
		done, why := q.accept(tokens[i], logprobs[i])
		if q.on.Token != nil {
			q.on.Token(Token{Sample: q.sample, ID: tokens[i], LogProb: logprobs[i]})
		}
		if done {
			s.finish(q, why, nil)
		}
	}
	s.forget()
}

// finish turns a sequence into a rollout and frees what it held; the last of a group frees the prefix.
func (s *scheduler) finish(q *sequence, why FinishReason, err error) {
	if q.state == running {
		if why != Failed {
			s.remember(q)
		}
		s.release(q)
	}
	q.state = finished
	s.ended = true
	if q.group.unfinished--; q.group.unfinished == 0 {
		s.dropPrefix(q.group)
	}
	r := Rollout{Request: q.index, Sample: q.sample, Tokens: q.tokens, LogProbs: q.logprobs, Finish: why,
		Cached: q.cached, Err: err}
	if q.on.Done != nil {
		q.on.Done(r)
	}
}

// end finishes what a group has not drawn yet.
func (s *scheduler) end(g *group, why FinishReason, err error) {
	for _, q := range s.sequences {
		if q.group == g && q.state != finished {
			s.finish(q, why, err)
		}
	}
}

// forget drops sequences and groups that are finished.
func (s *scheduler) forget() {
	if !s.ended {
		return
	}
	s.ended = false
	s.sequences = slices.DeleteFunc(s.sequences, func(q *sequence) bool { return q.state == finished })
	s.groups = slices.DeleteFunc(s.groups, func(g *group) bool {
		if g.unfinished == 0 && g.request.Adapter != nil {
			s.gone = append(s.gone, g.request.Adapter)
		}
		return g.unfinished == 0
	})
}

// close frees whatever is still held: nothing after a run that came to its end.
func (s *scheduler) close() {
	for _, q := range s.sequences {
		if q.state == running {
			s.release(q)
		}
	}
	for _, g := range s.groups {
		s.dropPrefix(g)
	}
}
