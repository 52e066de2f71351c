package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
	"github.com/seed-7879b91d/grpo/sampler"
)

// job is what a request asks of a policy, and how its answer is written.
type job struct {
	policy   *Policy
	requests []sampler.Request // one per prompt
	n        int               // completions per prompt
	stream   bool
	usage    bool // a stream ends with the usage
	open     func(index int) *choice
	form     form
}

// form writes answers of one kind.
type form interface {
	start(c *choice) any                              // the first line of a choice in a stream; nil: none
	scored(c *choice, r *sampler.Rollout) any         // the line of a stream when its prompt is scored
	more(c *choice, d delta) any                      // a line of a stream
	last(c *choice, d delta, r *finishedChoice) []any // the last lines of a choice in a stream
	usage(u usage) any                                // the line after the last choice
	whole(choices []*choice, all []*finishedChoice, u usage) any
}

// finishedChoice is a choice that is complete.
type finishedChoice struct {
	*sampler.Rollout
	wholeAnswer
	finish string
}

// usage counts the tokens of a request.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Cache      struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Kinds struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (j *job) used(choices []*choice, all []*finishedChoice) (u usage) {
	for i, r := range j.requests {
		u.Prompt += len(r.Prompt)
		cached := 0
		for k := i * j.n; k < (i+1)*j.n; k++ {
			cached = max(cached, all[k].Cached)
			u.Completion += choices[k].tokens
			u.Kinds.Reasoning += choices[k].thoughts
		}
		u.Cache.Cached += cached
	}
	u.Total = u.Prompt + u.Completion
	return u
}

// checkLogProbs refuses a request whose answer would have too many log-probabilities, as each takes far more memory than a token.
func (j *job) checkLogProbs() error {
	found := 0
	for _, r := range j.requests {
		if r.Raw {
			found += r.N * r.Params.MaxTokens * (1 + r.Top)
		}
		if r.ScorePrompt {
			found += r.N * len(r.Prompt) * (1 + r.PromptTop)
		}
	}
	if found > mostLikely {
		return refusal.Field("logprobs", "the answer could have %d log-probabilities, expected at most %d; ask for fewer tokens, "+
			"completions or top_logprobs", found, mostLikely)
	}
	return nil
}

// submit starts the sampling of all completions. cancel stops those that are not finished.
func (j *job) submit(box *mailbox, drew func(TokenUsage)) (cancel func(), err error) {
	all := make([]sampler.Listener, len(j.requests))
	for i, r := range j.requests {
		first := i * j.n
		drawn, left := TokenUsage{Model: j.policy.Name, Prompt: len(r.Prompt)}, r.N
		on := sampler.Listener{Done: func(r sampler.Rollout) { // also called for cancelled ones
			drawn.Cached, drawn.Completion = max(drawn.Cached, r.Cached), drawn.Completion+len(r.Tokens)
			scored := r.Finish == sampler.Length && len(r.Tokens) == 0
			if left--; left == 0 && (drawn.Completion > 0 || scored) && drew != nil {
				drew(drawn)
			}
			box.put(event{choice: first + r.Sample, done: &r})
		}}
		if j.stream {
			on.Token = func(t sampler.Token) { box.put(event{choice: first + t.Sample, token: t}) }
			on.Prompt = func(scores []float32, top [][]sampler.Likely) {
				for k := range r.N {
					box.put(event{choice: first + k, prompt: &sampler.Rollout{Prompt: scores, PromptTop: top}})
				}
			}
		}
		all[i] = on
	}
	if cancel, err = j.policy.Submit(j.requests, all); err != nil {
		return nil, explain(err)
	}
	return cancel, nil
}

// errLeft ends the answer to a client that has disconnected. One that closed only its sending side can read it.
var errLeft error = refusal.Errorf(499, "the client closed its side of the connection before it was answered; keep it open until then")

// whyEnded is why the context of a request ended: its client left, or the server stops.
func whyEnded(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errStopping) {
		return errStopping
	}
	return errLeft
}

// ClientLeft reports whether an error is that the client disconnected.
func ClientLeft(err error) bool { return errors.Is(err, errLeft) }

