// Package load measures a server of OpenAI's API under load: each client sends its next request as soon as it has its answer. It
// measures this program with random weights, compared with its sampler without HTTP and its decoder without a sampler, or any
// other server by its URL.
package load

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-7879b91d/grpo/cmd/grpo/bench"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Load is the configuration of the benchmark.
type Load struct {
	bench.Model
	URL, Name string // another server, and its model

	Clients     int
	Prompt      int // in tokens
	Completion  int
	Long        int // tokens of long prompts sent at the same time, one after the other; 0: none
	Temperature float64
	TopK        int
}

// Register adds the flags.
func (l *Load) Register(fl *pflag.FlagSet) {
	fl.StringVar(&l.URL, "url", "",
		"`address` of another server, such as http://127.0.0.1:8080; if not given, grpo serve with random weights")
	fl.StringVar(&l.Name, "name", "", "`name` of the model on that server")
	fl.IntVar(&l.Clients, "batch", 16, "number of clients; each waits for one completion at a time")
	fl.IntVar(&l.Prompt, "context", 32, "tokens of each prompt")
	fl.IntVar(&l.Completion, "completion", 64, "tokens of each completion")
	fl.IntVar(&l.Long, "long", 2048, "tokens of the long prompts of the second part; 0: skip it")
	fl.Float64Var(&l.Temperature, "temperature", 1, "sampling temperature; 0: always the most likely token")
	fl.IntVar(&l.TopK, "top-k", 0, "sample from the k most likely tokens; 0: all")
}

func (l *Load) check() error {
	switch {
	case l.Clients < 1 || l.Prompt < 1 || l.Completion < 2 || l.Runs < 1:
		return badinput.Errorf("--batch, --context, --completion and --runs: found %d, %d, %d and %d, expected 1 or more, and 2 of --completion",
			l.Clients, l.Prompt, l.Completion, l.Runs)
	case l.Long < 0 || l.TopK < 0 || !(l.Temperature >= 0 && l.Temperature <= math.MaxFloat32):
		return badinput.Errorf("--long, --top-k and --temperature: found %d, %d and %v, expected 0 or more", l.Long, l.TopK, l.Temperature)
	case (l.URL == "") != (l.Name == ""):
		return badinput.Errorf("--url and --name go together: type --url http://127.0.0.1:8080 --name MODEL")
	case l.URL != "" && !strings.HasPrefix(l.URL, "http://") && !strings.HasPrefix(l.URL, "https://"):
		return badinput.Errorf("--url: found %q, expected an address such as http://127.0.0.1:8080", l.URL)
	}
	return nil
}

// Verb is the command, without its action.
var Verb = cobra.Command{
	Use:   "serve [--shape S] [--batch B] [--url URL --name MODEL]",
	Short: "Completions over HTTP, compared with the sampler and the decoder alone",
	Long: `B clients request streams of completions from a server, over the loopback network. In the first part all request at the
same time, in rounds; between rounds the sampler does the same without HTTP, and the decoder without a sampler. Shares
are medians over the rounds. In the second part each client requests three completions, of half to one and a half times
the length, while prompts of --long tokens arrive one after another. The table has the time to the first token, the time
between tokens and the rates; below it, the share of the time in which all B completions were sampled at once, and
whether that ever happened.

--url measures any server of OpenAI's API. It is sent token ids below 2,000, and ignore_eos.`,
	Example: `  grpo bench serve
  grpo bench serve --batch 32 --long 0
  grpo bench serve --url http://127.0.0.1:8080 --name qwen`,
}

// longCompletion is the number of tokens sampled after a long prompt.
const longCompletion = 8

// Run runs the benchmark.
func (l *Load) Run(ctx context.Context) (*Result, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	if l.URL != "" {
		r := l.result()
		r.Backend = l.URL
		return r, l.measure(ctx, (&httpAsker{load: l, url: l.URL, name: l.Name}).ask, nil, r)
	}
	h, err := l.open()
	if err != nil {
		return nil, err
	}
	defer h.close()
	r := l.result()
	r.Backend = h.backend.Name()
	return r, l.measure(ctx, (&httpAsker{load: l, url: h.url, name: hostName}).ask, h, r)
}

// measure alternates between the ways to ask, so that each is compared with the machine's speed at that time, and then
// measures long prompts.
func (l *Load) measure(ctx context.Context, ask ask, h *host, r *Result) error {
	var gaps, firsts []time.Duration
	var ratios, decoding []float64
	if h != nil {
		r.AloneAtOnce = &Concurrency{}
	}
	for i := range l.Runs + 1 {
		served, err := l.together(ctx, ask, uint64(3*i))
		if err != nil {
			return err
		}
		if h == nil {
			if i > 0 {
				r.Served = append(r.Served, served.rate())
			}
		} else {
			alone, err := l.together(ctx, h.ask, uint64(3*i+1))
			if err != nil {
				return err
			}
			step, err := h.decode()
			if err != nil {
				return err
			}
			if i > 0 {
				r.AloneAtOnce.add(alone, l.Clients)
				r.Served, r.Alone = append(r.Served, served.rate()), append(r.Alone, alone.rate())
				r.Decoded = append(r.Decoded, float64(l.Clients)/step.Seconds())
				ratios = append(ratios, served.rate()/alone.rate())
				decoding = append(decoding, served.rate()*step.Seconds()/float64(l.Clients))
			}
		}
		if i > 0 { // the first is a warm-up
			r.AtOnce.add(served, l.Clients)
			gaps, firsts = append(gaps, served.gaps()...), append(firsts, served.firsts()...)
		}
	}
	r.Short = latencies(firsts, gaps)
	if h != nil {
		r.Ratio, r.OfDecode = median(ratios), median(decoding)
	}
	if l.Long == 0 {
		return nil
	}
	mixed, long, err := l.mixed(ctx, ask)
	if err != nil {
		return err
	}
	r.Mixed, r.MixedRate, r.MixedAtOnce = latencies(mixed.firsts(), mixed.gaps()), mixed.whole(), &Concurrency{}
	r.MixedAtOnce.add(mixed, l.Clients)
	r.Long = latencies(long.firsts(), long.gaps())
	return nil
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
