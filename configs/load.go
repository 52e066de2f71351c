package configs

import (
	"errors"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/openfile"
)

// version is the version of the format.
const version = 1

// Source is where a configuration comes from; each part changes the ones before it.
type Source struct {
	Preset    string   // its name, or several with commas between; "": none
	File      string   // a path; "": none
	Base      *Config  // settings to start from, such as those of a run, in place of a preset and a file; nil: none
	Overrides []string // key=value

	// GoesOn reports whether a configuration resumes a run, which may keep settings without effect; nil: it does not.
	GoesOn func(c *Config) bool
}

// Load loads a configuration: the defaults, changed by the preset, the file, and the overrides, in this order. A file has
// extends: PRESET, or all settings, unless a preset was given as well. The result is valid; otherwise the error has all
// mistakes, one per line.
func Load(s Source) (*Config, error) {
	l := loader{config: Defaults(), where: map[string]string{}}
	base, file := s.Preset, (*layer)(nil)
	if s.Base != nil {
		if s.Preset != "" || s.File != "" {
			return nil, badinput.Errorf("settings start from a preset, a file, or those of a run; give one of them")
		}
		l.config = *s.Base
	}
	if s.File != "" {
		text, err := openfile.Read(s.File)
		if err != nil {
			return nil, badinput.Errorf("config file: %w", err)
		}
		if file, err = parseLayer(s.File, text); err != nil {
			return nil, err
		}
		if base, err = file.base(s.Preset); err != nil {
			return nil, err
		}
	}
	if base != "" {
		if err := l.preset(base); err != nil {
			if file != nil && file.extends != "" {
				err = badinput.Errorf("%s: extends: %w", s.File, err)
			}
			return nil, err
		}
	}
	l.base = l.config
	words, err := parseWords(s.Overrides)
	mistakes := []error{err}
	for _, layer := range []*layer{file, words} {
		if layer == nil {
			continue
		}
		before := l.config
		mistakes = append(mistakes, l.apply(layer))
		if layer != file || file.complete() != nil { // a file with all settings was printed by a run
			l.idler.given(layer, &before, &l.config)
		}
	}
	if s.GoesOn != nil && s.GoesOn(&l.config) {
		l.idler.keys = nil
	}
	// Settings that could not be parsed keep their value before, and the rest is validated with that.
	mistakes = append(mistakes, l.validate())
	if err := join(mistakes); err != nil {
		return nil, err
	}
	return &l.config, nil
}

// layer is a file, a preset, or the words of a command line.
type layer struct {
	name     string
	extends  string
	settings []setting
}

// parseLayer parses a file, except version and extends.
func parseLayer(name string, text []byte) (*layer, error) {
	all, err := parseYAML(name, text)
	if err != nil {
		return nil, err
	}
	l := &layer{name: name, settings: all}
	at := slices.IndexFunc(all, func(s setting) bool { return s.key == "version" })
	if at < 0 {
		return nil, badinput.Errorf("%s: the version of its format is missing; write version: %d at the top", name, version)
	}
	if v := all[at]; v.value.isList || v.value.text != "1" {
		return nil, badinput.Errorf("%sversion: found %q, expected 1, the format that this program reads", v.where, v.value.text)
	}
	if at := slices.IndexFunc(all, func(s setting) bool { return s.key == "extends" }); at >= 0 {
		if l.extends = all[at].value.text; l.extends == "" {
			return nil, badinput.Errorf("%sextends: expected %s", all[at].where, or(Presets()))
		}
		l.settings = slices.Delete(slices.Clone(all), at, at+1)
	}
	return l, nil
}

// base is the preset below a file: the one that it extends, or that of the command line.
func (l *layer) base(preset string) (string, error) {
	switch {
	case l.extends == "" && preset == "":
		return "", l.complete()
	case l.extends != "" && preset != "" && l.extends != preset:
		return "", badinput.Errorf("%s says extends: %s, the command line --preset %s; give one of them", l.name, l.extends, preset)
	case l.extends != "":
		return l.extends, nil
	}
	return preset, nil
}

