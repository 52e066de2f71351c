package reward

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/reward/fault"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// columns are the columns of problem rows that compute_reward takes: those that its parameters name, or all.
type columns struct {
	Names []string `json:"names"`
	All   bool     `json:"all"`
	Whole bool     `json:"whole"` // the file has compute_rewards, which judges all completions of a problem together
	Both  bool     `json:"both"`  // the file has both functions

	Misplaced []string `json:"misplaced"` // parameters for completion and ground truth that are not in the first two places

	file fault.File
}

// takes reports whether the function takes a column.
func (c columns) takes(name string) bool { return c.All || slices.Contains(c.Names, name) }

func (c columns) some() bool { return c.All || len(c.Names) > 0 }

// of are the values of these columns in a problem's row.
func (c columns) of(ctx context.Context, p *data.Problem) (map[string]any, error) {
	further, err := p.Columns(ctx)
	if err != nil {
		return nil, err
	}
	has := map[string]any{"id": p.ID, "prompt": p.Statement, "source": p.Source}
	if p.Metadata != nil {
		has["metadata"] = p.Metadata
	}
	for name, value := range further {
		has[name] = value
	}
	for name := range has {
		if !c.takes(name) || name == "completion" || name == "ground_truth" || name == "completions" && c.Whole {
			delete(has, name)
		}
	}
	return has, nil
}

// rewardWithColumns and rewardsWithColumns are functions that pass the columns by name; the one of signature says which are taken.
const (
	rewardWithColumns  = "_compute_reward_with"
	rewardsWithColumns = "_compute_rewards_with"
	callOneSource      = `

def _compute_reward_with(completion, ground_truth, columns):
    return compute_reward(completion, ground_truth, **columns)
`
	callAllSource = `

def _compute_rewards_with(completions, columns):
    numbers = [None if r is None else float(r) for r in compute_rewards(completions, **columns)]
    return [n if n is None or n - n == 0 else repr(n) for n in numbers]
`
	signature = `

def _signature_of_compute_reward():
    import inspect
    function, whole = globals().get("compute_reward"), globals().get("compute_rewards")
    if callable(function) and callable(whole):
        return {"both": True}
    given, is_whole = 2, False
    if callable(whole):
        function, given, is_whole = whole, 1, True
    if not callable(function):
        return None
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {"whole": is_whole}
    in_order = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    by_name = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    places = ["completions"] if is_whole else ["completion", "ground_truth"]
    return {"names": [n for n in by_name if n not in in_order[:given]], "all": any(p.kind == p.VAR_KEYWORD for p in parameters),
        "whole": is_whole, "misplaced": [n for i, n in enumerate(places) if n in in_order and in_order[i:i + 1] != [n]]}
`
)

// openFile loads the reward file once, so that mistakes in it are found before training, and returns a pool of cells that load
// it. The trial load runs where programs run, unless the file has an interpreter of its own.
func (cfg Config) openFile(ctx context.Context, options sandbox.Options, submissions Runner) (*lazyPool, columns, error) {
	var takes columns
	source, err := fault.Source(cfg.File)
	if err != nil {
		return nil, takes, err
	}
	if cfg.FilePython != "" {
		options.Python = cfg.FilePython
		apart := &lazyPool{options: options}
		defer apart.Close()
		submissions = apart
	}
	limits := sandbox.Limits{CPU: sandbox.ReadyTimeout, Wall: sandbox.ReadyTimeout} // of a cell that is to have it loaded
	a, err := call(ctx, submissions, "", sandbox.Program{Code: source + signature, Call: "_signature_of_compute_reward"}, limits)
	a.note = fault.Of(cfg.File, source, cfg.FilePython != "").Note(a.note, "", a.Result, limits)
	switch {
	case err != nil && cfg.FilePython != "" && badinput.Is(err):
		return nil, takes, badinput.Errorf("reward_python: %w", err)
	case err != nil:
		return nil, takes, err
	case a.note != "":
		return nil, takes, badinput.Errorf("reward_file=%s cannot be loaded in the sandbox: %s", cfg.File, a.note)
	case a.value == nil:
		return nil, takes, badinput.Errorf("reward_file=%s: found no function compute_reward(completion, ground_truth), "+
			"or compute_rewards(completions)", cfg.File)
	}
	if err := json.Unmarshal(a.Value, &takes); err != nil {
		return nil, takes, err
	}
	if takes.Both {
		return nil, takes, badinput.Errorf("reward_file=%s: found compute_reward and compute_rewards; keep one, and give the other "+
			"another name", cfg.File)
	}
	if len(takes.Misplaced) > 0 {
		order := map[bool]string{false: "compute_reward(completion, ground_truth, …)", true: "compute_rewards(completions, …)"}[takes.Whole]
		return nil, takes, badinput.Errorf("reward_file=%s: the parameter %s is in the wrong place; expected %s", cfg.File,
			takes.Misplaced[0], order)
	}
	switch options.Preload = source; {
	case takes.Whole:
		options.Preload += callAllSource
	case takes.some():
		options.Preload += callOneSource
	}
	takes.file = fault.Of(cfg.File, source, cfg.FilePython != "")
	return &lazyPool{options: options}, takes, nil
}
