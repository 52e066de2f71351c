package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/cmd/grpo/bench"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving"
	"github.com/seed-7879b91d/grpo/internal/serving/gate"
	"github.com/seed-7879b91d/grpo/internal/serving/openai"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/sampler"
)

// hostName is the name of the model with random weights.
const hostName = "random"

// host serves a model with random weights, as the verb serve does.
type host struct {
	load    *Load
	backend kernels.Backend
	policy  *model.Policy
	live    *sampler.Live
	steps   *bench.Steps
	url     string
	stop    func() error
}

// open starts it. After an error the end of the process cleans up.
func (l *Load) open() (*host, error) {
	b, err := l.Open(l.Device, l.Threads)
	if err != nil {
		return nil, err
	}
	h := &host{load: l, backend: b, stop: func() error { return nil }}
	if err := h.begin(); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

func (h *host) begin() (err error) {
	l := h.load
	if h.policy, err = model.Random(h.backend, l.Shape, l.Options); err != nil {
		return err
	}
	longest := max(l.Prompt+2*l.Completion, l.Long+longCompletion)
	if longest > h.policy.MaxPositions {
		return badinput.Errorf("--context, --completion and --long make %d tokens, and %s has %d positions; type less",
			longest, l.Shape, h.policy.MaxPositions)
	}
	rows := l.Clients*(l.Prompt+2*l.Completion) + 2*longest
	blocks := rows/h.policy.CacheBlock() + 2*l.Clients + 4
	if h.live, err = sampler.NewLive(h.policy, sampler.Options{MaxSequences: l.Clients + 1, MaxLength: longest, Pace: serving.DefaultPace,
		CacheBytes: int64(blocks) * int64(h.policy.BlockBytes())}); err != nil {
		return err
	}
	if h.steps, err = bench.NewSteps(h.policy, l.Clients, l.Prompt+l.Completion/2); err != nil {
		return err
	}
	tok, err := madeUpTokenizer(h.policy.Vocab)
	if err != nil {
		return err
	}
	return h.serve(tok)
}

// serve listens, and samples.
func (h *host) serve(tok *tokenizer.Tokenizer) error {
	api := openai.New(singlePolicy{&openai.Policy{Name: hostName, Base: hostName, MaxLength: h.live.Plan().MaxLength,
		Language: &openai.Language{Tokenizer: tok, Rows: h.policy.Vocab},
		Submit: func(all []sampler.Request, on []sampler.Listener) (func(), error) {
			tickets, err := h.live.SubmitAll(all, on)
			return func() {
				for _, t := range tickets {
					t.Cancel()
				}
			}, err
		}}}, openai.Options{})
	g, err := gate.New(api, gate.Options{MaxConcurrent: h.load.Clients + 1})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h.url = "http://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	drawn, served := make(chan error, 1), make(chan error, 1)
	go func() { drawn <- h.live.Run(ctx) }()
	go func() {
		served <- g.Serve(ctx, listener, gate.ListenOptions{DrainTimeout: time.Second}, openai.ShutdownCause())
	}()
	h.stop = func() error {
		cancel()
		if err := <-drawn; !errors.Is(err, context.Canceled) {
			return errors.Join(err, <-served)
		}
		return <-served
	}
	return nil
}

func (h *host) close() error { return errors.Join(h.stop(), h.backend.Close()) }

// ask makes a request to the sampler directly.
func (h *host) ask(ctx context.Context, q question) (got answer, err error) {
	done := make(chan error, 1)
	got = answer{asked: time.Now(), came: make([]time.Time, 0, q.tokens)}
	params := sampler.Params{Temperature: float32(h.load.Temperature), TopK: h.load.TopK, MaxTokens: q.tokens}
	ticket, err := h.live.Submit(sampler.Request{Prompt: q.prompt, N: 1, Key: sampler.Key{Seed: q.seed}, Params: params}, sampler.Listener{
		Token: func(sampler.Token) { got.came = append(got.came, time.Now()) },
		Done:  func(r sampler.Rollout) { done <- r.Err }})
	if err != nil {
		return got, err
	}
	select {
	case err = <-done:
	case <-ctx.Done():
		ticket.Cancel()
		<-done
		err = ctx.Err()
	}
	return got, err
}

// decode is the time of a decoding step for one sequence per client, half way through their completions.
func (h *host) decode() (time.Duration, error) {
	h.live.Turn.Lock()
	defer h.live.Turn.Unlock()
	return h.steps.Time()
}

// singlePolicy is a host of a single policy.
type singlePolicy struct{ *openai.Policy }

func (o singlePolicy) Policies() []*openai.Policy { return []*openai.Policy{o.Policy} }

func (o singlePolicy) Find(name string) (*openai.Policy, error) {
	if name != o.Name {
		return nil, &serving.NotFoundError{Name: name, Available: []string{o.Name}}
	}
	return o.Policy, nil
}

// madeUpTokenizer is a tokenizer with made-up tokens, so that every token has a text.
func madeUpTokenizer(vocab int) (*tokenizer.Tokenizer, error) {
	dir, err := os.MkdirTemp("", "grpo-words-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var b strings.Builder
	b.WriteString(`{"added_tokens":[],"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"decoder":{"type":"ByteLevel"},` +
		`"model":{"type":"BPE","merges":[],"vocab":{`)
	for i := range vocab {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%d", madeUpToken(i), i)
	}
	b.WriteString("}}}")
	file := filepath.Join(dir, "tokenizer.json")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		return nil, err
	}
	return tokenizer.Load(file)
}

// madeUpToken is a byte in the alphabet of byte-level tokenizers, or four letters after a space.
func madeUpToken(i int) string {
	if i < 256 {
		return alphabet[i]
	}
	letters := []byte("aaaa")
	for k := range letters {
		letters[k], i = byte('a'+i%26), i/26
	}
	return "Ġ" + string(letters)
}

// alphabet has a character for each byte; printable ones stand for themselves.
var alphabet = func() (list [256]string) {
	next := rune(256)
	for b := range rune(256) {
		if b >= '!' && b <= '~' || b >= '¡' && b != 0xad {
			list[b] = string(b)
			continue
		}
		list[b] = string(next)
		next++
	}
	return list
}()
