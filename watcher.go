package grpo

import "cmp"

// Watcher is told of the progress of a run, by the goroutine that trains.
type Watcher interface {
	// Begun is called once the directory of a recorded run is ready; how is Trainer.Origin.
	Begun(how string)
	// Phase begins a phase of so many units: completions in "sample" and "score", sequences in "train".
	Phase(name string, units int)
	// Advance reports further units of the phase as done, and the tokens in them.
	Advance(units, tokens int)
	StepDone(m Metrics, t Timing, advice []Advice)
	Evaluated(e Evaluation, advice []Advice)
	Saved(dir string)
	// Warn reports a problem that does not end the run.
	Warn(what string)
}

func watcherOrNobody(w Watcher) Watcher { return cmp.Or[Watcher](w, nobody{}) }

// nobody is a Watcher that ignores everything.
type nobody struct{}

func (nobody) Begun(string)                       {}
func (nobody) Phase(string, int)                  {}
func (nobody) Advance(int, int)                   {}
func (nobody) StepDone(Metrics, Timing, []Advice) {}
func (nobody) Evaluated(Evaluation, []Advice)     {}
func (nobody) Saved(string)                       {}
func (nobody) Warn(string)                        {}
