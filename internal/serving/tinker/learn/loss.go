package learn

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/wire"
	"github.com/seed-7879b91d/grpo/internal/settings"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

// The names of a datum's loss inputs.
const (
	targetTokens = "target_tokens"
	weights      = "weights"
	logprobs     = "logprobs"
	advantages   = "advantages"
	mask         = "mask" // optional: rows to train on; by default those whose weight or advantage is not zero
)

// loss is a loss that a client may name. If the backend has it, native says which it is; else custom computes it.
type loss struct {
	kind     kernels.LossKind
	custom   func(settings map[string]float64) model.LossFunc
	ratio    bool               // it needs logprobs and advantages, else weights
	everyRow bool               // rows without an advantage are trained on too
	settings map[string]float64 // with their defaults
	// term is the loss of one token: lp is its log-probability now, q when it was sampled, a its advantage or weight.
	term func(lp, q, a float64, settings map[string]float64) float64
}

const (
	clipLow  = "clip_low_threshold"
	clipHigh = "clip_high_threshold"
	beta     = "beta"

	crossEntropy = "cross_entropy"
)

var losses = map[string]loss{
	crossEntropy: {
		kind: kernels.CrossEntropy,
		term: func(lp, _, w float64, _ map[string]float64) float64 { return -w * lp },
	},
	"importance_sampling": {
		kind: kernels.ImportanceSampling, ratio: true,
		term: func(lp, q, a float64, _ map[string]float64) float64 { return -math.Exp(lp-q) * a },
	},
	"ppo": {
		kind: kernels.PPO, ratio: true, settings: map[string]float64{clipLow: 0.8, clipHigh: 1.2},
		term: func(lp, q, a float64, s map[string]float64) float64 {
			r := math.Exp(lp - q)
			return -min(r*a, clip(r, s)*a)
		},
	},
	"cispo": {
		kind: kernels.CISPO, ratio: true, settings: map[string]float64{clipLow: 0, clipHigh: 4},
		term: func(lp, q, a float64, s map[string]float64) float64 { return -clip(math.Exp(lp-q), s) * lp * a },
	},
	"dro": {
		custom: dro, ratio: true, everyRow: true, settings: map[string]float64{beta: 0.05},
		term: func(lp, q, a float64, s map[string]float64) float64 { return -(lp*a - s[beta]/2*(lp-q)*(lp-q)) },
	},
}

func clip(r float64, s map[string]float64) float64 { return max(s[clipLow], min(r, s[clipHigh])) }

// dro is −Σ (A·lp − ½·beta·(lp − q)²), for which no backend has a kernel.
func dro(settings map[string]float64) model.LossFunc {
	b := settings[beta]
	return func(s *model.LossSequence) (sum float64) {
		for i := range s.LogP {
			lp, q, a := float64(s.LogP[i]), float64(s.Old[i]), float64(s.Advantage[i])
			sum -= lp*a - b/2*(lp-q)*(lp-q)
			s.Grad[i] = float32(-(a - b*(lp-q)))
		}
		return sum
	}
}

// CheckInputs refuses data with an input that no loss has. A forward only may have any: the client computes its own loss from the
// log-probabilities.
func CheckInputs(r wire.ForwardBackward) error {
	if r.ForwardOnly && r.Loss == crossEntropy {
		return nil
	}
	all := []string{targetTokens, weights, logprobs, advantages, mask}
	for i, d := range r.Data {
		for _, name := range slices.Sorted(maps.Keys(d.Inputs)) {
			if name == clipLow || name == clipHigh || name == beta {
				return badinput.Errorf("data %d: loss_fn_inputs: found %q, which has one value for all data; send it in loss_fn_config", i, name)
			}
			if !slices.Contains(all, name) {
				return wire.UnknownName(fmt.Sprintf("data %d: loss_fn_inputs: ", i), name, settings.Nearest(name, all), all)
			}
		}
	}
	return nil
}

// task is a request in the form of the model.
type task struct {
	loss     loss
	settings map[string]float64
	datums   []model.Datum
	shapes   [][]int64 // of the targets of each of the client's datums; K columns of targets make K datums here
	of       []int     // by datum: the index of the client's datum
}

// read validates and converts a request.
func read(r wire.ForwardBackward) (t task, err error) {
	known := false
	if t.loss, known = losses[r.Loss]; !known {
		return t, badinput.Errorf("loss_fn: found %q, expected one of %q", r.Loss, slices.Sorted(maps.Keys(losses)))
	}
	t.settings = maps.Clone(t.loss.settings)
	for _, key := range slices.Sorted(maps.Keys(r.Config)) {
		if _, known := t.loss.settings[key]; !known {
			return t, noSetting(r.Loss, key, slices.Sorted(maps.Keys(t.loss.settings)))
		}
		if t.settings[key] = r.Config[key]; math.IsNaN(r.Config[key]) {
			return t, badinput.Errorf("loss_fn_config: %s is not a number", key)
		}
	}
	if low, high := t.settings[clipLow], t.settings[clipHigh]; low > high {
		return t, badinput.Errorf("loss_fn_config: found %s %v, which is above %s %v, and no ratio is between them; they bound the ratio "+
			"itself: send such as %s 0.8 and %s 1.2", clipLow, low, clipHigh, high, clipLow, clipHigh)
	}
	if len(r.Data) == 0 {
		return t, badinput.Errorf("data: found no datum, expected one or more")
	}
	for i, d := range r.Data {
		if err := t.add(d); err != nil {
			return t, badinput.Errorf("data %d: %w", i, err)
		}
	}
	return t, nil
}

