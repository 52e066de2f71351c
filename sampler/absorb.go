package sampler

// absorb hands the drawn tokens to their samples and ends those that are done.
func (w *work) absorb(tokens []int32, logps []float32) {
	for i, s := range w.drawn {
		done, why := s.accept(tokens[i], logps[i])
		if w.on.Token != nil {
			w.on.Token(s.index, s.number, tokens[i])
		}
		if done {
			w.finish(s, why)
		}
	}
}

// finish records a completion and frees what it held; the last of a group frees the prompt.
func (w *work) finish(s *sample, why FinishReason) {
	w.evict(s)
	s.state = finished
	w.open--
	if s.group.open--; s.group.open == 0 {
		w.blocks.drop(s.trunk)
		s.trunk, s.group.cached = nil, 0
	}
	r := Rollout{Request: s.index, Sample: s.number, Tokens: s.tokens, LogProbs: s.logprobs, Finish: why}
	w.rollouts[w.place(s)] = r
	if w.on.Done != nil {
		w.on.Done(r)
	}
}

// place is where a sample stands among all.
func (w *work) place(s *sample) int {
	at := 0
	for _, g := range w.groups[:s.index] {
		at += g.request.N
	}
	return at + s.number
}

// release frees whatever is still held: nothing after a run that came to its end.
func (w *work) release() {
	for _, s := range w.samples {
		if s.state == running {
			w.evict(s)
		}
	}
	for _, g := range w.groups {
		w.blocks.drop(g.trunk)
		g.trunk = nil
	}
}
