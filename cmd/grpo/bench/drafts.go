package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Drafts measures what drafted tokens save: completions are sampled without drafts, and again with a similar text to draft from.
type Drafts struct {
	Sampling
	Alike []float64 // the shares of a text's tokens that are equal to the completion's
}

// DraftsResult is the throughput of both, for each similarity.
type DraftsResult struct {
	Bench   string         `json:"bench"`
	Backend string         `json:"backend"`
	Shape   string         `json:"shape"`
	Batch   int            `json:"batch"`
	Context int            `json:"context"`
	Limits  hardwareLimits `json:"limits"`
	Rows    []DraftsRow    `json:"rows"`
}

// DraftsRow is the throughput of both for one similarity. Rates are medians, and so is their ratio.
type DraftsRow struct {
	Alike        float64 `json:"alike"`
	Plain        float64 `json:"plain_tokens_per_s"`
	TokensPerSec float64 `json:"tokens_per_s"`
	Times        float64 `json:"times_plain"`
	Drafted      int     `json:"drafted"` // in all timed runs
	Accepted     int     `json:"accepted"`
}

// Run samples everything both ways, alternating.
func (d *Drafts) Run(ctx context.Context) (_ *DraftsResult, err error) {
	for _, alike := range d.Alike {
		if !(alike >= 0 && alike <= 1) {
			return nil, badinput.Errorf("--alike: found %v, expected shares of 0 to 1", alike)
		}
	}
	if d.Batch < 1 || d.Context < 1 {
		return nil, badinput.Errorf("--batch and --context: found %d and %d, expected 1 or more", d.Batch, d.Context)
	}
	lim, b, err := d.begin()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	p, err := model.Random(b, d.Shape, d.Options)
	if err != nil {
		return nil, err
	}
	o := sampler.Options{MaxSequences: d.Batch, MaxLength: draftPrompt + d.Context}
	drafting, err := sampler.New(p, o)
	if err != nil {
		return nil, err
	}
	o.NoDrafts = true
	plain, err := sampler.New(p, o)
	if err != nil {
		return nil, err
	}
	r := &DraftsResult{Bench: "drafts", Backend: b.Name(), Shape: d.Shape, Batch: d.Batch, Context: d.Context, Limits: lim}
	for i, alike := range d.Alike {
		row, err := d.compare(ctx, plain, drafting, alike, i*(d.Runs+1), p.Vocab)
		if err != nil {
			return nil, err
		}
		r.Rows = append(r.Rows, row)
	}
	return r, nil
}

// draftPrompt is the number of tokens of a prompt.
const draftPrompt = 4

// compare measures one similarity, after a warm-up.
func (d *Drafts) compare(ctx context.Context, plain, drafting *sampler.Engine, alike float64, first, vocab int) (DraftsRow, error) {
	var without, with, times []float64
	var drafted, accepted int
	for run := range d.Runs + 1 {
		asked := d.requests(first+run, vocab)
		want, slow, err := d.timed(ctx, plain, asked)
		if err != nil {
			return DraftsRow{}, err
		}
		rng := rand.New(rand.NewPCG(uint64(first+run), 2))
		for _, r := range want {
			text := slices.Concat(asked[r.Request].Prompt, r.Tokens)
			for i := range text {
				if rng.Float64() >= alike {
					text[i] = rng.Int32N(int32(vocab))
				}
			}
			drafting.Learn(text)
		}
		if run == 1 {
			drafted, accepted = drafting.Drafted, drafting.Accepted
		}
		got, fast, err := d.timed(ctx, drafting, asked)
		if err != nil {
			return DraftsRow{}, err
		}
		if !reflect.DeepEqual(want, got) {
			return DraftsRow{}, errors.New("with drafts other tokens were drawn")
		}
		if run > 0 {
			without, with, times = append(without, slow), append(with, fast), append(times, fast/slow)
		}
	}
	return DraftsRow{Alike: alike, Plain: median(without), TokensPerSec: median(with), Times: median(times),
		Drafted: drafting.Drafted - drafted, Accepted: drafting.Accepted - accepted}, nil
}

// requests ask for completions that no other run has.
func (d *Drafts) requests(run, vocab int) []sampler.Request {
	rng := rand.New(rand.NewPCG(uint64(run), 1))
	asked := make([]sampler.Request, d.Batch)
	for i := range asked {
		prompt := make([]int32, draftPrompt)
		for k := range prompt {
			prompt[k] = rng.Int32N(int32(vocab))
		}
		asked[i] = sampler.Request{Prompt: prompt, N: 1, Key: sampler.Key{Step: run, Problem: i},
			Params: sampler.Params{Temperature: 1, MaxTokens: d.Context}}
	}
	return asked
}

// timed samples the requests, and returns the tokens per second.
func (d *Drafts) timed(ctx context.Context, e *sampler.Engine, asked []sampler.Request) ([]sampler.Rollout, float64, error) {
	start := time.Now()
	rollouts, err := e.Sample(ctx, asked, sampler.Events{})
	return rollouts, float64(d.Batch*d.Context) / time.Since(start).Seconds(), err
}

// Report is the result for people.
func (r *DraftsResult) Report() Report {
	t := Report{Above: r.Limits.above(r.Backend), Header: []string{
		"shape", "batch", "tokens", "alike", "without", "with drafts", "times", "drafted", "of these drawn"}}
	for _, row := range r.Rows {
		drawn := "none"
		if row.Drafted > 0 {
			drawn = percent(float64(row.Accepted) / float64(row.Drafted))
		}
		t.row(r.Shape, fmt.Sprint(r.Batch), fmt.Sprint(r.Context), percent(row.Alike), perSecond(row.Plain), perSecond(row.TokensPerSec),
			fmt.Sprintf("%.2f", row.Times), fmt.Sprint(row.Drafted), drawn)
	}
	return t
}
