package configs

import (
	"embed"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

//go:embed grpo/*.yaml
var presetFiles embed.FS

const (
	// DefaultPreset is for a run that names nothing.
	DefaultPreset = "tiny"
	// defaultsName is the preset that changes nothing of Defaults.
	defaultsName = "defaults"
)

// Presets are the names that Source.Preset and extends can have.
func Presets() []string {
	entries, err := presetFiles.ReadDir("grpo")
	if err != nil {
		panic(err) // it is part of the program
	}
	names := []string{defaultsName}
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// formerly are names that presets had once, and files may extend.
var formerly = map[string]string{"4090_qwen3": "qwen3_1.7b", "qwen3_4b_h100": "qwen3_4b"}

func readPreset(name string) ([]byte, error) {
	if now, ok := formerly[name]; ok {
		name = now
	}
	known := Presets()
	if !slices.Contains(known, name) {
		return nil, badinput.Errorf("preset %q is not known; expected %s; a file of your own is --config-file FILE", name, or(known))
	}
	return presetFiles.ReadFile("grpo/" + name + ".yaml")
}
