package doctest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const page = `# A page
<!-- has: tasks.jsonl runs/first -->

Say this:

    grpo run_dir=runs/first \
        max_steps=3            # it's short
    echo 'two
    lines' | grpo tokenize

and it prints

    step 1  reward 0.5

1. in a list:
    grpo nothing

` + "```\n    grpo neither\n```" + `

<!-- not run, wants a card: grpo bench -->

    grpo bench card
    grpo doctor
    for n in 1 2; do for m in 3 4; do
        echo "$n $m"
    done; done > out
    make
`

func TestCommandsOfAPage(t *testing.T) {
	p, err := Parse(page)
	require.NoError(t, err)
	require.Equal(t, []string{"tasks.jsonl", "runs/first"}, p.Prerequisites)
	require.Equal(t, []Command{
		{Line: 6, Text: "grpo run_dir=runs/first \\\n    max_steps=3            # it's short"},
		{Line: 8, Text: "echo 'two\nlines' | grpo tokenize"},
		{Line: 24, Text: "grpo bench card", SkipReason: "wants a card"},
		{Line: 25, Text: "grpo doctor"},
		{Line: 26, Text: "for n in 1 2; do for m in 3 4; do\n    echo \"$n $m\"\ndone; done > out"},
		{Line: 29, Text: "make"},
	}, p.Commands)
}

// Faulty marks of a page's commands are reported with their line.
func TestPagesThatCannotBeTyped(t *testing.T) {
	for says, edit := range map[string][2]string{
		"line 22: not run, wants a card":  {"bench -->", "sample -->"}, // the mark is out of date
		"line 22: <!-- not run: wants":    {"<!-- not run, wants", "<!-- not run: wants"},
		"line 25: grop doctor: is no com": {"grpo doctor", "grop doctor"},
	} {
		_, err := Parse(strings.Replace(page, edit[0], edit[1], 1))
		require.ErrorContains(t, err, says)
	}
	_, err := Parse("<!-- not run, sends it -->\n\nno command")
	require.ErrorContains(t, err, "line 1")
}

func TestWords(t *testing.T) {
	for text, want := range map[string][][]string{
		`A=1 grpo "a b" 'c d' > out; make x # y`: {{"grpo", "a b", "c d"}, {"make", "x"}},
		`X=$(make -s y | tail -n 1) grpo z & ls`: {{"grpo", "z"}, {"ls"}},
		"grpo a\\\n b\\ c | head":                {{"grpo", "a", "b c"}, {"head"}},
		`echo a#b "$(cat (x) y)"`:                {{"echo", "a#b", "$(cat (x) y)"}},
		`echo "a \"b\" $((1 + 2))"`:              {{"echo", `a "b" $((1 + 2))`}},
	} {
		found, err := SplitCommands(text)
		require.NoError(t, err)
		require.Equal(t, want, found, text)
	}
	_, err := SplitCommands("echo 'x")
	require.Error(t, err)
}

func TestWhatIsNotRun(t *testing.T) {
	tiny := func(preset string) bool { return preset == "tiny_heal" }
	for text, why := range map[string]string{
		"grpo --preset tiny_heal run_dir=x":                    "",
		"grpo --preset dapo model=tiny data=tiny":              "",
		"grpo --preset qwen3_0.6b data=tasks.jsonl":            "model",
		"grpo serve --model ~/Qwen3-0.6B":                      "model",
		"echo x | grpo tokenize --tokenizer gemma-2-9b-it":     "model",
		"grpo device=cuda:0":                                   "card",
		"GRPO_CUDA_LIB=$(make -s emulator) grpo device=cuda:0": "emulated",
		"grpo bench card":                                      "card",
		"make test":                                            "target",
		"go test ./...":                                        "test of its own",
		"go run ./cmd/grpo":                                    "",
	} {
		if found := SkipReason(Command{Text: text}, tiny); why == "" {
			require.Empty(t, found, text)
		} else {
			require.Contains(t, found, why, text)
		}
	}
	require.Equal(t, "sends it", SkipReason(Command{Text: "grpo doctor", SkipReason: "sends it"}, tiny))
}
