package load

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed-7879b91d/grpo/cmd/grpo/bench"
)

// Result is the result. Rates are in tokens per second while all completions are sampled, or over the whole round if they never
// all are; one for each round.
type Result struct {
	Bench      string `json:"bench"`
	Backend    string `json:"backend"`
	Shape      string `json:"shape,omitempty"`
	Clients    int    `json:"batch"`
	Prompt     int    `json:"context"`
	Completion int    `json:"completion"`

	Served   []float64 `json:"served_tokens_per_s"`
	Alone    []float64 `json:"sampler_tokens_per_s,omitempty"` // without HTTP
	Decoded  []float64 `json:"decoder_tokens_per_s,omitempty"` // the decoder alone
	Ratio    float64   `json:"of_sampler,omitempty"`           // of medians over rounds
	OfDecode float64   `json:"of_decoder,omitempty"`

	AtOnce      Concurrency  `json:"served_at_once"` // what the rates refer to
	AloneAtOnce *Concurrency `json:"sampler_at_once,omitempty"`
	MixedAtOnce *Concurrency `json:"beside_long_at_once,omitempty"`

	Short     *Latencies `json:"together"`
	Mixed     *Latencies `json:"beside_long,omitempty"`
	MixedRate float64    `json:"beside_long_tokens_per_s,omitempty"`
	Long      *Latencies `json:"long,omitempty"`

	LongPrompt int `json:"long_context,omitempty"`
}

// Latencies are in milliseconds; nil if there were no answers.
type Latencies struct {
	Answers    int     `json:"answers"`
	First      float64 `json:"first_p50_ms"`
	First99    float64 `json:"first_p99_ms"`
	Between    float64 `json:"between_p50_ms"`
	Between99  float64 `json:"between_p99_ms"`
	BetweenMax float64 `json:"between_max_ms"`
}

func (l *Load) result() *Result {
	r := &Result{Bench: "serve", Shape: l.Shape, Clients: l.Clients, Prompt: l.Prompt, Completion: l.Completion, LongPrompt: l.Long}
	if l.URL != "" {
		r.Shape = ""
	}
	return r
}

func latencies(firsts, gaps []time.Duration) *Latencies {
	if len(firsts) == 0 || len(gaps) == 0 {
		return nil
	}
	slices.Sort(firsts)
	slices.Sort(gaps)
	at := func(list []time.Duration, share float64) float64 {
		return float64(list[min(int(share*float64(len(list))), len(list)-1)].Microseconds()) / 1000
	}
	return &Latencies{Answers: len(firsts), First: at(firsts, 0.5), First99: at(firsts, 0.99),
		Between: at(gaps, 0.5), Between99: at(gaps, 0.99), BetweenMax: at(gaps, 1)}
}

// Report is the result for people.
func (r *Result) Report() bench.Report {
	t := bench.Report{
		Above: fmt.Sprintf("%s; %d clients, %s prompts of %d tokens, completions of %d\n", r.Backend, r.Clients, r.Shape, r.Prompt, r.Completion),
		Header: []string{"load", "tokens/s", "sampler alone", "share", "decoder alone", "share",
			"first token p50", "p99", "between p50", "p99", "max"}}
	shares := []string{"", "", "", ""}
	if len(r.Alone) > 0 {
		shares = []string{rate(median(r.Alone)), share(r.Ratio), rate(median(r.Decoded)), share(r.OfDecode)}
	}
	row := func(load, rate string, shares []string, l *Latencies) {
		t.Rows = append(t.Rows, slices.Concat([]string{load, rate}, shares, l.cells()))
	}
	row("at once", rate(median(r.Served)), shares, r.Short)
	t.Below = r.AtOnce.say("at once", r.Clients, false)
	if r.AloneAtOnce != nil {
		t.Below += r.AloneAtOnce.say("sampler alone", r.Clients, false)
	}
	none := make([]string, len(shares))
	if r.Mixed != nil {
		beside := fmt.Sprintf("beside prompts of %d", r.LongPrompt)
		row(beside, rate(r.MixedRate), none, r.Mixed)
		t.Below += r.MixedAtOnce.say(beside, r.Clients, true)
	}
	if r.Long != nil {
		row(fmt.Sprintf("those, %d answers", r.Long.Answers), "", none, r.Long)
	}
	return t
}

func rate(x float64) string  { return fmt.Sprintf("%.1f", x) }
func share(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

func (l *Latencies) cells() (list []string) {
	for _, ms := range []float64{l.First, l.First99, l.Between, l.Between99, l.BetweenMax} {
		list = append(list, fmt.Sprintf("%.0f ms", ms))
	}
	return list
}
