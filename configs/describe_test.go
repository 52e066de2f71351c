package configs

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/internal/objective"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/optim"
)

// Every field has a key, a help text, a section and a default that can be parsed.
func TestDescribeCoversEveryField(t *testing.T) {
	structure, seen := configFields(), map[string]bool{}
	described := Describe()
	require.Len(t, described, len(structure))
	defaults := Defaults()
	for i, f := range described {
		name := structure[i].Name
		require.Regexp(t, `^[a-z][a-z0-9_]*$`, f.Key, name)
		require.Equal(t, strings.ToLower(name), strings.ReplaceAll(f.Key, "_", ""))
		require.False(t, seen[f.Key], f.Key)
		seen[f.Key] = true
		require.Regexp(t, `^[A-Z-].*[.)]$`, f.Help, f.Key)
		require.NotEqual(t, f.Section == "", f.Key != "version", f.Key)
		require.NotEmpty(t, f.Type, f.Key)
		c, err := Load(Source{Overrides: []string{f.Key + "=" + f.Default}})
		require.NoError(t, err, f.Key)
		require.Equal(t, &defaults, c, f.Key)
	}
}

// Keys named in help texts exist.
func TestHelpNamesKeysThatExist(t *testing.T) {
	known := map[string]bool{"group_size": true, "batch_size": true, "compute_reward": true, "compute_rewards": true, "ground_truth": true}
	for _, f := range Describe() {
		known[f.Key] = true
		for _, v := range f.Values {
			known[v] = true
		}
	}
	for _, f := range Describe() {
		for _, word := range strings.FieldsFunc(f.Help,
			func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
			if strings.Contains(strings.Trim(word, "_"), "_") {
				require.True(t, known[word], "%s: %s", f.Key, word)
			}
		}
	}
}

// Enumerations, and the usual clip ranges, are those of the packages that implement them.
func TestChoicesAreThoseOfThePackages(t *testing.T) {
	values := map[string][]string{}
	for _, f := range Describe() {
		values[f.Key] = f.Values
	}
	for _, name := range values["loss"] {
		low, high := clipRange(name)
		usualLow, usualHigh := objective.Kind(name).Clips()
		require.Equal(t, []float64{usualLow, usualHigh}, []float64{low, high})
		if l, err := kernels.ParseLoss(name); err == nil {
			require.Equal(t, l, kernels.Loss{Kind: l.Kind, Low: float32(low), High: float32(high)})
		}
	}
	require.Equal(t, stringsOf(objective.Kinds()), values["loss"])
	require.Equal(t, stringsOf([]objective.Truncation{objective.None, objective.PerToken, objective.PerSequence}), values["tis"])
	require.Equal(t, stringsOf([]objective.Estimator{objective.K1, objective.K2, objective.K3}), values["kl_estimator"])
	for _, name := range values["reduction"] {
		_, err := model.ParseReduction(name)
		require.NoError(t, err)
	}
	for _, name := range values["schedule"] {
		_, err := optim.ParseSchedule(name, 10, 0)
		require.NoError(t, err)
	}
	d, adam, adapter := Defaults(), optim.Defaults(), lora.Defaults()
	require.Equal(t, adam,
		optim.Config{Beta1: d.AdamBeta1, Beta2: d.AdamBeta2, Eps: d.AdamEps, WeightDecay: d.WeightDecay, ClipNorm: d.GradClipNorm})
	require.Equal(t, []int{adapter.Rank, int(adapter.Alpha)}, []int{d.LoRARank, int(d.LoRAAlpha)})
	require.Equal(t, values["lora_targets"], d.LoRATargets)
	for i, target := range lora.AllTargets() {
		require.Equal(t, values["lora_targets"][i], target.String())
	}
	require.ElementsMatch(t, values["renderer"], append(chat.Names(), "auto", "plain"))
}

// stringsOf are the names of values.
func stringsOf[T ~string](all []T) (names []string) {
	for _, x := range all {
		names = append(names, string(x))
	}
	return names
}

var update = flag.Bool("update", false, "write docs/config.md anew")

// docs/config.md is the output of Describe. 'go test ./configs -update' writes it.
func TestDocument(t *testing.T) {
	const path = "../docs/config.md"
	want := document()
	if *update {
		require.NoError(t, os.WriteFile(path, want, 0o644))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "stale: run 'go test ./configs -update'")
}

func document() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, documentHead, strings.Join(models(), ", "), strings.Join(Recipes(), ", "))
	section := ""
	for _, f := range Describe() {
		if f.Section == "" {
			continue // version, which the head explains
		}
		if f.Section != section {
			section = f.Section
			fmt.Fprintf(&out, "\n## %s\n\n| key | default | |\n|---|---|---|\n", section)
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s *%s* |\n", f.Key, code(f.Default), f.Help, kind(f))
	}
	return out.Bytes()
}

