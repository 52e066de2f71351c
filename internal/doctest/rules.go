package doctest

import (
	"regexp"
	"slices"
	"strings"
)

// SkipReason returns why a command cannot be run here: by its mark, or because of what it evidently needs; "" if it can. tiny reports
// whether a preset's model is the embedded one.
func SkipReason(c Command, tiny func(preset string) bool) string {
	if c.SkipReason != "" {
		return c.SkipReason
	}
	words, err := SplitCommands(c.Text)
	if err != nil {
		return ""
	}
	for _, w := range words {
		if why := specialNeeds(w, c.Text, tiny); why != "" {
			return why
		}
	}
	return ""
}

// published matches models that must be downloaded, and paths of a reader's own models.
var published = regexp.MustCompile(`(^|=)(~/Qwen|Qwen/|Llama-|gemma-)`)

// specialNeeds is what a command needs that not every machine has.
func specialNeeds(words []string, text string, tiny func(string) bool) string {
	if len(words) == 0 {
		return ""
	}
	given := func(word string) bool { return slices.Contains(words, word) }
	switch program := words[0]; {
	case program == "make" || program == "go" && len(words) > 1 && words[1] == "test":
		return "a target or a test of its own"
	case strings.Contains(text, "GRPO_CUDA_LIB="):
		return "make test-card runs the emulated card"
	case strings.Contains(text, "cuda:") || given("bench") && given("card"):
		return "wants a card"
	case program == "go" && given("-tags"):
		return "make build builds with the tag"
	case slices.ContainsFunc(words, published.MatchString):
		return "wants a model that is no part of the program"
	case given("--suite"):
		return "wants a set that is downloaded"
	case given("--shape"):
		return "wants the memory of a large model"
	}
	at := slices.Index(words, "--preset")
	if at > 0 && at+1 < len(words) && !tiny(words[at+1]) && !given("model=tiny") {
		return "wants a model that is no part of the program"
	}
	return ""
}
