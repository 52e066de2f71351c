package grpo_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"strings"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/kernels/device"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/reward"
)

// withTrainer opens a trainer of the embedded model with these settings for the time of use.
func withTrainer(settings []string, use func(ctx context.Context, t *grpo.Trainer) error, options ...grpo.Option) {
	err := func() (err error) {
		cfg, err := configs.Load(configs.Source{Preset: "tiny", Overrides: settings})
		if err != nil {
			return err
		}
		backend, err := device.Open("auto", 0)
		if err != nil {
			return err
		}
		defer backend.Close()
		t, err := grpo.Open(context.Background(), cfg, backend, nil, options...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, t.Close()) }()
		return use(context.Background(), t)
	}()
	if err != nil {
		log.Fatal(err)
	}
}

// shortStep makes a step of the embedded model short.
var shortStep = []string{"prompts_per_step=2", "completions_per_prompt=4", "max_tokens=16",
	"schedule=constant", "warmup_steps=0", "eval_every=-1"}

// lines pays for completions of several lines; it is an own grader, so neither Python nor a sandbox is needed.
func lines(_ context.Context, c reward.Completion) (reward.Score, error) {
	n := strings.Count(strings.TrimSpace(c.Text), "\n")
	return reward.Score{Reward: math.Min(float64(n), 4) / 4, Verdict: reward.WA}, nil
}

// A program that trains in its own way: steps on problems that it picks itself, in a directory of its own.
func Example() {
	withTrainer([]string{"run_dir=runs/mine", "learning_rate=5e-4"}, func(ctx context.Context, t *grpo.Trainer) error {
		for range 10 {
			m, err := t.Step(ctx, t.Pool().Take(8), grpo.StepOptions{Iterations: 2})
			if err != nil {
				return err
			}
			fmt.Println(m.Step, m.MeanReward)
		}
		answers, err := t.Sample(ctx, t.HeldOut()[:1], 4, 0.7)
		if err != nil {
			return err
		}
		first := answers[0].Rollouts[0]
		fmt.Println(first.Text, first.Score.Verdict)
		_, err = t.Save(ctx)
		return err
	})
}

// A program whose model is on another machine, where grpo serve --sessions CONFIG --store DIR runs.
func ExampleOpenRemote() {
	ctx := context.Background()
	s, err := grpo.OpenRemote(ctx, grpo.RemoteOptions{URL: "http://127.0.0.1:8000", Settings: map[string]any{"learning_rate": 5e-4}})
	if err != nil {
		log.Fatal(err)
	}
	for range 10 {
		m, err := s.Step(ctx, nil, 0)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(m.Step, m.MeanReward)
	}
	saved, err := s.Finish(ctx)
	if err == nil {
		err = s.Download(ctx, saved, "adapter")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// A mistake of whoever calls is told from a failing machine by a method of its error.
func ExampleOpen_mistakes() {
	_, err := configs.Load(configs.Source{Preset: "tiny", Overrides: []string{"lora_rank=0"}})
	var mistake interface{ BadInput() bool }
	fmt.Println(errors.As(err, &mistake))
	// Output: true
}

// An own grader is any function of a completion.
func ExampleWithGrader() {
	withTrainer(shortStep, func(ctx context.Context, t *grpo.Trainer) error {
		m, err := t.Step(ctx, nil, grpo.StepOptions{})
		fmt.Println(m.Completions, "completions, the sampler and the trainer differ by", m.OnPolicy)
		return err
	}, grpo.WithGrader(reward.GraderFunc(lines)), grpo.Unrecorded())
	// Output: 8 completions, the sampler and the trainer differ by 0
}

// What a run found on held-out problems: nothing where it evaluated nothing.
func ExampleTrainer_Evaluations() {
	settings := append(shortStep[:5:5], "max_steps=1", "eval_every=1", "eval_problems=4", "eval_samples=0", "eval_k=0")
	withTrainer(settings, func(ctx context.Context, t *grpo.Trainer) error {
		if err := t.Run(ctx); err != nil {
			return err
		}
		first, last := t.Evaluations()
		if last == nil {
			return errors.New(last.Summary())
		}
		fmt.Println("evaluated at step", first.Step, "and at step", last.Step)
		return nil
	}, grpo.WithGrader(reward.GraderFunc(lines)), grpo.Unrecorded())
	// Output: evaluated at step 0 and at step 1
}

// An own advantage: each completion is compared with the mean of the others.
func ExampleWithAdvantage() {
	leaveOneOut := func(rewards []float64) []float64 {
		sum, n := 0.0, float64(len(rewards))
		for _, r := range rewards {
			sum += r
		}
		advantages := make([]float64, len(rewards))
		for i, r := range rewards {
			advantages[i] = r - (sum-r)/math.Max(1, n-1)
		}
		return advantages
	}
	withTrainer(shortStep, func(ctx context.Context, t *grpo.Trainer) error {
		m, err := t.Step(ctx, nil, grpo.StepOptions{})
		fmt.Println("step", m.Step)
		return err
	}, grpo.WithAdvantage(leaveOneOut), grpo.WithGrader(reward.GraderFunc(lines)), grpo.Unrecorded())
	// Output: step 1
}

// An own loss: one importance ratio for a whole sequence, the geometric mean of those of its tokens (GSPO).
func ExampleWithLoss() {
	sequenceRatio := func(s *model.LossSequence) (loss float64) {
		sum := 0.0
		for i := range s.LogP {
			sum += float64(s.LogP[i] - s.Old[i])
		}
		ratio := math.Exp(sum / float64(len(s.LogP)))
		for i := range s.LogP {
			scale := float64(s.Weight[i]) * float64(s.Advantage[i]) * ratio
			loss -= scale
			s.Grad[i] = float32(-scale) // of a ratio that all tokens share in equal parts
		}
		return loss
	}
	withTrainer(shortStep, func(ctx context.Context, t *grpo.Trainer) error {
		m, err := t.Step(ctx, nil, grpo.StepOptions{Iterations: 2})
		fmt.Println("step", m.Step)
		return err
	}, grpo.WithLoss(sequenceRatio), grpo.WithGrader(reward.GraderFunc(lines)), grpo.Unrecorded())
	// Output: step 1
}

// A callback sees the groups of a step before the policy learns from them.
func ExampleWithGroups() {
	show := func(step int, groups []grpo.Group) error {
		for _, g := range groups {
			fmt.Println("step", step, "group", g.Index, "has", len(g.Rollouts), "completions")
		}
		return nil
	}
	withTrainer(shortStep, func(ctx context.Context, t *grpo.Trainer) error {
		_, err := t.Step(ctx, nil, grpo.StepOptions{})
		return err
	}, grpo.WithGroups(show), grpo.WithGrader(reward.GraderFunc(lines)), grpo.Unrecorded())
	// Output:
	// step 1 group 0 has 4 completions
	// step 1 group 1 has 4 completions
}
