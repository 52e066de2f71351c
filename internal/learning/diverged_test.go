package learning

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/optim"
)

// The error names the setting that broke the policy: a weight decay of more than 1 per step, or the learning rate.
func TestWhatBrokeThePolicyIsNamed(t *testing.T) {
	const atLast = " to go on from the last checkpoint, if there is one"
	for _, c := range []struct {
		rate, decay float64
		dir, says   string
	}{
		{1e30, 0, "", "lower learning_rate, which is 1e+30 now, and go on from the last checkpoint"},
		{1e-3, 0.1, "r", "lower learning_rate, which is 0.001 now: type grpo run_dir=r learning_rate=0.0001" + atLast},
		{1e30, 0.1, "r", "lower learning_rate, which is 1e+30 now: type grpo run_dir=r learning_rate=0.001" + atLast},
		{0.5, 1, "", "lower learning_rate, which is 0.5 now, and go on from the last checkpoint"},
		{0.5, 3, "", "lower weight_decay, which is 3 now, and go on from the last checkpoint"},
		{1e-3, 1e30, "r", "lower weight_decay, which is 1e+30 now: type grpo run_dir=r weight_decay=0.01" + atLast},
	} {
		l := Learner{rate: c.rate}
		cfg := &configs.Config{RunDir: c.dir, Method: "grpo", WeightDecay: c.decay}
		require.EqualError(t, l.NonFiniteError(cfg), ErrDiverged.Error()+"; "+c.says)
	}
}

// Of a process that ended only its output is left, from which the error is recognised.
func TestWordsOfALostPolicy(t *testing.T) {
	l, cfg := Learner{rate: 1e30}, &configs.Config{RunDir: "r", Method: "grpo"}
	other := errors.New("no memory")
	require.Equal(t, other, l.Explain(other, cfg))
	over := badinput.Errorf("%w; lower it", &optim.OverflowError{Tensor: "a", Value: 1, Rate: 1e30})
	for _, c := range []struct {
		err  error
		lost bool
	}{
		{l.NonFiniteError(cfg), true}, {l.Explain(over, cfg), true}, {over, true}, {errors.New("checkpoint r: no space left on device"), false},
		{badinput.Errorf("data tasks.jsonl: no such file"), false},
	} {
		require.Equal(t, c.lost, OutputDiverged("step 3: "+c.err.Error()+" (log)"), "%v", c.err)
		require.Equal(t, c.lost, Divergence(c.err) != nil, "%v", c.err)
	}
}