// models are the presets that are not recipes.
func models() []string {
	return slices.DeleteFunc(Presets(), func(name string) bool { return slices.Contains(Recipes(), name) })
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

func kind(f Field) string {
	switch {
	case f.Type == "list" && len(f.Values) > 0:
		return "list of " + strings.Join(f.Values, ", ")
	case len(f.Values) > 0:
		return or(f.Values)
	}
	return f.Type
}

const documentHead = `# Settings

The settings below determine a run. They come from four places; each overrides the ones before:

1. the defaults in these tables, for a model of four billion parameters on DeepCoder's problems;
2. a preset, ` + "`--preset NAME`" + `: of a model, %s;
   or a [recipe](recipes.md), %s; or several, as in
   ` + "`--preset tiny,dapo`" + `, each overriding the ones before. If you name neither a preset nor a file, the preset is
   ` + "`tiny`" + `: the built-in model and problems. ` + "`grpo --print-config`" + ` shows its values, which
   differ from the defaults; ` + "`--preset defaults`" + ` is the defaults alone. Warm-ups have [values of their own](warmup.md#steps);
3. a file of your own, ` + "`--config-file FILE`" + `;
4. words on the command line, ` + "`key=value`" + `; lists as ` + "`a,b`" + ` or ` + "`[\"a\", \"b\"]`" + `.

` + "`--print-config`" + ` prints the result as a file that you can use again. A file either starts from a preset or
names every setting, so a later version cannot silently change a setting of it:

` + "```yaml" + `
version: 1
extends: qwen3_0.6b
data: my-tasks.jsonl
test_data: my-held-out-tasks.jsonl
learning_rate: 5e-5
` + "```" + `

An unknown key, a value out of range and contradictory settings end the
program before anything else happens. It reports all of them together, each with what to type. It also refuses a key
that has no effect with the other settings, such as ` + "`max_turns`" + ` without ` + "`env`" + `, unless the
run that it resumes began with it.

Some settings change along with another, unless you set them: ` + "`train=full`" + ` has no rank,
another ` + "`loss`" + ` brings its usual clip range, ` + "`overlong_penalty`" + ` its buffer, and another ` + "`data`" + ` empties
` + "`test_data`" + `. Set ` + "`test_data`" + ` then, or nothing is evaluated.

The size of a step has two vocabularies. This project uses ` + "`prompts_per_step=8 completions_per_prompt=16`" + `.
` + "`batch_size=128 group_size=8`" + ` means the same: 128 completions for 8 prompts, 16 each.
If you set only one of the latter two, the other stays as it was. Note that ` + "`group_size`" + ` counts problems here; the
group size of other programs is ` + "`completions_per_prompt`" + `.

## From TRL or verl

If you type a setting by its name in TRL, Unsloth, transformers, verl, OpenRLHF or NeMo-RL, the program says what it
is called here. Rows and rewards: [tasks.md](tasks.md#from-trl-or-verl).

| there | here |
|---|---|
| ` + "`num_generations`, `rollout.n`" + ` | ` + "`completions_per_prompt`" + ` |
| ` + "`per_device_train_batch_size`, `gradient_accumulation_steps`" + ` of TRL | ` +
	"`prompts_per_step`: completions of a step divided by `num_generations`" + ` |
| ` + "`train_batch_size`" + ` of verl | ` + "`prompts_per_step`" + `; the program forms micro-batches itself |
| ` + "`max_completion_length`, `max_response_length`" + ` | ` + "`max_tokens`" + ` |
| ` + "`num_train_epochs`, `total_epochs`" + ` | ` + "`max_steps`" + `, each of ` + "`prompts_per_step`" + ` problems |
| ` + "`beta`, `kl_loss_coef`" + ` | ` + "`kl_coef`" + ` |
| ` + "`epsilon`, `clip_ratio`" + ` of 0.2 | ` + "`loss=ppo clip_low=0.8 clip_high=1.2`" + ` |
| ` + "`scale_rewards`, `norm_adv_by_std_in_grpo`" + ` | ` + "`advantage=std`" + `; the default, ` + "`mean`" + `, divides by nothing |
| ` + "`loss_type`" + ` | a [recipe](recipes.md), or ` + "`loss`" + ` and ` + "`reduction`" + ` |
| ` + "`reward_funcs`, `custom_reward_function.path`" + ` | ` + "`reward=custom reward_file=FILE`" + ` |
| ` + "`use_vllm`, `tensor_model_parallel_size`, `deepspeed`" + ` | nothing: one process samples and trains, on one card or the processor |
| ` + "`resume_from_checkpoint`" + ` | nothing: the same command goes on ([runs.md](runs.md#stopping-going-on-forking)) |
| ` + "`report_to`" + ` | ` + "`tensorboard=true`, `mlflow=DIR`, or `WANDB_PROJECT` in the environment" + ` |

The defaults differ from those programs: no clipping and no reference (` + "`loss=importance_sampling`" + `,
` + "`kl_coef=0`" + `), one update a step, and token losses are summed (` + "`reduction=sum`" + `). A
LoRA adapter is trained, whose ` + "`learning_rate`" + ` is about ten times that of full
fine-tuning. ` + "`--preset NAME,grpo`" + ` trains as the DeepSeekMath paper does.
`
