package provenance

import (
	"path/filepath"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/rundir"
)

// The folders of a checkpoint with the trained weights.
const (
	AdapterDir = "adapter"
	ModelDir   = "model"
)

// TrainedDir is the folder of a run's weights: full ones, or an adapter.
func TrainedDir(full bool) string {
	if full {
		return ModelDir
	}
	return AdapterDir
}

// ResolveWarmup is Resolve for grpo sft and grpo dpo.
func ResolveWarmup(method string, s configs.Source) (*configs.Config, error) {
	if err := configs.CheckWords(method, s.Overrides); err != nil {
		return nil, err
	}
	for _, key := range []string{"run_dir", "resume"} {
		dir := configs.Word(s.Overrides, key)
		if dir == "" || dir == "auto" || dir == "never" {
			continue
		}
		if cfg, err := settingsOf(key, dir); err == nil && cfg != nil && cfg.Method != method {
			return nil, otherVerb(cfg, dir)
		}
	}
	s.Overrides = append([]string{"method=" + method}, s.Overrides...)
	return Resolve(s)
}

// otherVerb is the error of a run that another verb made, and names it.
func otherVerb(cfg *configs.Config, dir string) error {
	return badinput.Errorf("%s is a run of %s; type %s run_dir=%s to resume it", dir, cfg.Verb(), cfg.Verb(),
		display.ShellQuote(rundir.RunOf(dir)))
}

// CheckMethod refuses settings that belong to another verb.
func CheckMethod(cfg *configs.Config, method string) error {
	if cfg.Method == method {
		return nil
	}
	if dir := cfg.RunDir; dir != "" {
		if of, err := settingsOf("run_dir", dir); err == nil && of != nil && of.Method == cfg.Method {
			return otherVerb(cfg, dir)
		}
	}
	return badinput.Errorf("method: %s has a command of its own; type %s", cfg.Method, cfg.Verb())
}

// CheckEvaluable refuses to evaluate as the run did if the run is a warm-up, which has no problems.
func CheckEvaluable(run *configs.Config, trained string) error {
	if !run.Warmup() {
		return nil
	}
	how := display.ShellQuote(trained)
	if run.Train != "full" {
		how = display.ShellQuote(run.Model) + " --adapter " + how
	}
	return badinput.Errorf("%s is a run of %s, which has no problems; type grpo eval --model %s --data SOURCE to evaluate it on some",
		run.RunDir, run.Verb(), how)
}

// modelSettings returns the settings of a run that starts with the weights of another, one of them a warm-up: the model's settings
// only, nothing of how it was trained.
func modelSettings(of *configs.Config, words []string) (*configs.Config, error) {
	if method := configs.Word(words, "method"); !of.Warmup() && (method == "" || method == "grpo") {
		return of, nil // both are the same kind: a fork
	}
	s := configs.Source{Preset: "defaults"}
	if of.Model == configs.DefaultPreset {
		s.Preset = configs.DefaultPreset
	}
	c, err := configs.Load(s)
	if err != nil {
		return nil, err
	}
	c.Model, c.Train, c.LoRARank, c.LoRAAlpha, c.LoRATargets = of.Model, of.Train, of.LoRARank, of.LoRAAlpha, of.LoRATargets
	c.Precision, c.KVCacheDtype, c.AdapterPrecision, c.Quantize = of.Precision, of.KVCacheDtype, of.AdapterPrecision, of.Quantize
	c.Renderer, c.ChatDate, c.ChatVars, c.PromptTemplate = of.Renderer, of.ChatDate, of.ChatVars, of.PromptTemplate
	return c, nil
}

// takeWeights sets up a run that starts with only the weights of another, one of them a warm-up: the adapter or model of its
// last sound checkpoint. The optimizer, the steps and the data are new.
func takeWeights(cfg *configs.Config) error {
	from := cfg.InitFrom
	if from == "" {
		return nil
	}
	of, err := SettingsOf(from)
	if err != nil || !of.Warmup() && !cfg.Warmup() {
		return nil // Open reports what is wrong, if anything
	}
	if of.Train != cfg.Train {
		return badinput.Errorf("init_from=%s has train=%s, and this run train=%s; type train=%s", from, of.Train, cfg.Train, of.Train)
	}
	checkpoint, whole := from, func(dir string) error {
		var s struct {
			Checksum map[string]string `json:"sha256"`
		}
		if err := rundir.ReadState(dir, &s, oldestState, newestState); err != nil {
			return badinput.Errorf("checkpoint %s: %w", dir, err)
		}
		return rundir.Verify(dir, s.Checksum)
	}
	if isCheckpoint(from) {
		err = whole(from)
	} else if checkpoint, _, err = rundir.Newest(from, whole); err == nil && checkpoint == "" {
		err = badinput.Errorf("no checkpoint to resume from")
	}
	if err != nil {
		return badinput.Errorf("init_from=%s: %w", from, err)
	}
	trained := filepath.Join(checkpoint, TrainedDir(cfg.Train == "full"))
	if cfg.InitFrom = ""; cfg.Train == "full" {
		cfg.Model = trained
	} else {
		cfg.Adapter = trained
	}
	return nil
}

// The versions of a checkpoint's state that can be read.
const oldestState, newestState = 2, 3
