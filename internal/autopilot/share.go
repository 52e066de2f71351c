package autopilot

import (
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// leastProblems is the least number of problems for a useful measurement.
const leastProblems = 8

// SplitProblems returns the problems to measure on: the first held-out ones, or else the last tenth of the training problems,
// which is then left out of training.
func SplitProblems(cfg *configs.Config, heldOut, train []data.Problem) (left, checks []data.Problem, err error) {
	if !cfg.Autopilot {
		return train, nil, nil
	}
	each := cfg.PromptsPerStep * cfg.CompletionsPerPrompt
	if n := MeasurementSize(len(heldOut), each); n > 0 {
		return train, heldOut[:n], nil
	}
	n := MeasurementSize(len(train)/10, max(each, leastProblems))
	if n < leastProblems {
		return nil, nil, badinput.Errorf("autopilot: no problems are held out, and a tenth of the %d training problems is too few to measure; "+
			"type test_data=FILE, or autopilot=false", len(train))
	}
	return train[:len(train)-n], train[len(train)-n:], nil
}

// RestoreFormatWeight sets the format weight of cfg to that of the checkpoint's own rewards, if the autopilot had changed it.
func (p *Pilot) RestoreFormatWeight(cfg *configs.Config) {
	if v, other := p.Overrides()[Format]; other && cfg.Autopilot {
		cfg.FormatCoef = v
	}
}

// Tunable are the settings of a run that may be changed. judged says that the rewards come from the run's own judge.
func Tunable(cfg *configs.Config, judged bool) Values {
	v := Values{Rate: cfg.LearningRate, Temperature: cfg.Temperature, Completions: float64(cfg.CompletionsPerPrompt)}
	if cfg.Env == "none" {
		v[Overlong] = cfg.OverlongPenalty
	}
	if judged && (cfg.Reward == "correct" || cfg.Reward == "fraction") {
		v[Format] = cfg.FormatCoef
	}
	return v
}
