package configs

import (
	"embed"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

//go:embed grpo/*.yaml recipes/*.yaml
var presetFiles embed.FS

const (
	// DefaultPreset is for a run that names nothing.
	DefaultPreset = "tiny"
	// defaultsName is the preset that changes nothing of Defaults.
	defaultsName = "defaults"
)

// The folders of presets: of models, and of papers.
const (
	modelsFolder  = "grpo"
	recipesFolder = "recipes"
)

// Presets are the names that Source.Preset and extends can have, one or several: those of models, and Recipes.
func Presets() []string {
	names := slices.Concat([]string{defaultsName}, namesIn(modelsFolder), Recipes())
	slices.Sort(names)
	return names
}

// Recipes are the presets that say how a policy learns, as a paper has it, and leave open what and from what.
func Recipes() []string { return namesIn(recipesFolder) }

func namesIn(folder string) (names []string) {
	entries, err := presetFiles.ReadDir(folder)
	if err != nil {
		panic(err) // it is part of the program
	}
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
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
	folder := modelsFolder
	if slices.Contains(Recipes(), name) {
		folder = recipesFolder
	}
	return presetFiles.ReadFile(folder + "/" + name + ".yaml")
}
