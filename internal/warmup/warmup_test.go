package warmup

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/model"
)

// Small runs are opened and closed: letting the heap grow is cheaper than a garbage collection for each of them.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	m.Run()
}

// listener records its calls.
type listener struct {
	left   []int // the remaining units of each phase
	steps  []Metrics
	evals  []HeldOut
	warned []string
	onStep func(Metrics)
}

func (l *listener) Begun(string)          {}
func (l *listener) Phase(_ string, n int) { l.left = append(l.left, n) }
func (l *listener) Advance(n, _ int)      { l.left[len(l.left)-1] -= n }
func (l *listener) Evaluated(h HeldOut)   { l.evals = append(l.evals, h) }
func (l *listener) Saved(string)          {}
func (l *listener) Warn(what string)      { l.warned = append(l.warned, what) }
func (l *listener) StepDone(m Metrics, _ Timing) {
	if l.steps = append(l.steps, m); l.onStep != nil {
		l.onStep(m)
	}
}

// rowsFile writes rows of a method.
func rowsFile(t *testing.T, method string, n int) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		row := map[string]any{"prompt": fmt.Sprintf("Say %d", i), "completion": fmt.Sprintf("%d.", i)}
		if method == configs.DPO {
			row = map[string]any{"prompt": fmt.Sprintf("Say %d", i), "chosen": fmt.Sprintf("%d.", i), "rejected": "No."}
		}
		text, err := json.Marshal(row)
		require.NoError(t, err)
		b.Write(append(text, '\n'))
	}
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
	return path
}

// open opens a run on the tiny model.
func open(t *testing.T, method string, l *listener, words ...string) (*Trainer, error) {
	t.Helper()
	cfg, err := provenance.ResolveWarmup(method, configs.Source{Overrides: words})
	if err != nil {
		return nil, err
	}
	b, err := cpu.New(cpu.Options{Threads: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return Open(t.Context(), cfg, b, l)
}

// run runs to the end.
func run(t *testing.T, ctx context.Context, method string, l *listener, words ...string) error {
	t.Helper()
	trainer, err := open(t, method, l, words...)
	require.NoError(t, err)
	err = trainer.Run(ctx)
	require.NoError(t, trainer.Close())
	return err
}

// read returns the files of a run that must be the same in equal runs.
func read(t *testing.T, dir string, step int) map[string]string {
	t.Helper()
	files := map[string]string{}
	at := filepath.Join(dir, "checkpoints", fmt.Sprintf("step_%06d", step))
	for _, path := range []string{filepath.Join(dir, "metrics.jsonl"), filepath.Join(at, "adapter", "adapter_model.safetensors"),
		filepath.Join(at, "optimizer.safetensors")} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		files[filepath.Base(path)] = string(text)
	}
	return files
}

// A seed determines the run: repeated, after an interrupt, and after the process was killed in the middle.
func TestRunsAreTheSameHoweverTheyWereInterrupted(t *testing.T) {
	race.SkipSerial(t)
	for _, method := range []string{configs.SFT, configs.DPO} {
		data := rowsFile(t, method, 9)
		words := []string{"data=" + data, "rows_per_step=3", "epochs=2", "learning_rate=1e-3", "save_every=2", "eval_every=2", "lora_rank=2",
			"keep_last=0", "held_out=0.2"}
		whole, cut, killed := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "c")
		first := &listener{onStep: func(m Metrics) {
			if m.Step == 3 { // what is on disk now is what a killed process leaves
				require.NoError(t, os.CopyFS(killed, os.DirFS(whole)))
			}
		}}
		require.NoError(t, run(t, t.Context(), method, first, append(words, "run_dir="+whole)...))
		require.Len(t, first.steps, 5)
		require.Equal(t, make([]int, len(first.left)), first.left, "each phase has as many units as were said")
		require.Equal(t, 2, first.steps[4].Rows, "the last step has what is left of the epochs")
		want := read(t, whole, 5)

		ctx, cancel := context.WithCancel(t.Context())
		second := &listener{onStep: func(m Metrics) {
			if m.Step == 3 {
				cancel()
			}
		}}
		require.ErrorIs(t, run(t, ctx, method, second, append(words, "run_dir="+cut)...), context.Canceled)
		require.NoError(t, run(t, t.Context(), method, &listener{}, "run_dir="+cut))
		require.Equal(t, want, read(t, cut, 5), "%s interrupted", method)

		if method == configs.DPO { // the reference's answers can be computed again
			require.NoError(t, os.Remove(filepath.Join(killed, referenceFile)))
		}
		require.NoError(t, run(t, t.Context(), method, &listener{}, "run_dir="+killed))
		require.Equal(t, want, read(t, killed, 5), "%s killed", method)

		evals := first.evals
		require.Less(t, evals[len(evals)-1].Loss, evals[0].Loss, method)
	}
}

