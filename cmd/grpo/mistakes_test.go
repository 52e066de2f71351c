package main

import (
	"strings"
	"testing"
)

// Errors of the command line libraries are rephrased, with what to type.
func TestMistakesAreAnsweredInOurWords(t *testing.T) {
	for line, says := range map[string]string{
		"sample":                               "--run or --model is required; type grpo sample --run DIRECTORY",
		"replay":                               "--run or --datums is required; type grpo replay --run DIRECTORY",
		"replay --run x":                       "--run wants --step, too; type --step STEP",
		"replay --step 3":                      "--step wants --run, too; type --run DIRECTORY",
		"sample --run x --model tiny":          "--model and --run do not go together; leave one of them out",
		"replay --run x --step 2 --steps 3":    "--run and --steps do not go together; leave one of them out",
		"replay --run x --step 2 --loss ppo":   "--loss and --run do not go together; leave one of them out",
		"sweep seed=0..2 --rungs 2":            "--rungs needs --halving; type --halving, too",
		"sweep seed=0..2 --random-seed 2":      "--random-seed needs --random; type --random N, too",
		"tool mcp x --json read_file":          "--json lists the tools; leave it out to call read_file",
		"tool trace x --call f --input 3":      "--input: with --call the tool takes none; leave one of them out, or type --json",
		"tool trace x --json --form story":     "--form and --json do not go together",
		"data inspect x --json --problem p":    "--json and --problem do not go together",
		"package --verify x --step 3":          "--step and --verify do not go together",
		"merge":                                "--adapter, --model and --out are required; type grpo merge --adapter DIRECTORY",
		"score":                                "--model is required; type grpo score --model DIRECTORY",
		"eval --step foo":                      `--step: found "foo", expected a whole number (see 'grpo eval --help')`,
		"eval --seed -1":                       `--seed: found "-1", expected a whole number, 0 or more`,
		"eval --temperature x":                 `--temperature: found "x", expected a number`,
		"eval --json=x":                        `--json: found "x", expected true or false`,
		"eval --step " + "9999999999999999999": "--step: found 9999999999999999999, which is too large",
		"eval --run x --step -7":               "--step: found -7, expected 0 or more",
		"eval --adapter=":                      "--adapter: found an empty name; type one, or leave --adapter out",
		"version":                              "version: that is a flag; type grpo --version",
		"eval --data":                          "--data: its value is missing; type --data TEXT",
		"data inspect":                         "SOURCE is missing; type grpo data inspect SOURCE",
		"data overlap a":                       "TEST is missing; type grpo data overlap TRAIN TEST",
		"data convert a b":                     `found "b", which is one word too many; type grpo data convert SOURCE`,
		"data foo":                             `unknown command "foo"; expected a command of grpo data (see 'grpo data --help')`,
		"data inspct":                          `unknown command "inspct"; did you mean inspect? type grpo data inspect`,
		"evel":                                 `unknown command or setting "evel"; did you mean eval? type grpo eval (see 'grpo --help')`,
		"compar a b":                           "did you mean compare?",
		"threads=999999":                       "threads: found 999999, expected at most ",
		"score --model tiny --threads 999999":  "type --threads 0 for one a core",
		"evaluate --run x":                     `unknown command or setting "evaluate"; did you mean eval?`,
		"eval --sample 3":                      "unknown flag: --sample; did you mean --samples? (see 'grpo eval --help')",
		"eval --tempreature 3":                 "did you mean --temperature?",
		"eval --nonsense 3":                    "unknown flag: --nonsense (see 'grpo eval --help')",
		"nonsense runs/a":                      `unknown command or setting "nonsense"; expected a command or key=value (see 'grpo --help')`,
		"bench gemm foo":                       `"foo"; grpo bench gemm takes flags alone`,
		"bench gemm --rank 4":                  "--rank: grpo bench gemm does not use it; leave it out",
		"bench long --runs 2":                  "--runs: grpo bench long does not use it",
		"sample --model tiny --prompt a --cache-bytes -5":                        "--cache-bytes and --max-sequences: found -5 and 0",
		"sample --model tiny --prompt a --renderer plain --chat-date 2024-07-26": "--chat-date is for the model's own template",
		"sample --model tiny --tokens a --renderer plain":                        "--renderer and --tokens do not go together",
		"sample --model tiny --prompt a --chat-date x":                           `--chat-date: found "x", expected a day`,
		"help foo":                    "help foo: grpo has no verb foo; type grpo --help",
		"help evel":                   "help evel: grpo has no verb evel; did you mean eval? type grpo eval --help",
		"help eval foo":               "help eval foo: grpo eval has no verb foo; type grpo eval --help",
		"completion foo":              `completion: found "foo", expected bash, zsh, fish or powershell; type grpo completion bash`,
		"doctor --sandbox foo":        "sandbox=foo: expected auto, local or unsafe",
		"doctor --sandbox-slots -5":   "sandbox_slots=-5: expected 0 for one per processor, or more",
		"bench sandbox --sandbox foo": "sandbox=foo: expected auto, local or unsafe",
	} {
		out, errs, code := shell(t, "", strings.Fields(line)...)
		requireBadInput(t, out, errs, code, says)
	}
}

// A path to something of another kind than expected is answered with what to type.
func TestAnotherThingThanWasMeant(t *testing.T) {
	for line, says := range map[string]string{
		"../grpo":             "../grpo: a setting names a directory; type run_dir=../grpo",
		"sample --model tiny": "expected exactly one of them; type --prompt TEXT",
		"eval --run .":        "type the DIR that the run's run_dir=DIR named",
	} {
		out, errs, code := shell(t, "", strings.Fields(line)...)
		requireBadInput(t, out, errs, code, says)
	}
}

// After a misspelt verb only the verb is reported: its arguments are not mistakes of their own.
func TestAMisspeltVerbIsToldOfOnce(t *testing.T) {
	for _, line := range []string{"show runs/a", "nonsense runs/a seed=1"} {
		out, errs, code := shell(t, "", strings.Fields(line)...)
		requireBadInput(t, out, errs, code, "unknown command or setting")
		if strings.Contains(errs, "runs/a") {
			t.Errorf("grpo %s: %s", line, errs)
		}
	}
}

// An impossible sweep is refused before it begins.
func TestASweepOfWarmUps(t *testing.T) {
	out, errs, code := shell(t, "", "sweep", "seed=0,1", "method=sft", "data=x", "--dry-run")
	requireBadInput(t, out, errs, code, "method: sft has a command of its own; type grpo sft")
}

// The help of cobra's own verbs works, too.
func TestHelpersHelp(t *testing.T) {
	for line, says := range map[string]string{
		"help": "grpo [key=value", "help eval": "pass@1", "help bench gemm": "gemm",
		"completion": "autocompletion", "completion bash": "bash completion",
	} {
		out, errs, code := shell(t, "", strings.Fields(line)...)
		if code != 0 || !strings.Contains(out, says) {
			t.Errorf("grpo %s: exit code %d\n%s%s", line, code, out, errs)
		}
	}
}
