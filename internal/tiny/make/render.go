package main

import (
	"errors"
	"strings"
	"text/template"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/prompt"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/tiny"
	"github.com/seed-7879b91d/grpo/model"
)

// textRenderer renders a problem with its answers into tokens, by the same wording and chat format as a run does.
type textRenderer struct {
	tok      *tokenizer.Tokenizer
	wording  *prompt.Builder
	feedback *template.Template
	renderer *chat.Renderer
}

// newRenderer trains the tokenizer on the corpus.
func newRenderer(c *corpus) (*textRenderer, *tokenizer.Trained, error) {
	wording, err := tiny.PromptTemplate()
	if err != nil {
		return nil, nil, err
	}
	feedback, err := template.New("heal.tmpl").Parse(tiny.HealTemplate())
	if err != nil {
		return nil, nil, err
	}
	var failed error
	trained, err := tokenizer.Train(func(yield func(string) bool) {
		for p, dialogues := range c.examples(0) {
			texts, err := texts(wording, feedback, p, dialogues[0])
			if err != nil {
				failed = err
				return
			}
			for _, text := range texts {
				if !yield(text) {
					return
				}
			}
		}
	}, tokenizer.TrainOptions{
		VocabSize: vocabulary, EOS: end, Pad: pad, ChatTemplate: chat.Template,
		Special: []tokenizer.Special{{Content: pad, Control: true}, {Content: start, Control: true}, {Content: end, Control: true}},
	})
	if err := errors.Join(failed, err); err != nil {
		return nil, nil, err
	}
	tok, err := trained.Tokenizer()
	if err != nil {
		return nil, nil, err
	}
	renderer, err := chat.ForModel(tok, chat.Options{})
	return &textRenderer{tok, wording, feedback, renderer}, trained, err
}

// texts are the texts of a dialogue on which the tokenizer is trained, each after its role: the prompt, the first answer, and the feedback
// if there is a second answer.
func texts(wording *prompt.Builder, feedback *template.Template, p problem, d dialogue) ([]string, error) {
	task := p.task()
	messages, err := wording.Messages(&task)
	if err != nil {
		return nil, err
	}
	said := []string{"user\n" + messages[0].Content, "assistant\n" + d.first.text}
	if d.second == "" {
		return said, nil
	}
	text, err := feedbackText(feedback, p, d.shown)
	return append(said, "user\n"+text), err
}

func (v *textRenderer) datum(p problem, d dialogue) (model.Datum, error) {
	task := p.task()
	messages, err := v.wording.Messages(&task)
	if err != nil {
		return model.Datum{}, err
	}
	tokens, _, err := v.renderer.Prompt(messages)
	if err != nil {
		return model.Datum{}, err
	}
	var spans [][2]int
	say := func(answer string) {
		from := len(tokens)
		tokens = append(v.tok.AppendText(tokens, answer), v.renderer.Stop()[0])
		spans = append(spans, [2]int{from, len(tokens)})
	}
	say(d.first.text)
	if d.second != "" {
		text, err := feedbackText(v.feedback, p, d.shown)
		if err != nil {
			return model.Datum{}, err
		}
		more, _, err := v.renderer.Continue(messages, true, []chat.Message{{Role: "user", Content: text}})
		if err != nil {
			return model.Datum{}, err
		}
		tokens = append(tokens, more...)
		say(d.second)
	}
	return model.NewConversation(tokens, spans, make([]float32, len(tokens)-1), 1), nil
}

// feedbackText is the feedback on a wrong answer, in the words of env=heal.
func feedbackText(wording *template.Template, p problem, shown *data.Test) (string, error) {
	finding := struct {
		Statement, Input, Expected string
		Test                       int
	}{Statement: p.statement()}
	if shown != nil {
		finding.Test = 1
		finding.Input, finding.Expected = strings.TrimRight(shown.Stdin, "\n"), strings.TrimRight(shown.Stdout, "\n")
		if p.call {
			var args []string
			for _, a := range shown.Args {
				args = append(args, string(a))
			}
			finding.Input, finding.Expected = strings.Join(args, ", "), string(shown.Returns)
		}
	}
	var out strings.Builder
	err := wording.Execute(&out, finding)
	return strings.TrimSuffix(out.String(), "\n"), err
}