// answer samples what a request asks for, and writes it. If the client disconnects, sampling stops.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, j *job) error {
	box := newMailbox()
	cancel, err := j.submit(box, s.drew)
	if err != nil {
		return err
	}
	defer cancel()
	run := &running{job: j, began: time.Now(), choices: make([]*choice, len(j.requests)*j.n)}
	run.all = make([]*finishedChoice, len(run.choices))
	for i := range run.choices {
		run.choices[i] = j.open(i)
	}
	if j.stream {
		run.out = newStream(w)
		for _, c := range run.choices {
			run.out.send(j.form.start(c))
		}
		run.out.flush()
	}
	err = run.follow(r.Context(), box)
	if err == nil {
		err = run.finish(w)
	} else if j.stream {
		run.out.fail(err)
		err = &lateError{err}
	}
	if s.watch != nil && err == nil {
		s.watch(Latency{Model: j.policy.Name, First: run.first, Whole: time.Since(run.began)})
	}
	return err
}

// lateError is an error after the answer has begun, so that no status can be sent any more.
type lateError struct{ error }

func (a *lateError) Unwrap() error { return a.error }

// running is a job in progress.
type running struct {
	*job
	choices []*choice
	all     []*finishedChoice
	out     *stream // nil: the answer is written as a whole
	done    int
	began   time.Time
	first   time.Duration // to the first token
}

// follow handles events until every choice has ended.
func (r *running) follow(ctx context.Context, box *mailbox) error {
	for r.done < len(r.choices) {
		select {
		case <-box.ready:
		case <-ctx.Done():
			return whyEnded(ctx)
		}
		for _, e := range box.take() {
			if err := r.take(e); err != nil {
				return err
			}
		}
		if r.out != nil {
			if err := r.out.flush(); err != nil {
				return errLeft
			}
		}
	}
	return nil
}

func (r *running) take(e event) error {
	c := r.choices[e.choice]
	if e.prompt != nil {
		r.out.send(r.form.scored(c, e.prompt))
		return nil
	}
	if r.first == 0 {
		r.first = time.Since(r.began)
	}
	if e.done == nil && e.token.LogProb != e.token.LogProb ||
		e.done != nil && slices.ContainsFunc(e.done.LogProbs, func(p float32) bool { return p != p }) {
		return refusal.Errorf(http.StatusInternalServerError, "%s computes log-probabilities that are not finite, so its training has "+
			"diverged; ask for another model", r.policy.Name)
	}
	if e.done == nil {
		if d := c.token(e.token); !d.empty() {
			r.out.send(r.form.more(c, d))
		}
		return nil
	}
	r.done++
	end := &finishedChoice{Rollout: e.done}
	r.all[e.choice] = end
	switch {
	case end.Finish == sampler.Failed:
		return explain(end.Err)
	case end.Finish == sampler.Cancelled:
		return explain(sampler.ErrClosed)
	}
	if r.out == nil {
		for _, t := range tokensOf(e.done) {
			end.add(c.token(t))
		}
	}
	d := c.end(e.done)
	end.finish = c.finish(e.done)
	if r.out == nil {
		end.add(d)
		return nil
	}
	for _, line := range r.form.last(c, d, end) {
		r.out.send(line)
	}
	return nil
}

// finish writes the end of a stream, or the whole answer.
func (r *running) finish(w http.ResponseWriter) error {
	u := r.used(r.choices, r.all)
	if r.out != nil {
		if r.job.usage {
			r.out.send(r.form.usage(u))
		}
		r.out.close()
		return nil
	}
	return writeJSON(w, r.form.whole(r.choices, r.all, u))
}

// stream writes server-sent events.
type stream struct {
	w   http.ResponseWriter
	buf bytes.Buffer
}

func newStream(w http.ResponseWriter) *stream {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	return &stream{w: w}
}

func (s *stream) send(line any) {
	if line == nil {
		return
	}
	s.buf.WriteString("data: ")
	s.buf.Write(encode(line))
	s.buf.WriteString("\n\n")
}

// flush sends what was written to the client. An error means that the client is gone.
func (s *stream) flush() error {
	if _, err := s.buf.WriteTo(s.w); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}

func (s *stream) close() {
	s.buf.WriteString("data: [DONE]\n\n")
	s.flush() // an error means that the client is gone: nothing to do
}

// fail ends a stream with an error.
func (s *stream) fail(err error) {
	s.buf.WriteString("data: ")
	s.buf.Write(refusal.FromError(err).JSON())
	s.buf.WriteString("\n\n")
	s.flush() // the client may be gone
}

// encode is JSON without HTML escapes: < and & stay as they are.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // all answers can be encoded
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func writeJSON(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(append(encode(v), '\n')); err != nil {
		return &lateError{errLeft}
	}
	return nil
}
