package report

import (
	_ "embed"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/cputime"
)

// longRun is a long run with one exploding gradient.
func longRun() map[string]string {
	const steps = 10_000
	var metrics, times, log, samples strings.Builder
	for s := 1; s <= steps; s++ {
		x := 0.5 + 0.3*math.Sin(float64(s)) + 0.2*math.Sin(float64(s)/700)
		norm := 1 + x
		if s == 7777 {
			norm = 5
		}
		fmt.Fprintf(&metrics,
			`{"step":%d,"epoch":0,"adapter_sha256":"%064d","mean_reward":%[3]v,"mean_correct":%[3]v,"mean_fraction":%[3]v,`+
				`"format_rate":%[3]v,"groups_total":8,"groups_skipped":%[4]d,`+
				`"frac_all_good":%[3]v,"frac_all_bad":0.1,"wasted_tokens":3,"completions":64,"completion_tokens":1500,`+
				`"completion_length_mean":%[5]v,"completion_length_max":%[6]v,"completion_length_min":%[3]v,`+
				`"truncated_rate":%[3]v,"verdicts":{"AC":%[4]d,"WA":7,"TLE":5,"CE":3,"RTE":9,"MLE":2,"OLE":1,"INFRA":1},"reward_errors":0,`+
				`"updated":true,"ratio_mean":%[3]v,"ratio_min":0.1,"ratio_max":%[5]v,`+
				`"kl_v1":%[3]v,"kl_v2":%[3]v,"max_logp_diff":%[3]v,"entropy":%[3]v,"clip_fraction":%[3]v,"ess":%[3]v,"grad_norm":%[7]v,`+
				`"lr":%[3]v,"max_logp_diff_on_policy":%[3]v}`+"\n",
			s, s, x, s%8, 100*x, 300*x, norm)
		fmt.Fprintf(&times,
			`{"step":%d,"total_s":%v,"sample_s":%v,"score_s":%v,"train_s":%v,"sampled_tokens_per_s":%v,"trained_tokens_per_s":%v}`+"\n", s,
			4*x, x, x, x, 1e4*x, 1e3*x)
		fmt.Fprintf(&log, `{"step":%d,"rule":"rule %d","finding":"%s","try":"less"}`+"\n", s, s%100, strings.Repeat("long ", 120))
		if s%20 == 0 {
			fmt.Fprintf(&metrics,
				`{"kind":"evaluation","step":%d,"problems":260,"pass@1_greedy":%v,"pass@1_greedy_ci":[%v,%v],"format_rate":1,"k":4,`+
					`"pass@1":%v,"pass@k":%v}`+"\n", s, x, x-0.1, x+0.1, x, x)
		}
	}
	for i := range 512 {
		fmt.Fprintf(&samples,
			`{"step":%d,"group":%d,"sample":%d,"problem":"p","text":"%s","score":{"reward":%d,"verdict":"WA"},"advantage":0}`+"\n", steps,
			i/8, i%8, strings.Repeat("<code> ", 4000), i%2)
	}
	manifest := `{"datasets":["` + strings.Repeat("refused row, ", 50_000) + `"]}`
	return map[string]string{"metrics.jsonl": metrics.String(), "train_log.jsonl": times.String(), "run_log.jsonl": log.String(),
		"rollouts.jsonl": samples.String(), "config.json": smallConfig, "manifest.json": manifest}
}

func TestTenThousandSteps(t *testing.T) {
	if underRace {
		t.Skip("a test of speed and size")
	}
	dir := t.TempDir()
	for name, text := range longRun() {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	quickest := time.Hour
	for tries := 0; tries < 10 && quickest > time.Second; tries++ { // other work of the process counts, too
		began := cputime.Used()
		require.NoError(t, Write(dir))
		quickest = min(quickest, cputime.Used()-began)
	}
	page := rewrite(t, dir)
	t.Logf("%d kB in %v of processor time", len(page)/1000, quickest)
	require.Less(t, len(page), 500_000)
	require.Less(t, quickest, time.Second)
	root := parse(t, page)
	for _, f := range root.all("figure", "") {
		if f.all("h3", "")[0].read() == "Gradient norm" {
			// 5 is the top of the scale; the column of step 7777 of 10,000 lies at 777.5 of 1000.
			require.Regexp(t, `\b778 0\b`, f.all("path", "raw")[0].attr("d"), "the spike is lost")
		}
	}
	rules := root.all("ul", "rules")
	require.Len(t, rules, 2, "those that hold, and those that do not any more")
	require.Equal(t, mostRules, len(rules[0].all("li", ""))+len(rules[1].all("li", "")))
	require.Len(t, root.all("article", ""), mostGroups)
	require.Contains(t, root.all("section", "")[2].read(), "each point covers about 50 steps")
}

// The number of steps behind a point is an integer, and left out below two.
func TestWhatAPointStandsFor(t *testing.T) {
	for n, want := range map[int]string{
		1: "", 2: "", 20: "", 200: "", 201: "each point covers one or two steps", 299: "each point covers one or two steps",
		300: "each point covers about 2 steps", 10_000: "each point covers about 50 steps",
	} {
		lead := reading(evenly(make([]int, n)))
		_, says, _ := strings.Cut(lead, "; ")
		require.NotRegexp(t, "^;", lead)
		require.Equal(t, want, says, "%d steps", n)
	}
}
