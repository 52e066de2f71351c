package sessions

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/internal/serving"
	"github.com/seed-7879b91d/grpo/internal/serving/body"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
	"github.com/seed-7879b91d/grpo/kernels"
)

// allowed are the settings that a client may change.
var allowed = []string{"lora_rank", "lora_alpha", "lora_targets", "prompts_per_step", "completions_per_prompt", "max_tokens", "temperature",
	"stop", "advantage", "advantage_clip", "positive_only", "loss", "clip_low", "clip_high", "clip_dual", "tis", "tis_cap", "kl_coef",
	"kl_estimator", "kl_in", "entropy_coef", "reduction", "num_iterations", "refill", "max_refills", "learning_rate",
	"schedule", "warmup_steps", "scheduler_total_steps", "adam_beta1", "adam_beta2", "adam_eps", "weight_decay", "grad_clip_norm",
	"reward", "reward_weights", "format_coef", "reward_clip", "overlong_penalty", "overlong_buffer",
	"max_tests", "on_truncated", "comparator", "tolerance", "difficulty_patience",
	"difficulty_keep", "eval_top_k", "eval_top_p", "eval_min_p", "max_rows", "share_prefixes", "seed"}

// words converts a client's settings to words of a command line.
func words(settings map[string]json.RawMessage) ([]string, error) {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if !slices.Contains(allowed, key) {
			return nil, refusal.Field("settings", "clients cannot set %q; expected some of %s", refusal.Truncate(key, 100),
				strings.Join(allowed, ", "))
		}
		text := string(body.NormaliseIntegers(settings[key]))
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			return nil, refusal.Field("settings", "%s: found %s, which is out of range", key, refusal.Truncate(text, 50))
		}
		switch v := value.(type) {
		case string:
			text = v
		case float64, bool, []any: // in JSON, as on the command line
		default:
			return nil, refusal.Field("settings", "%s: found %s, expected a number, a text, a list, true or false", key,
				refusal.Truncate(text, 50))
		}
		all = append(all, key+"="+text)
	}
	return all, nil
}

// configure makes the configuration of a session: the server's, with the settings of the client.
func (s *Server) configure(n *session, p *serving.Policy) (*configs.Config, error) {
	said, err := words(n.Settings)
	if err != nil {
		return nil, err
	}
	cfg, err := configs.Load(configs.Source{Base: s.Config, Overrides: said})
	if err != nil {
		return nil, settingsRefusal(err)
	}
	cfg.Model = p.Language.Dir
	if i := slices.IndexFunc(s.Models, func(m serving.NamedDir) bool { return m.Name == p.Name }); i >= 0 {
		cfg.Model = s.Models[i].Dir
	}
	cfg.Train, cfg.Adapter, cfg.InitFrom, cfg.Resume, cfg.RunDir = "lora", "", "", "auto", n.file(runFolder)
	cfg.TestData, cfg.EvalEvery, cfg.MaxSteps, cfg.SaveEvery, cfg.KeepLast, cfg.KeepBest = "", -1, -1, -1, 2, 0
	cfg.Precision, cfg.KVCacheDtype, cfg.Quantize = p.Model.Precision.String(), p.Model.Cache.String(), p.Model.Quantise.String()
	cfg.AdapterPrecision = p.Model.AdapterPrecision.String()
	cfg.Order = "auto"
	if order, choice := kernels.OrderOf(s.Host.Backend()); choice {
		cfg.Order = order.String() // the same summation order as the served models
	}
	if cfg.Pipeline == "full" {
		cfg.Pipeline = "score" // the problems of the next step are not known in advance
	}
	if n.Own {
		cfg.Data, cfg.DataSplit, cfg.DataSources, cfg.ExpectedDatasetHash = n.file(problemsFile), "all", nil, ""
	}
	if err := cfg.Validate(); err != nil {
		return nil, settingsRefusal(err)
	}
	return cfg, nil
}

// longestReason is how much of an error text, which may quote values, is sent to a client, in characters.
const longestReason = 1000

// settingsRefusal turns an error of the configuration into a refusal.
func settingsRefusal(err error) error {
	words := strings.NewReplacer("\n", "; ", "; type ", "; send ", ", or type ", ", or send ")
	return refusal.Field("settings", "%s", refusal.Truncate(words.Replace(err.Error()), longestReason))
}

// checkSize refuses steps that would be too large.
func (s *Server) checkSize(cfg *configs.Config) error {
	if each := cfg.CompletionsPerPrompt; each > mostCompletions {
		return refusal.Field("settings", "completions_per_prompt: found %d, and a step has at most %d completions; send fewer",
			each, mostCompletions)
	}
	if most := mostCompletions / cfg.CompletionsPerPrompt; cfg.PromptsPerStep > most {
		return refusal.Field("settings", "prompts_per_step: found %d with completions_per_prompt %d, and a step has at most %d completions; "+
			"send a prompts_per_step of %d or less, or fewer completions_per_prompt", cfg.PromptsPerStep, cfg.CompletionsPerPrompt,
			mostCompletions, most)
	}
	for _, n := range []struct {
		key          string
		value, usual int
	}{{"num_iterations", cfg.NumIterations, s.Config.NumIterations}, {"max_refills", cfg.MaxRefills, s.Config.MaxRefills}} {
		if most := max(mostIterations, n.usual); n.value > most {
			return refusal.Field("settings", "%s: found %d, and a step has at most %d; send a %s of %d or less", n.key, n.value, most, n.key, most)
		}
	}
	return nil
}

// What a client's rows may ask of the sandbox.
const (
	mostMilliseconds = 60_000
	mostMegabytes    = 4096
)

// lines writes rows in the form of a task file.
func lines(rows []json.RawMessage) string {
	var text strings.Builder
	for _, row := range rows {
		text.WriteString(strings.NewReplacer("\n", " ", "\r", " ").Replace(string(row))) // JSON strings have no raw line breaks
		text.WriteByte('\n')
	}
	return text.String()
}

// read parses a client's rows.
func read(ctx context.Context, rows []json.RawMessage) ([]data.Problem, error) {
	for i, row := range rows {
		if strings.HasPrefix(string(row), "[") {
			return nil, refusal.Field("problems", "%d: found a list, expected an object", i+1)
		}
	}
	const field = "problems"
	problems, err := dataset.Read(ctx, field, strings.NewReader(lines(rows)))
	if err != nil {
		return nil, refusal.Field(field, "%s", strings.TrimPrefix(err.Error(), field+":"))
	}
	for i := range problems {
		tests, err := problems[i].Tests(ctx)
		if err != nil {
			return nil, err
		}
		limits := []data.Limits{problems[i].Limits}
		for _, t := range tests {
			limits = append(limits, t.Limits)
		}
		for _, l := range limits {
			if l.TimeMS > mostMilliseconds || l.MemoryMB > mostMegabytes {
				return nil, refusal.Field("problems", "%s: found a test of %d ms and %d MB, at most %d ms and %d MB are allowed",
					problems[i].ID, l.TimeMS, l.MemoryMB, mostMilliseconds, mostMegabytes)
			}
		}
	}
	return problems, nil
}

// changeable are the settings that a client may change, with their values.
func changeable(cfg *configs.Config) map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	for _, key := range allowed {
		if text, err := json.Marshal(cfg.Setting(key)); err == nil { // fails for numbers that JSON cannot express
			all[key] = text
		}
	}
	return all
}

// number parses a number in a path.
func number(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || text != strconv.Itoa(n) {
		return 0, refusal.Errorf(404, "%s", fmt.Sprintf("found %q, expected the number of a step", refusal.Truncate(text, 50)))
	}
	return n, nil
}