// complete returns an error with the settings that a file lacks: there are no silent defaults.
func (l *layer) complete() error {
	var missing []string
	for _, key := range keys() {
		if !l.names(key) && !l.names(aliases[key]) {
			missing = append(missing, key)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return badinput.Errorf("%s: names no %s; add them, or write extends: %s (or another preset) to take them from there",
		l.name, strings.Join(missing, ", "), defaultsName)
}

func (l *layer) names(key string) bool {
	return slices.ContainsFunc(l.settings, func(s setting) bool { return s.key == key })
}

// Word is the value of a key in the words of a command line, "" if they do not have it.
func Word(words []string, key string) string {
	for _, word := range words {
		if name, value, _ := strings.Cut(word, "="); name == key {
			return value
		}
	}
	return ""
}

// parseWords parses key=value. A list is a,b or, if its texts have commas, ["a,b"].
func parseWords(words []string) (*layer, error) {
	l := &layer{}
	var mistakes []error
	for _, word := range words {
		key, text, ok := strings.Cut(word, "=")
		if !ok {
			mistakes = append(mistakes, badinput.Errorf("%q: expected key=value", word))
			continue
		}
		s := setting{key: key, value: value{text: text}}
		if i := slices.Index(keys(), key); i >= 0 && fields()[i].Type == "list" {
			v, err := parseList(text)
			if err != nil {
				mistakes = append(mistakes, badinput.Errorf("%s: %w", key, err))
				continue
			}
			s.value = v
		}
		l.settings = append(l.settings, s)
	}
	return l, join(mistakes)
}

func parseList(text string) (value, error) {
	v := value{isList: true}
	if !strings.HasPrefix(text, "[") {
		if text != "" {
			v.list = strings.Split(text, ",")
		}
		return v, nil
	}
	parsed, err := parseYAML("list", []byte("list: "+text))
	if err != nil || len(parsed) != 1 || !parsed[0].value.isList {
		return v, badinput.Errorf(`found %q, expected a list, as in a,b or ["a", "b"]`, text)
	}
	return parsed[0].value, nil
}

// loader is a configuration while its layers are applied.
type loader struct {
	config Config
	base   Config // before the file and the words
	idler  idleFinder
	where  map[string]string // by key: the place in a file where its value is from
}

// preset applies a preset, after the one that it extends; of several names, one after the other.
func (l *loader) preset(name string) error {
	if first, others, more := strings.Cut(name, ","); more {
		if err := l.preset(first); err != nil {
			return err
		}
		return l.preset(others)
	}
	if name == defaultsName {
		return nil
	}
	text, err := readPreset(name)
	if err != nil {
		return err
	}
	p, err := parseLayer("preset "+name, text)
	if err != nil {
		return err
	}
	base, err := p.base("")
	if err == nil && base != "" {
		err = l.preset(base)
	}
	if err != nil {
		return err
	}
	return l.apply(p)
}

// apply applies a layer.
func (l *loader) apply(next *layer) error {
	before := l.config
	named, unread := map[string]setting{}, map[string]bool{}
	var batch batch
	var mistakes []error
	for _, s := range next.settings {
		if err := l.take(s, named, &batch); err != nil {
			unread[s.key] = true
			mistakes = append(mistakes, badinput.Errorf("%s%s: %w", s.where, s.key, err))
		}
	}
	if err := batch.resolve(&l.config); err != nil {
		mistakes = append(mistakes, badinput.Errorf("%s%w", batch.where, err))
	}
	if l.config.Batch() != before.Batch() {
		l.where["prompts_per_step"], l.where["completions_per_prompt"] = batch.where, batch.where
	}
	if l.config.Method != before.Method { // most of the layers before do not apply to a warm-up
		for key := range l.where {
			if _, ok := named[key]; !ok {
				delete(l.where, key)
			}
		}
	}
	l.config.follow(&before, func(key string) bool { // settings that could not be parsed count as not named
		_, ok := named[key]
		return ok && !unread[key]
	})
	return join(mistakes)
}

// take sets the field of a setting.
func (l *loader) take(s setting, named map[string]setting, b *batch) error {
	if _, twice := named[s.key]; twice {
		return badinput.Errorf("it is there twice; keep one")
	}
	named[s.key] = s
	if known, err := b.take(s, &l.config); known {
		return err
	}
	i := slices.Index(keys(), s.key)
	if i < 0 {
		if instead := Habit(s.key, s.value.text); instead != "" {
			return badinput.Errorf("%s", instead)
		}
		return unknown(s.key)
	}
	l.where[s.key] = s.where
	return l.config.set(i, s.value)
}

// join makes one input error of several, one per line.
func join(mistakes []error) error {
	err := errors.Join(mistakes...)
	if err == nil {
		return nil
	}
	return badinput.Errorf("%w", err)
}
