package grpo

import "cmp"

// Watcher is told how a run goes on. Calls come from the goroutine that trains.
type Watcher interface {
	// Begun says how a run that is recorded begins, once its directory is ready.
	Begun(how string)
	// Phase says that something of so many units begins: "sample" and "score" count completions, "train" sequences.
	Phase(name string, units int)
	// Advance says that so many more units are done, with so many tokens in them.
	Advance(units, tokens int)
	StepDone(m Metrics, t Timing, advice []Advice)
	Evaluated(e Evaluation, advice []Advice)
	Saved(dir string)
	// Warn tells of what went wrong and was survived.
	Warn(what string)
}

func watcherOrNobody(w Watcher) Watcher { return cmp.Or[Watcher](w, nobody{}) }

// nobody watches.
type nobody struct{}

func (nobody) Begun(string)                       {}
func (nobody) Phase(string, int)                  {}
func (nobody) Advance(int, int)                   {}
func (nobody) StepDone(Metrics, Timing, []Advice) {}
func (nobody) Evaluated(Evaluation, []Advice)     {}
func (nobody) Saved(string)                       {}
func (nobody) Warn(string)                        {}
