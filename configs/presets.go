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
	// DefaultPreset is the default.
	DefaultPreset = "tiny"
	// defaultsName is the preset that is Defaults, unchanged.
	defaultsName = "defaults"
)

// The folders of presets: of models, and of papers.
const (
	modelsFolder  = "grpo"
	recipesFolder = "recipes"
)

// Presets are the names for Source.Preset and extends: those of models, and Recipes.
func Presets() []string {
	names := slices.Concat([]string{defaultsName}, namesIn(modelsFolder), Recipes())
	slices.Sort(names)
	return names
}

// Recipes are the presets with the objectives of papers, which leave the model and the data open.
func Recipes() []string { return namesIn(recipesFolder) }

func namesIn(folder string) (names []string) {
	entries, err := presetFiles.ReadDir(folder)
	if err != nil {
		panic(err) // it is embedded
	}
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// oldPresetNames are old names of presets, which files may extend.
var oldPresetNames = map[string]string{"4090_qwen3": "qwen3_1.7b", "qwen3_4b_h100": "qwen3_4b"}

func readPreset(name string) ([]byte, error) {
	if now, ok := oldPresetNames[name]; ok {
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
