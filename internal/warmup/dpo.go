package warmup

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/objective"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/model"
)

// preferences are the methodData of dpo. The loss of a pair depends on the log-probabilities of both whole answers, so a step scores
// its pairs first. It then minimises −Σ w·log p, where the weight of an answer's tokens is the derivative of the loss by the
// log-probability of that answer: this has the same gradient.
type preferences struct {
	loss objective.Preference
	// reference has the log-probabilities of each row, the chosen answer first, under the policy before the first step. That
	// is the model without its adapter, unless the run started from one.
	reference [][2]float64
}

// pair has the log-probabilities of a row under the policy.
type pair struct {
	logp [2]float64
	h    float64 // log-odds of the chosen answer, minus those under the reference
}

// referenceFile caches the reference, so that it is computed once.
const referenceFile = "reference.json"

// cached is the content of that file.
type cached struct {
	Key    string       `json:"key"` // identifies the rows and the weights
	Scores [][2]float64 `json:"scores"`
}

func (p *preferences) begin(ctx context.Context, t *Trainer) error {
	p.loss = objective.Preference{Beta: t.cfg.DPOBeta, Squared: t.cfg.DPOLoss == "ipo", Smoothing: t.cfg.LabelSmoothing}
	key, err := p.key(t)
	if err != nil {
		return err
	}
	path := t.record.File(referenceFile)
	var known cached
	if err := rundir.ReadJSON(path, &known); err == nil && known.Key == key && len(known.Scores) == len(t.set.rows) {
		p.reference = known.Scores
		return nil
	}
	all := make([]int, len(t.set.rows))
	for i := range all {
		all[i] = i
	}
	t.watcher.Phase("reference", t.set.sequences(all))
	if p.reference, _, _, err = p.score(ctx, t, all); err != nil {
		return fmt.Errorf("score by the reference: %w", err)
	}
	return atomicfile.WriteJSON(path, cached{key, p.reference})
}

// key is a hash of the rows' tokens, and of the weights that the run started with.
func (p *preferences) key(t *Trainer) (string, error) {
	h := sha256.New()
	parts := []any{t.print.SHA256, t.parts["adapter"].SHA256, t.cfg.Precision, t.backend.Order()}
	if t.cfg.KVCacheDtype != "f32" || t.cfg.AdapterPrecision != "f32" { // for f32, keys are as before there was a choice
		parts = append(parts, t.cfg.KVCacheDtype, t.cfg.AdapterPrecision)
	}
	if t.cfg.Quantize != "none" { // quantised weights are other weights
		parts = append(parts, t.cfg.Quantize)
	}
	text, err := json.Marshal(parts)
	if err != nil {
		return "", err
	}
	h.Write(text)
	for _, r := range t.set.rows {
		for _, side := range r.sides {
			for _, s := range side {
				fmt.Fprintln(h, s.Tokens, s.Spans)
			}
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// score computes the log-probabilities of both answers of rows. It also returns the datums, and the row and side of each.
func (p *preferences) score(ctx context.Context, t *Trainer, rows []int) (sums [][2]float64, datums []model.Datum, of [][2]int, err error) {
	for k, i := range rows {
		for side, sequences := range t.set.rows[i].sides {
			for _, s := range sequences {
				datums, of = append(datums, datum(s, 1)), append(of, [2]int{k, side})
			}
		}
	}
	scores, err := t.policy.ScoreLearned(ctx, datums, 1)
	if err != nil {
		return nil, nil, nil, err
	}
	sums = make([][2]float64, len(rows))
	for i, d := range datums {
		sum, _ := counted(d, scores[i])
		sums[of[i][0]][of[i][1]] += sum
	}
	return sums, datums, of, nil
}

// compare computes the pairs from log-probabilities and the reference.
func (p *preferences) compare(rows []int, sums [][2]float64) (pairs []pair) {
	for k, i := range rows {
		ref := p.reference[i]
		pairs = append(pairs, pair{sums[k], (sums[k][0] - ref[0]) - (sums[k][1] - ref[1])})
	}
	return pairs
}

func (p *preferences) datums(ctx context.Context, t *Trainer, rows []int, m *Metrics) ([]model.Datum, error) {
	progress := t.policy.Progress
	t.policy.Progress = nil // progress is reported for the training pass on the same sequences
	sums, datums, of, err := p.score(ctx, t, rows)
	t.policy.Progress = progress
	if err != nil {
		return nil, err
	}
	pairs := p.compare(rows, sums)
	if slices.ContainsFunc(pairs, func(one pair) bool { return one.h-one.h != 0 }) {
		t.broken = t.learner.NonFiniteError(t.cfg)
		return nil, t.broken
	}
	m.Preferences = p.measure(rows, pairs)
	for i := range datums {
		_, slope := p.loss.Of(pairs[of[i][0]].h)
		// d loss / d log p of this answer, for the mean over pairs. The objective divides by the number of sequences in the step.
		weight := -slope * float64(len(datums)) / float64(len(rows))
		if of[i][1] == 1 {
			weight = -weight
		}
		for k, counts := range datums[i].Mask {
			if counts {
				datums[i].Advantages[k] = float32(weight)
			}
		}
	}
	return datums, nil
}

// measure computes statistics of pairs.
func (p *preferences) measure(rows []int, pairs []pair) *Preferences {
	out, n, prefers := &Preferences{}, float64(len(pairs)), 0
	for k, i := range rows {
		loss, _ := p.loss.Of(pairs[k].h)
		out.PairLoss += loss / n
		out.Margin += p.loss.Beta * pairs[k].h / n
		out.Chosen += p.loss.Beta * (pairs[k].logp[0] - p.reference[i][0]) / n
		out.Rejected += p.loss.Beta * (pairs[k].logp[1] - p.reference[i][1]) / n
		if pairs[k].h > 0 {
			prefers++
		}
	}
	out.Accuracy = float64(prefers) / n // exact: a sum of shares could round to less than 1
	return out
}

func (p *preferences) evaluate(ctx context.Context, t *Trainer, rows []int) (h HeldOut, err error) {
	sums, datums, _, err := p.score(ctx, t, rows)
	if err != nil {
		return h, err
	}
	for _, d := range datums {
		h.Tokens += d.Trainable()
	}
	h.Rows, h.Preferences = len(rows), p.measure(rows, p.compare(rows, sums))
	h.Loss = h.PairLoss
	return h, nil
}

var _, _ methodData = &conversations{}, &preferences{}

// rowsAre says what the rows of a method are, for the user.
func rowsAre(method string) string {
	if method == configs.DPO {
		return "pair"
	}
	return "conversation"
}
