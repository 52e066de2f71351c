package sampler

// accept hands the drawn tokens to their sequences and ends those that are done.
func (s *scheduler) accept(tokens []int32, logprobs []float32) {
	for i, q := range s.drawn {
		done, why := q.accept(tokens[i], logprobs[i])
		if s.on.Token != nil {
			s.on.Token(q.index, q.sample, tokens[i])
		}
		if done {
			s.finish(q, why)
		}
	}
}

// finish turns a sequence into a rollout and frees what it held; the last of a group frees the prefix.
func (s *scheduler) finish(q *sequence, why FinishReason) {
	s.release(q)
	q.state = finished
	s.unfinished--
	if q.group.unfinished--; q.group.unfinished == 0 {
		s.dropPrefix(q.group)
	}
	r := Rollout{Request: q.index, Sample: q.sample, Tokens: q.tokens, LogProbs: q.logprobs, Finish: why}
	s.rollouts[q.place] = r
	if s.on.Done != nil {
		s.on.Done(r)
	}
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