// The loss of conversations is the mean of −log p over the assistant's tokens, as the model scores them.
func TestLossOfConversations(t *testing.T) {
	l := &listener{}
	trainer, err := open(t, configs.SFT, l, "data="+rowsFile(t, configs.SFT, 4), "rows_per_step=4", "held_out=0", "lora_rank=2",
		"run_dir="+filepath.Join(t.TempDir(), "r"))
	require.NoError(t, err)
	defer trainer.Close()
	sum, n := 0.0, 0
	for _, r := range trainer.set.rows {
		s := r.sides[0][0]
		scores, err := trainer.policy.Score(t.Context(), [][]int32{s.Tokens}, 1)
		require.NoError(t, err)
		for _, span := range s.Spans {
			for i := span[0]; i < span[1]; i++ {
				sum, n = sum-float64(scores[0][i-1]), n+1
			}
		}
	}
	require.NoError(t, trainer.Run(t.Context()))
	require.InEpsilon(t, sum/float64(n), l.steps[0].Loss, 1e-6)
	require.Equal(t, n, l.steps[0].Tokens)
}

// meanPairLoss is the mean loss of pairs in double precision, from the log-probabilities of the policy and of its bare base.
func meanPairLoss(t *testing.T, trainer *Trainer, rows []int, loss string) (mean float64) {
	t.Helper()
	for _, i := range rows {
		h := 0.0
		for side, sign := range []float64{1, -1} {
			d := datum(trainer.set.rows[i].sides[side][0], 1)
			now, err := trainer.policy.ScoreLearned(t.Context(), []model.Datum{d}, 1)
			require.NoError(t, err)
			base, err := trainer.policy.ScoreBase(t.Context(), []model.Datum{d}, 1)
			require.NoError(t, err)
			for k, counts := range d.Mask {
				if counts {
					h += sign * (float64(now[0][k]) - float64(base[0][k]))
				}
			}
		}
		one := math.Log(1 + math.Exp(-0.2*h))
		if loss == "dpo_loss=ipo" {
			one = math.Pow(h-1/0.4, 2)
		}
		mean += one / float64(len(rows))
	}
	return mean
}

// The loss of pairs is the paper's, with log-probabilities by the policy and by the model without its adapter, and the gradient is that
// of this loss.
func TestLossAndGradientOfPairs(t *testing.T) {
	for _, loss := range []string{"dpo_loss=sigmoid", "dpo_loss=ipo"} {
		trainer, err := open(t, configs.DPO, &listener{}, "data="+rowsFile(t, configs.DPO, 4), "rows_per_step=3", "held_out=0", "lora_rank=2",
			"learning_rate=3e-3", "schedule=constant", "dpo_beta=0.2", "run_dir="+filepath.Join(t.TempDir(), "r"), loss)
		require.NoError(t, err)
		defer trainer.Close()
		require.NoError(t, trainer.Step(t.Context())) // so that policy and reference differ
		rows := []int{0, 1, 2}
		want := meanPairLoss(t, trainer, rows, loss)
		var m Metrics
		datums, err := trainer.lessons.datums(t.Context(), trainer, rows, &m)
		require.NoError(t, err)
		require.InEpsilon(t, want, m.PairLoss, 1e-6)

		// Along the gradient the loss changes by the gradient's norm.
		params, grads, _ := trainer.policy.Slabs()
		trainer.learner.Adam.ZeroGrad()
		_, err = trainer.policy.Accumulate(t.Context(), datums, trainer.learner.Recipe.Objective)
		require.NoError(t, err)
		at, g := make([]float32, params.Len()), make([]float32, grads.Len())
		require.NoError(t, trainer.backend.Download(at, params))
		require.NoError(t, trainer.backend.Download(g, grads))
		norm := 0.0
		for _, x := range g {
			norm += float64(x) * float64(x)
		}
		norm = math.Sqrt(norm)
		require.Greater(t, norm, 0.0)
		shifted := func(step float64) float64 {
			moved := make([]float32, len(at))
			for i := range at {
				moved[i] = float32(float64(at[i]) + step*float64(g[i])/norm)
			}
			trainer.backend.Upload(params, moved)
			trainer.policy.Publish()
			var m Metrics
			_, err := trainer.lessons.datums(t.Context(), trainer, rows, &m)
			require.NoError(t, err)
			return m.PairLoss
		}
		const step = 2e-3
		require.InEpsilon(t, norm, (shifted(step)-shifted(-step))/(2*step), 0.01, loss)
	}
}

