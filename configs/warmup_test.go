package configs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Other trainers' names of settings are answered in a warm-up, too.
func TestNamesOfOthersInAWarmUp(t *testing.T) {
	require.ErrorContains(t, CheckWords(SFT, []string{"batch_size=8"}), "batch_size: it is rows_per_step here; type rows_per_step=NUMBER")
	require.ErrorContains(t, CheckWords(DPO, []string{"beta=0.5"}), "beta: it is dpo_beta here; type dpo_beta=NUMBER")
	require.NoError(t, CheckWords(SFT, []string{"rows_per_step=8", "tensorboard=true", "mlflow=x"}))
	require.ErrorContains(t, CheckWords(SFT, []string{"autopilot=true"}), "does not use it")
	_, err := Load(Source{Preset: "tiny", Overrides: []string{"lr=1"}})
	require.ErrorContains(t, err, "lr: it is learning_rate here")
}

// Settings recommended in errors of a warm-up are accepted by it.
func TestWhatAWarmUpIsToldToType(t *testing.T) {
	for words, says := range map[string]string{"dpo_beta=-1": "type dpo_beta=0.1", "dpo_beta=1e-300": "type dpo_beta=0.1",
		"rows_per_step=-1": "type rows_per_step=16", "epochs=-1": "type epochs=1", "max_steps=0": "type max_steps=100, or"} {
		_, err := Load(Source{Overrides: []string{"method=dpo", "model=tiny", "data=x", words}})
		require.ErrorContains(t, err, says)
	}
}

func TestTheStepsOfAWarmUp(t *testing.T) {
	for _, c := range []struct{ epochs, per, most, rows, want int }{
		{2, 16, -1, 38, 5}, {2, 16, 3, 38, 3}, {0, 16, 7, 38, 7}, {0, 0, -1, 0, -1}, {1, 16, -1, 16, 1},
	} {
		cfg := Config{Epochs: c.epochs, RowsPerStep: c.per, MaxSteps: c.most}
		require.Equal(t, c.want, cfg.StepsOf(c.rows))
	}
}

// A value that cannot be parsed gives one error, and no others because of its missing value.
func TestAWarmUpWithAValueThatCannotBeRead(t *testing.T) {
	for word, says := range map[string]string{
		"epochs=0.5":  `epochs: found "0.5", expected a whole number`,
		"max_steps=x": `max_steps: found "x", expected a whole number`,
	} {
		_, err := Load(Source{Overrides: []string{"method=sft", "model=tiny", "data=x", word}})
		require.EqualError(t, err, says)
	}
}

// A warm-up of the learning rate that is longer than the run is reported; one that reaches its peak at the last step is accepted.
func TestALearningRateThatNeverComesToItsPeak(t *testing.T) {
	cfg := Config{WarmupSteps: 500, LearningRate: 0.0015}
	require.Equal(t, "; the learning rate rises to the end (warmup_steps=500) and comes to 0.0006, not to 0.0015", cfg.Rise(200))
	for _, steps := range []int{-1, 0, 500, 501} {
		require.Empty(t, cfg.Rise(steps))
	}
}
