package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// question is a client's request for a completion.
type question struct {
	prompt []int32
	tokens int
	seed   uint64
}

// answer is when it was requested, and when each token came.
type answer struct {
	asked time.Time
	came  []time.Time
}

// ask makes a request.
type ask func(context.Context, question) (answer, error)

// answers are the answers of a round.
type answers []answer

// newQuestion makes a prompt that was never used, so that no cache helps.
func newQuestion(seed uint64, prompt, tokens int) question {
	rng := rand.New(rand.NewPCG(seed, 11))
	q := question{prompt: make([]int32, prompt), tokens: tokens, seed: seed}
	for i := range q.prompt {
		q.prompt[i] = rng.Int32N(vocabulary)
	}
	return q
}

// vocabulary limits token IDs to those that every model has.
const vocabulary = 2000

// together lets every client make one request, at the same time.
func (l *Load) together(ctx context.Context, ask ask, round uint64) (answers, error) {
	return l.clients(ctx, ask, 1, func(client, _ int) question {
		return newQuestion(round<<32+uint64(client), l.Prompt, l.Completion)
	})
}

// mixed lets every client make three requests, for completions of various lengths, so that some begin while others are
// sampled. One more client sends long prompts until they are done.
func (l *Load) mixed(ctx context.Context, ask ask) (short, long answers, err error) {
	rng := rand.New(rand.NewPCG(3, 5))
	lengths := make([]int, 3*l.Clients)
	for i := range lengths {
		lengths[i] = max(2, l.Completion/2+rng.IntN(l.Completion))
	}
	more, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	var failed error
	beside.Go(func() {
		for i := 0; more.Err() == nil; i++ {
			a, err := ask(more, newQuestion(1<<60+uint64(i), l.Long, longCompletion))
			if err != nil {
				if more.Err() == nil {
					failed = err
				}
				return
			}
			long = append(long, a)
		}
	})
	short, err = l.clients(ctx, ask, 3, func(client, i int) question {
		return newQuestion(1<<61+uint64(3*client+i), l.Prompt, lengths[3*client+i])
	})
	stop()
	beside.Wait()
	if err == nil {
		err = failed
	}
	return short, long, err
}

// clients lets each client make that many requests.
func (l *Load) clients(ctx context.Context, ask ask, times int, what func(client, i int) question) (answers, error) {
	all := make(answers, l.Clients*times)
	errs := make([]error, l.Clients)
	var running sync.WaitGroup
	for c := range l.Clients {
		running.Go(func() {
			for i := range times {
				q := what(c, i)
				a, err := ask(ctx, q)
				if err == nil && len(a.came) == 0 {
					err = fmt.Errorf("an answer of %d tokens without a line of text", q.tokens)
				}
				if err != nil {
					errs[c] = err
					return
				}
				all[c*times+i] = a
			}
		})
	}
	running.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return all, ctx.Err()
}

// httpAsker makes requests over HTTP.
type httpAsker struct {
	load      *Load
	url, name string
	client    http.Client
}

// ask reads a stream, in which each line but the last two is a token. It parses no more, as it shares the machine with the server.
func (a *httpAsker) ask(ctx context.Context, q question) (got answer, err error) {
	body, err := json.Marshal(map[string]any{"model": a.name, "prompt": q.prompt, "max_tokens": q.tokens, "stream": true, "ignore_eos": true,
		"temperature": a.load.Temperature, "top_k": a.load.TopK, "seed": int32(q.seed), "stream_options": map[string]bool{"include_usage": true}})
	if err != nil {
		return got, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(a.url, "/")+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return got, err
	}
	r.Header.Set("Content-Type", "application/json")
	got = answer{asked: time.Now(), came: make([]time.Time, 0, q.tokens)}
	res, err := a.client.Do(r)
	if err != nil {
		return got, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10)) // the reason, if it can be read
		return got, fmt.Errorf("%s: %s: %s", a.url, res.Status, bytes.TrimSpace(text))
	}
	return got, got.read(res.Body, q.tokens)
}

// read records when lines came, and checks the number of tokens in the usage line.
func (a *answer) read(body io.Reader, tokens int) error {
	var used []byte
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, is := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		switch {
		case !is:
		case string(data) == "[DONE]":
			return a.check(used, tokens)
		case len(a.came) < tokens:
			a.came = append(a.came, time.Now())
		}
		if is {
			used = append(used[:0], data...)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

func (a *answer) check(last []byte, tokens int) error {
	var v struct {
		Usage struct {
			Completion int `json:"completion_tokens"`
		}
	}
	if err := json.Unmarshal(last, &v); err != nil {
		return fmt.Errorf("the last line of a stream: %w", err)
	}
	if v.Usage.Completion != tokens {
		return fmt.Errorf("the last line of a stream of %d tokens says that there are %d", tokens, v.Usage.Completion)
	}
	return nil
}

// rate is tokens per second while all completions were sampled; if they never all were, over the whole round.
func (all answers) rate() float64 {
	from, to := time.Time{}, time.Time{}
	for i, a := range all {
		if first := a.came[0]; i == 0 || first.After(from) {
			from = first
		}
		if last := a.came[len(a.came)-1]; i == 0 || last.Before(to) {
			to = last
		}
	}
	if !to.After(from) {
		return all.whole()
	}
	n := 0
	for _, a := range all {
		for _, t := range a.came {
			if t.After(from) && !t.After(to) {
				n++
			}
		}
	}
	return float64(n) / to.Sub(from).Seconds()
}

// whole is tokens per second from the first request to the last token.
func (all answers) whole() float64 {
	from, to, n := all[0].asked, time.Time{}, 0
	for _, a := range all {
		n += len(a.came)
		if a.asked.Before(from) {
			from = a.asked
		}
		if last := a.came[len(a.came)-1]; last.After(to) {
			to = last
		}
	}
	return float64(n) / to.Sub(from).Seconds()
}

// firsts are the times to the first token, sorted.
func (all answers) firsts() (list []time.Duration) {
	for _, a := range all {
		list = append(list, a.came[0].Sub(a.asked))
	}
	return slices.Sorted(slices.Values(list))
}

// gaps are the times between tokens, sorted.
func (all answers) gaps() (list []time.Duration) {
	for _, a := range all {
		for i := 1; i < len(a.came); i++ {
			list = append(list, a.came[i].Sub(a.came[i-1]))
		}
	}
	return slices.Sorted(slices.Values(list))
}
