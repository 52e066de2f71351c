package handover

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"text/template"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
)

// isFile reports whether a file exists.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// ollamaTemplates are chat templates in Ollama's form. The one that matches the model's is found by trying.
var ollamaTemplates = []string{
	"{{ range .Messages }}<|im_start|>{{ .Role }}\n{{ .Content }}<|im_end|>\n{{ end }}<|im_start|>assistant\n",
	"{{ range .Messages }}<|start_header_id|>{{ .Role }}<|end_header_id|>\n\n{{ .Content }}<|eot_id|>{{ end }}" +
		"<|start_header_id|>assistant<|end_header_id|>\n\n",
	"{{ range .Messages }}<start_of_turn>{{ if eq .Role \"assistant\" }}model{{ else }}{{ .Role }}{{ end }}\n" +
		"{{ .Content }}<end_of_turn>\n{{ end }}<start_of_turn>model\n",
	"{{ range .Messages }}<|{{ .Role }}|>\n{{ .Content }}</s>\n{{ end }}<|assistant|>\n",
}

// templateTrials are conversations to try a template on.
var templateTrials = [][]chat.Message{
	{{Role: "user", Content: "One?"}},
	{{Role: "user", Content: "One?"}, {Role: "assistant", Content: "Two."}, {Role: "user", Content: "Three?"}},
	{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "One?"}},
}

// ollamaTemplate is the template that renders the same as the model's own, and the model's default system prompt.
func ollamaTemplate(r *chat.Renderer, bos string) (text, system string) {
	for _, candidate := range ollamaTemplates {
		t := template.Must(template.New("").Parse(candidate))
		if rendersSame(t, r, bos, "") {
			return candidate, ""
		}
		_, bare, err := r.Prompt(templateTrials[0])
		if err != nil {
			continue
		}
		const mark = "\x00"
		var with strings.Builder
		if t.Execute(&with, templateData(templateTrials[0], mark)) != nil {
			continue
		}
		before, after, _ := strings.Cut(with.String(), mark)
		bare = strings.TrimPrefix(bare, bos)
		if len(bare) < len(before)+len(after) || !strings.HasPrefix(bare, before) || !strings.HasSuffix(bare, after) {
			continue
		}
		if said := bare[len(before) : len(bare)-len(after)]; !strings.Contains(said, `"""`) && rendersSame(t, r, bos, said) {
			return candidate, said
		}
	}
	return "", ""
}

// templateData is a conversation as Ollama passes it to a template, with the system prompt if it has none.
func templateData(messages []chat.Message, system string) map[string]any {
	if system != "" && messages[0].Role != "system" {
		messages = slices.Concat([]chat.Message{{Role: "system", Content: system}}, messages)
	}
	return map[string]any{"Messages": messages}
}

// rendersSame reports whether a template renders the same as the model's own, for the conversations that the latter accepts.
func rendersSame(t *template.Template, r *chat.Renderer, bos, system string) bool {
	same := 0
	for _, d := range templateTrials {
		_, want, err := r.Prompt(d)
		if err != nil {
			continue
		}
		var got strings.Builder
		if t.Execute(&got, templateData(d, system)) != nil || got.String() != strings.TrimPrefix(want, bos) {
			return false
		}
		same++
	}
	return same > 1
}

// modelfile is the content of a Modelfile for Ollama, with a note for the user.
func modelfile(file string, tok *tokenizer.Tokenizer, r *chat.Renderer, stops []int32) (text, note string) {
	lines := []string{"FROM ./" + file, ""}
	note = "Modelfile: without a TEMPLATE: Ollama takes that of the file where it knows it"
	if r != nil {
		template, system := ollamaTemplate(r, tok.Parts()["bos_token"])
		if template != "" {
			lines = append(lines, `TEMPLATE """`+template+`"""`, "")
			note = fmt.Sprintf("Modelfile: its TEMPLATE gives what the model's own chat template does, in %d conversations", len(templateTrials))
		}
		if system != "" {
			lines = append(lines, `SYSTEM """`+system+`"""`, "")
		}
	}
	for _, id := range stops {
		if text, ok := tok.Token(id); ok && !strings.ContainsAny(text, "\"\n") {
			lines = append(lines, `PARAMETER stop "`+text+`"`)
		}
	}
	return strings.Join(lines, "\n") + "\n", note
}
