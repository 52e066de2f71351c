package grpo_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
)

// A program that trains in its own way: steps on problems that it picks itself.
func Example() {
	if err := train(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func train(ctx context.Context) (err error) {
	cfg, err := configs.Load(configs.Source{Preset: "tiny", Overrides: []string{"run_dir=runs/mine", "learning_rate=5e-4"}})
	if err != nil {
		return err
	}
	backend, err := cpu.New(cpu.Options{})
	if err != nil {
		return err
	}
	defer backend.Close()
	s, err := grpo.Init(ctx, cfg, backend, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Finish()) }()
	if err := s.Begin(ctx); err != nil {
		return err
	}

	for range 10 {
		m, err := s.TrainStep(ctx, s.Problems.Take(8), grpo.StepOptions{NumIterations: 2})
		if err != nil {
			return err
		}
		fmt.Println(m.Step, m.MeanReward)
	}
	answers, err := s.Sample(ctx, s.HeldOut[:1], 4, 0.7)
	if err != nil {
		return err
	}
	fmt.Println(answers[0].Texts[0], answers[0].Scores[0].Verdict)
	_, err = s.Save()
	return err
}
