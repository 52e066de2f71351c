package provenance

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/openfile"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/internal/tiny"
)

// Part is the fingerprint of a file or directory that a setting names.
type Part struct {
	// SHA256 is of the content. Of weights it covers only headers and a sample of the data.
	SHA256 string `json:"sha256"`
	// Full is of all bytes of the weights. It takes a while to compute, and may be missing.
	Full string `json:"sha256_full,omitempty"`
	// Commit is that of a download from the Hub.
	Commit string `json:"commit,omitempty"`
	// Files are the checksums of a directory's files.
	Files map[string]string `json:"files,omitempty"`
	// From is the model that this one was quantised from, if that is known.
	From *Part `json:"quantised_from,omitempty"`
}

// Parts are the fingerprints of a run's inputs, by setting.
type Parts map[string]Part

// FingerprintInputs takes the fingerprints of everything that a configuration names, except the model. The reward's files count only if
// they are used (judged).
func FingerprintInputs(cfg *configs.Config, problems *sources.Problems, judged bool) (Parts, error) {
	parts := Parts{}
	for key, source := range map[string]string{"data": cfg.Data, "test_data": cfg.TestData} {
		if source == sources.Embedded {
			parts[key] = Part{SHA256: tiny.ProblemsFingerprint(key == "test_data")}
		}
	}
	for _, set := range problems.Sets {
		m := set.Manifest()
		parts[set.Key] = Part{SHA256: m.SHA256, Commit: set.Commit()}
	}
	wording, err := sources.PromptTemplate(cfg)
	if err != nil {
		return nil, err
	}
	parts["prompt_template"] = Part{SHA256: wording.Fingerprint(problems.Train, problems.HeldOut)}
	if cfg.Env == "heal" {
		words, err := sources.HealTemplate(cfg)
		if err != nil {
			return nil, err
		}
		parts["heal_template"] = Part{SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(words)))}
	}
	files := map[string]string{"blocklist": cfg.Blocklist, "env": cfg.EnvProgram(), "mcp": cfg.MCP, "openenv_template": cfg.OpenEnvTemplate}
	if judged {
		files["reward_file"], files["judge_prompt"] = cfg.RewardFile, cfg.JudgePrompt
	}
	for key, path := range files {
		if path == "" {
			continue
		}
		text, err := openfile.Read(path)
		if err != nil {
			return nil, badinput.Errorf("%s: %w", key, err)
		}
		parts[key] = Part{SHA256: fmt.Sprintf("%x", sha256.Sum256(text))}
	}
	if cfg.Adapter != "" {
		if parts["adapter"], err = FingerprintAdapter(cfg.Adapter); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// The files of models and adapters that affect results, as globs.
var (
	modelFiles = []string{"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
		"additional_chat_templates/default.jinja", "additional_chat_templates/tool_use.jinja", "model.safetensors.index.json", "*.safetensors"}
	adapterFiles = []string{"adapter_config.json", "adapter_model.safetensors"}
)

// commitFolder matches the folder of a commit in the cache of the Hub.
var commitFolder = regexp.MustCompile(`/snapshots/([0-9a-f]{40})$`)

// FingerprintModel takes the fingerprint of the model in dir.
func FingerprintModel(dir string) (Part, error) {
	p, err := ofDir(dir, modelFiles)
	if found := commitFolder.FindStringSubmatch(filepath.ToSlash(dir)); found != nil {
		p.Commit = found[1]
	}
	if err == nil {
		p.From = p.origin(dir)
	}
	return p, err
}

// FingerprintAdapter takes the fingerprint of the adapter in dir. It fails if there is none.
func FingerprintAdapter(dir string) (Part, error) {
	p, err := ofDir(dir, adapterFiles)
	if err == nil && len(p.Files) < len(adapterFiles) {
		err = badinput.Errorf("found no %s", strings.Join(adapterFiles, " with "))
	}
	if err != nil {
		err = badinput.Errorf("adapter=%s: %w; expected the directory of a PEFT adapter", dir, err)
	}
	return p, err
}

// ofDir takes the fingerprint of the files of a directory that match names; some may be missing.
func ofDir(dir string, names []string) (Part, error) {
	p := Part{Files: map[string]string{}}
	paths, err := find(dir, names)
	if err != nil {
		return p, err
	}
	for _, path := range paths {
		name, _ := filepath.Rel(dir, path)
		if p.Files[filepath.ToSlash(name)], err = sample(path); err != nil {
			return p, badinput.Errorf("fingerprint of %s: %w", path, err)
		}
	}
	p.SHA256 = sumOf(p.Files)
	return p, nil
}

// find lists the files of a directory that match names, sorted, then those in the subfolders that are named.
func find(dir string, names []string) (paths []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, badinput.Errorf("%w", err)
	}
	for _, e := range entries {
		wanted := slices.ContainsFunc(names, func(name string) bool { ok, _ := filepath.Match(name, e.Name()); return ok })
		if wanted && !strings.HasPrefix(e.Name(), ".") {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	for _, name := range names {
		if path := filepath.Join(dir, name); filepath.Base(name) != name {
			if _, err := os.Stat(path); err == nil {
				paths = append(paths, path)
			}
		}
	}
	return paths, nil
}

// with returns a copy with another part.
func (now Parts) with(key string, p Part) Parts {
	all := Parts{key: p}
	for k, other := range now {
		if k != key {
			all[k] = other
		}
	}
	return all
}

// Differences says, by key, how parts differ. A part that one side lacks is not compared.
func (now Parts) Differences(before Parts) map[string]string {
	all := map[string]string{}
	for key, is := range now {
		was, known := before[key]
		switch {
		case !known:
		case is.SHA256 != was.SHA256:
			what := fmt.Sprintf("has the SHA-256 %.12s…, had %.12s…", is.SHA256, was.SHA256)
			if files := changed(was.Files, is.Files); len(files) > 0 { // if all files are the same, their common checksum is too
				what = fmt.Sprintf("%s changed (fingerprint of all its files %.12s…, was %.12s…)", strings.Join(files, " and "), is.SHA256, was.SHA256)
			}
			all[key] = key + ": " + what + pin(was, is)
		case key == "model" && is.Commit != was.Commit && is.Commit != "" && was.Commit != "":
			all[key] = fmt.Sprintf("%s: commit %.12s of the Hub, was %.12s%s", key, is.Commit, was.Commit, pin(was, is))
		case is.Full != was.Full && is.Full != "" && was.Full != "":
			all[key] = fmt.Sprintf("%s: its weights have the SHA-256 %.12s…, had %.12s…", key, is.Full, was.Full)
		}
	}
	return all
}

// pin says how to get the commit that was used before from the Hub.
func pin(was, is Part) string {
	if was.Commit == "" || was.Commit == is.Commit {
		return ""
	}
	return fmt.Sprintf(" (the one before is NAME@%s)", was.Commit)
}

// changed names the files that differ, or that only one side has.
func changed(a, b map[string]string) (names []string) {
	for name := range a {
		if a[name] != b[name] {
			names = append(names, name)
		}
	}
	for name := range b {
		if _, there := a[name]; !there {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