func noSetting(loss, key string, there []string) error {
	if len(there) == 0 {
		return badinput.Errorf("loss_fn_config: %s has no setting %.60q, and no other; leave it out", loss, key)
	}
	return badinput.Errorf("loss_fn_config: %s has no setting %.60q; there are: %s", loss, key, strings.Join(there, ", "))
}

// add converts one datum.
func (t *task) add(d wire.Datum) error {
	n := len(d.Tokens)
	if d.Other != "" {
		return badinput.Errorf("model_input has %s, but this model reads only text", d.Other)
	}
	targets, ok := d.Inputs[targetTokens]
	k := int64(1)
	switch dims := len(targets.Shape); {
	case !ok:
		return badinput.Errorf("%s: found none, expected %d", targetTokens, n)
	case targets.DType != wire.I64:
		return badinput.Errorf("%s: found numbers with fractions, expected whole ones", targetTokens)
	case dims == 2 && t.loss.kind == kernels.CrossEntropy && t.loss.custom == nil && targets.Shape[1] > 0:
		k = targets.Shape[1]
	case dims != 1:
		return badinput.Errorf("%s: found shape %v, expected [%d]", targetTokens, targets.Shape, n)
	}
	if targets.Shape[0] != int64(n) {
		return badinput.Errorf("%s: found %d, expected one for each of the %d tokens of model_input", targetTokens, targets.Shape[0], n)
	}
	if n == 0 {
		return badinput.Errorf("model_input has no tokens")
	}
	if at := slices.IndexFunc(targets.Ints, func(x int64) bool { return x != max(0, min(x, math.MaxInt32)) }); at >= 0 {
		return badinput.Errorf("target %d at position %d, expected a token of the model", targets.Ints[at], at/int(k))
	}
	in, err := t.inputs(d, targets.Shape)
	if err != nil {
		return err
	}
	for c := range int(k) {
		column := in.column(d.Tokens, targets.Ints, c, int(k))
		if err := t.finite(column); err != nil {
			return err
		}
		t.datums, t.of = append(t.datums, column), append(t.of, len(t.shapes))
	}
	t.shapes = append(t.shapes, targets.Shape)
	return nil
}

// inputs are numbers by row, or by row and column; nil if there are none.
type inputs struct {
	old, advantage, mask []float32
	everyRow             bool
}

func (t *task) inputs(d wire.Datum, shape []int64) (in inputs, err error) {
	in.everyRow = t.loss.everyRow
	take := func(name string, required bool) []float32 {
		x, ok := d.Inputs[name]
		switch {
		case err != nil || !ok && !required:
		case !ok:
			err = badinput.Errorf("%s: found none, but the loss reads them", name)
		case !slices.Equal(x.Shape, shape):
			err = badinput.Errorf("%s: found shape %v, expected %v as %s has", name, x.Shape, shape, targetTokens)
		default:
			return numbers(x)
		}
		return nil
	}
	if t.loss.ratio {
		in.old, in.advantage = take(logprobs, true), take(advantages, true)
	} else {
		in.advantage = take(weights, false)
	}
	in.mask = take(mask, false)
	return in, err
}

// numbers are the numbers of a tensor of either type.
func numbers(x wire.Tensor) []float32 {
	if x.DType == wire.F32 {
		return x.Floats
	}
	values := make([]float32, len(x.Ints))
	for i, v := range x.Ints {
		values[i] = float32(v)
	}
	return values
}

// column makes the datum of column c of k. Rows without an advantage are masked explicitly: their gradient must be none,
// whatever their ratio is.
func (in inputs) column(tokens []int32, targets []int64, c, k int) model.Datum {
	n := len(tokens)
	d := model.Datum{Tokens: tokens, Targets: make([]int32, n), OldLogProbs: make([]float32, n), Advantages: make([]float32, n),
		Mask: make([]bool, n)}
	for i := range n {
		at := i*k + c
		d.Targets[i] = int32(targets[at])
		d.Advantages[i] = 1
		if in.advantage != nil {
			d.Advantages[i] = in.advantage[at]
		}
		if in.old != nil {
			d.OldLogProbs[i] = in.old[at]
		}
		d.Mask[i] = in.everyRow || d.Advantages[i] != 0
		if in.mask != nil {
			d.Mask[i] = in.mask[at] != 0
		}
	}
	return d
}

// finite refuses inputs that are no numbers where they are read, by the names that the client has for them.
func (t *task) finite(d model.Datum) error {
	weighs := weights
	if t.loss.ratio {
		weighs = advantages
	}
	for i, teaches := range d.Mask {
		for _, in := range []struct {
			name  string
			value float32
		}{{weighs, d.Advantages[i]}, {logprobs, d.OldLogProbs[i]}} {
			if v := float64(in.value); teaches && (math.IsNaN(v) || math.IsInf(v, 0)) {
				return badinput.Errorf("%s: found %v at position %d, expected a finite number", in.name, v, i)
			}
		}
	}
	return nil
}

// sum is the loss, computed from the log-probabilities of all rows.
func (t *task) sum(lp [][]float32) (sum float64) {
	for i, d := range t.datums {
		for p, teaches := range d.Mask {
			if teaches {
				sum += t.loss.term(float64(lp[i][p]), float64(d.OldLogProbs[p]), float64(d.Advantages[p]), t.settings)
			}
		}
	}
	return sum
}

// objective is the objective for the model.
func (t *task) objective() model.Objective {
	o := model.Objective{Reduction: model.Sum, Temperature: 1, Loss: kernels.Loss{Kind: t.loss.kind}}
	if t.loss.custom != nil {
		o.Custom = t.loss.custom(t.settings)
	}
	if _, clips := t.settings[clipLow]; clips {
		o.Loss.Low, o.Loss.High = float32(t.settings[clipLow]), float32(t.settings[clipHigh])
	}
	return o
}
