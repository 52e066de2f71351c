package sources

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
)

// MissingFile adds to the error of a missing file what to type. A resumed run has the relative path that it started with, which may
// not exist in this working directory.
func MissingFile(cfg *configs.Config, key string, err error) error {
	if !errors.Is(err, dataset.ErrAbsent) {
		return err
	}
	if !isRun(cfg) {
		return badinput.Errorf("%w; type %s=PATH", err, key)
	}
	return badinput.Errorf("%w; start in the directory where the run began, or type %s=PATH allow_change=%[2]s", err, key)
}

// MissingText is MissingFile for a text file that is also read for evaluating a run.
func MissingText(cfg *configs.Config, key string, err error) error {
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case !isRun(cfg):
		return badinput.Errorf("%w; type %s=FILE", err, key)
	}
	return badinput.Errorf("%w; start in the directory where the run began, or resume the run with %s=FILE allow_change=%[2]s", err, key)
}

// hintMovedModel adds to the error of a run's missing model where its folder may be, as a relative path can look like a name on the Hub.
func hintMovedModel(cfg *configs.Config, err error) error {
	_, none := os.Stat(cfg.Model)
	if !errors.Is(none, fs.ErrNotExist) || filepath.IsAbs(cfg.Model) || cfg.Model == Embedded || !isRun(cfg) {
		return err
	}
	where := "; if " + display.ShellQuote(cfg.Model) + " is a folder, start in the directory where the run began, or resume the run with " +
		"model=DIR allow_change=model"
	if badinput.Is(err) {
		return badinput.Errorf("%w%s", err, where)
	}
	return fmt.Errorf("%w%s", err, where)
}

// isRun reports whether the settings are of an existing run.
func isRun(cfg *configs.Config) bool {
	_, none := os.Stat(filepath.Join(cfg.RunDir, "config.json"))
	return cfg.RunDir != "" && none == nil
}
