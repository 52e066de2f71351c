package suite

import (
	"encoding/json"
	"strings"

	"github.com/seed-7879b91d/grpo/data"
)

var gsm8k = Suite{
	Name: nameGSM8K, Title: "GSM8K", Source: "openai/gsm8k", Split: "test", Collection: "main", Shots: true,
	Settings: Settings{K: 1, Temperature: 0.7, TopP: 1, MaxTokens: 1024, Shots: 8,
		Papers: "Cobbe et al. 2021; Wei et al. 2022: eight worked examples for models that go on with a text, none in a chat, greedy"},
	read: readGSM8K,
}

func readGSM8K(r row, o Options) (*Item, error) {
	question, answer := strings.TrimSpace(r.text("question", true)), strings.TrimSpace(r.text("answer", true))
	if *r.err != nil {
		return nil, *r.err
	}
	at := strings.LastIndex(answer, "####")
	final := ""
	if at >= 0 {
		final = strings.ReplaceAll(strings.TrimSpace(answer[at+len("####"):]), ",", "")
	}
	if final == "" {
		return nil, refuse(`"answer": found %.40q, expected a solution that ends with #### and a number`, answer)
	}
	item := &Item{Problem: data.Problem{Source: nameGSM8K, Statement: question}, Tests: []any{data.MatchKeys{Math: &final}},
		Canonical: answer, text: question, solution: answer}
	var err error
	item.Metadata, err = json.Marshal(About{Suite: nameGSM8K})
	return item, err
}