// A run is resumed by its own verb with its initial settings, and its weights may begin another run.
func TestHandingOver(t *testing.T) {
	data, dir := rowsFile(t, configs.SFT, 6), filepath.Join(t.TempDir(), "warm")
	require.NoError(t, run(t, t.Context(), configs.SFT, &listener{}, "data="+data, "run_dir="+dir, "lora_rank=2", "rows_per_step=3",
		"tensorboard=true"))
	require.DirExists(t, filepath.Join(dir, "tensorboard"))
	_, err := provenance.ResolveWarmup(configs.DPO, configs.Source{Overrides: []string{"run_dir=" + dir}})
	require.EqualError(t, err, fmt.Sprintf("%s is a run of grpo sft; type grpo sft run_dir=%s to resume it", dir, dir))
	for dir, says := range map[string]string{dir: "is a run of grpo sft", dir + "2": "method: sft has a command of its own; type grpo sft"} {
		require.ErrorContains(t, provenance.CheckMethod(&configs.Config{Method: configs.SFT, RunDir: dir}, "grpo"), says)
	}
	_, err = open(t, configs.SFT, &listener{}, "run_dir="+dir, "rows_per_step=2")
	require.ErrorContains(t, err, "rows_per_step: 3 → 2")
	_, err = open(t, configs.SFT, &listener{}, "run_dir="+dir, "epochs=2")
	require.ErrorContains(t, err, "type scheduler_total_steps=4, or schedule=constant")

	cfg, err := provenance.Resolve(configs.Source{Overrides: []string{"init_from=" + dir}})
	require.NoError(t, err)
	adapter := filepath.Join(dir, "checkpoints", "step_000002", "adapter")
	require.Equal(t, []any{"grpo", adapter, "", 2, "tiny"}, []any{cfg.Method, cfg.Adapter, cfg.InitFrom, cfg.LoRARank, cfg.Data})
	words := []string{"init_from=" + dir, "data=" + rowsFile(t, configs.DPO, 4), "run_dir=" + filepath.Join(t.TempDir(), "r")}
	require.NoError(t, run(t, t.Context(), configs.DPO, &listener{}, words...))
	preferred, err := open(t, configs.DPO, &listener{}, words...) // the same run, resumed
	require.NoError(t, err)
	defer preferred.Close()
	require.Equal(t, adapter, preferred.cfg.Adapter)
	_, err = provenance.Resolve(configs.Source{Overrides: []string{"init_from=" + dir + "2", words[2]}})
	require.ErrorContains(t, err, "brings its own")

	require.NoError(t, os.WriteFile(filepath.Join(adapter, "adapter_model.safetensors"), []byte("x"), 0o644))
	_, err = provenance.Resolve(configs.Source{Overrides: []string{"init_from=" + filepath.Dir(adapter)}})
	require.ErrorContains(t, err, "adapter_model.safetensors is damaged")
}

// An evaluation on held-out rows is compared with earlier ones on the same rows only.
func TestTheFirstEvaluationIsOfTheSameRows(t *testing.T) {
	one, other, again := HeldOut{Step: 0, Rows: 2, Tokens: 9}, HeldOut{Step: 1, Rows: 2, Tokens: 8}, HeldOut{Step: 2, Rows: 2, Tokens: 8}
	trainer := &Trainer{}
	for _, c := range []struct{ found, first *HeldOut }{{&one, &one}, {&other, &other}, {&again, &other}} {
		trainer.recordHeldOut(c.found)
		first, last := trainer.Evaluations()
		require.Same(t, c.first, first)
		require.Same(t, c.found, last)
	}
}

// A run without a checkpoint leaves its cached reference log-probabilities, which are not used for other weights.
func TestTheReferenceIsOfTheWeightsInUse(t *testing.T) {
	dir, rows := t.TempDir(), rowsFile(t, configs.DPO, 3)
	var found [2][][2]float64
	for i, quantize := range []string{"none", "nf4"} {
		trainer, err := open(t, configs.DPO, &listener{}, "run_dir="+dir, "data="+rows, "test_data="+rows, "quantize="+quantize)
		require.NoError(t, err)
		require.NoError(t, trainer.begin(t.Context()))
		found[i] = trainer.lessons.(*preferences).reference
		require.NoError(t, trainer.Close())
	}
	require.NotEqual(t, found[0], found[1])
}

// The best checkpoints are kept for each set of held-out rows: losses on different sets cannot be compared.
func TestTheBestOfEachHeldOutSetStay(t *testing.T) {
	dir, data := filepath.Join(t.TempDir(), "run"), rowsFile(t, configs.SFT, 6)
	other := filepath.Join(t.TempDir(), "other.jsonl")
	require.NoError(t, os.WriteFile(other, []byte(`{"prompt":"Why?","completion":"Zygotes quench ivory xylophones."}`+"\n"), 0o644))
	words := []string{"run_dir=" + dir, "data=" + data, "rows_per_step=2", "learning_rate=1e-3", "save_every=1", "eval_every=1", "lora_rank=2",
		"keep_last=1", "keep_best=1", "schedule=constant"}
	require.NoError(t, run(t, t.Context(), configs.SFT, &listener{}, append(words, "test_data="+other, "epochs=1")...))
	require.NoError(t, run(t, t.Context(), configs.SFT, &listener{}, append(words, "test_data="+rowsFile(t, configs.SFT, 5), "epochs=2",
		"allow_change=test_data")...))
	entries, err := os.ReadDir(filepath.Join(dir, "checkpoints"))
	require.NoError(t, err)
	require.Less(t, entries[0].Name(), "step_000004", "of the first set: %v", entries)
}
