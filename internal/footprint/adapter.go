package footprint

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/lora"
)

// AdapterLayout is the layout of the adapter that a configuration asks for.
func AdapterLayout(cfg *configs.Config, d lora.Dims) (*lora.Layout, error) {
	targets, err := lora.ParseTargets(cfg.LoRATargets)
	if err != nil {
		return nil, err
	}
	return lora.NewLayout(lora.Config{Rank: cfg.LoRARank, Alpha: cfg.LoRAAlpha, Targets: targets}, d)
}

// Adapter is the adapter that a run starts with: a new one, or that of the setting adapter.
func Adapter(cfg *configs.Config, d lora.Dims) (*lora.Adapter, error) {
	layout, err := AdapterLayout(cfg, d)
	if err != nil {
		return nil, err
	}
	if cfg.Adapter != "" {
		return lora.Load(cfg.Adapter, d)
	}
	a := lora.New(layout)
	a.Init(cfg.Seed)
	return a, nil
}

// FindAdapter fails if the adapter of the settings does not exist. A run that resumes has its own, and does not need it.
func FindAdapter(cfg *configs.Config, checkpoint string) error {
	if cfg.Adapter == "" {
		return nil
	}
	switch _, err := lora.ReadConfig(cfg.Adapter); {
	case err == nil:
		return nil
	case checkpoint != "" && errors.Is(err, fs.ErrNotExist):
		return badinput.Errorf("adapter: %w; run %s was begun with it: type %s run_dir=%s adapter=DIR allow_change=adapter "+
			"with where it is now, or without DIR where it is no more", err, cfg.RunDir, cfg.Verb(), display.ShellQuote(cfg.RunDir))
	default:
		return badinput.Errorf("adapter: %w", err)
	}
}

// CheckAdapter refuses an adapter of another shape than the settings have, or of another model. It reads no weights.
func CheckAdapter(cfg *configs.Config, d lora.Dims) error {
	if cfg.Adapter == "" {
		return nil
	}
	layout, err := AdapterLayout(cfg, d)
	if err != nil {
		return err
	}
	has, err := lora.Check(cfg.Adapter, d)
	if err != nil {
		return badinput.Errorf("adapter: %w", err)
	}
	wants := layout.Config
	given, err := lora.NewLayout(has, d)
	if err != nil || !slices.Equal(given.Entries(), layout.Entries()) || given.Scale() != layout.Scale() {
		return badinput.Errorf("adapter %s has rank %d, alpha %v and targets %v; the configuration says rank %d, alpha %v and targets %v; "+
			"type lora_rank=%d lora_alpha=%v lora_targets=%s", cfg.Adapter, has.Rank, has.Alpha, has.Targets, wants.Rank, wants.Alpha,
			wants.Targets, has.Rank, has.Alpha, names(has.Targets))
	}
	return nil
}

func names(targets []lora.Target) string {
	all := make([]string, len(targets))
	for i, t := range targets {
		all[i] = t.String()
	}
	return strings.Join(all, ",")
}
