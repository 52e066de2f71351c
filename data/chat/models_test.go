package chat

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/data/tokenizer/tokenizertest"
	"github.com/seed-7879b91d/grpo/internal/race"
)

// The tokenizers of models are large, so each is loaded once, for all checks of it.
func TestModels(t *testing.T) {
	race.SkipSerial(t)
	for _, m := range []struct {
		name  string
		files func(testing.TB) string
		blank string // what ▁ is decoded to
		nfc   bool
	}{
		{name: "llama3", files: tokenizertest.Llama3, blank: "▁"},
		{name: "gemma2", files: tokenizertest.Gemma2, blank: " "},
		{name: "qwen2_5", files: tokenizertest.Qwen25, blank: "▁", nfc: true},
	} {
		t.Run(m.name, func(t *testing.T) {
			dir := m.files(t)
			tok := load(t, dir)
			back := func(text string) string {
				if text = strings.ReplaceAll(text, "▁", m.blank); m.nfc {
					text = norm.NFC.String(text)
				}
				return text
			}
			t.Run("texts", func(t *testing.T) { checkTexts(t, dir, tok, back) })
			t.Run("added tokens", func(t *testing.T) { checkAdded(t, tok, back) })
			t.Run("round trips", func(t *testing.T) { checkRoundTrips(t, tok, back) })
			t.Run("chat", func(t *testing.T) { checkChat(t, dir, tok) })
		})
	}
}

func readVectors[T any](t *testing.T, path string) (vectors []T) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &vectors)
	}
	if err != nil || len(vectors) == 0 {
		t.Fatalf("%s: %d vectors, %v", path, len(vectors), err)
	}
	return vectors
}

// checkTexts compares ids with those of Hugging Face's tokenizer, and decodes them back.
func checkTexts(t *testing.T, dir string, tok *tokenizer.Tokenizer, back func(string) string) {
	type vector struct {
		Text    string
		IDs     []int32
		Decoded *string
	}
	control := controls(tok)
	for _, v := range readVectors[vector](t, filepath.Join(dir, "vectors.json")) {
		if ids := tok.EncodeSpecial(v.Text); !slices.Equal(ids, v.IDs) {
			t.Errorf("%q\n got %v\nwant %v", v.Text, ids, v.IDs)
		}
		want := back(v.Text)
		if v.Decoded != nil {
			want = *v.Decoded
		}
		if text := tok.Decode(v.IDs, false); text != want {
			t.Errorf("decoded %q\n  want %q", text, want)
		}
		if streamed := stream(tok, v.IDs); streamed != want {
			t.Errorf("streamed %q\n   want %q", streamed, want)
		}
		for _, id := range tok.Encode(v.Text) {
			if slices.Contains(control, id) {
				t.Errorf("%q as user text has the control token %d", v.Text, id)
			}
		}
	}
}

func controls(tok *tokenizer.Tokenizer) (ids []int32) {
	for _, s := range tok.SpecialTokens() {
		if s.Control {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// stream decodes token by token and requires whole characters at every moment.
func stream(tok *tokenizer.Tokenizer, ids []int32) string {
	s := tok.NewStream(false)
	var text strings.Builder
	for _, id := range ids {
		text.WriteString(s.Push(id))
		if strings.Contains(text.String(), "\uFFFD") {
			break
		}
	}
	return text.String() + s.Flush()
}

func checkAdded(t *testing.T, tok *tokenizer.Tokenizer, back func(string) string) {
	for _, s := range tok.SpecialTokens() {
		inText := tok.EncodeSpecial("a" + s.Content + "b")
		if ids := tok.EncodeSpecial(s.Content); !slices.Equal(ids, []int32{s.ID}) || !slices.Contains(inText, s.ID) {
			t.Errorf("%q is read as %v, and %v in a text; expected %d", s.Content, ids, inText, s.ID)
		}
		if text := tok.Decode([]int32{s.ID}, false); text != back(s.Content) {
			t.Errorf("%q: token %d is %q", s.Content, s.ID, text)
		}
		if got, want := tok.Decode([]int32{s.ID}, true) == "", s.Control; got != want {
			t.Errorf("%q is left out: %t, expected %t", s.Content, got, want)
		}
	}
}

// checkRoundTrips tests random mixtures of pieces of programs. GRPO_TEXTS sets their number.
func checkRoundTrips(t *testing.T, tok *tokenizer.Tokenizer, back func(string) string) {
	data, err := os.ReadFile("testdata/programs.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	n := 1000
	if s := os.Getenv("GRPO_TEXTS"); s != "" {
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatalf("GRPO_TEXTS: %v", err)
		}
	}
	r := rand.New(rand.NewPCG(12, 0))
	for range n {
		var text strings.Builder
		for range 1 + r.IntN(3) {
			line := []rune(lines[r.IntN(len(lines))])
			from := r.IntN(len(line) + 1)
			text.WriteString(string(line[from : from+r.IntN(len(line)-from+1)]))
			if r.IntN(4) == 0 {
				text.WriteRune(rune(r.IntN(0xD800)))
			}
		}
		for _, ids := range [][]int32{tok.Encode(text.String()), tok.EncodeSpecial(text.String())} {
			if got := tok.Decode(ids, false); got != back(text.String()) {
				t.Fatalf("%q comes back as %q", text.String(), got)
			}
		}
	}
}

type chatVector struct {
	Name, Renderer string
	Messages       []Message
	Tools          []Tool
	Prompt         bool `json:"add_generation_prompt"`
	Extra          map[string]json.RawMessage
	Text           *string
	IDs            []int32
	Error          string
}

// checkChat compares text and tokens with Hugging Face's template engine, and errors with the template's.
func checkChat(t *testing.T, dir string, tok *tokenizer.Tokenizer) {
	renderers := map[string]*Renderer{}
	for _, v := range readVectors[chatVector](t, filepath.Join(dir, "chat_vectors.json")) {
		jinja, err := os.ReadFile(filepath.Join(dir, v.Renderer+".jinja"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := ForModel(tok.WithChatTemplate(string(jinja)), Options{Vars: v.Extra})
		if err != nil {
			t.Fatal(err)
		}
		if len(v.Extra) == 0 || renderers[v.Renderer] == nil {
			renderers[v.Renderer] = r
		}
		render := r.Conversation
		if v.Prompt {
			render = r.Prompt
		}
		ids, text, err := render(v.Messages, v.Tools...)
		switch {
		case v.Text == nil:
			checkRefused(t, err, v.Error)
		case err != nil || text != *v.Text:
			t.Errorf("%s, %s: %v\n got %q\nwant %q", v.Name, v.Renderer, err, text, *v.Text)
		case v.Name == "special tokens in the content":
			checkForged(t, tok, v.IDs, ids, text)
		case !slices.Equal(ids, v.IDs):
			t.Errorf("%s, %s: %q\n got %v\nwant %v", v.Name, v.Renderer, text, ids, v.IDs)
		}
	}
	for name, r := range renderers {
		t.Run(name, func(t *testing.T) { checkTurns(t, r); checkGrowth(t, r, true) })
	}
}

// checkForged requires that special tokens quoted in a message stay text.
func checkForged(t *testing.T, tok *tokenizer.Tokenizer, forged, ids []int32, text string) {
	if tok.Decode(ids, false) != text {
		t.Errorf("%v spell %q, expected %q", ids, tok.Decode(ids, false), text)
	}
	control := controls(tok)
	count := func(ids []int32) (n int) {
		for _, id := range ids {
			if slices.Contains(control, id) {
				n++
			}
		}
		return n
	}
	if count(ids) >= count(forged) {
		t.Errorf("%d control tokens in %q, %d where the content forges some", count(ids), text, count(forged))
	}
}

// checkTurns requires that the tokens of a conversation begin with those of each of its prefixes, that an answer continues its prompt,
// and that the end-of-turn token is known.
func checkTurns(t *testing.T, r *Renderer) {
	if !r.Extends() {
		t.Error("a conversation does not start with its beginnings")
	}
	rnd := rand.New(rand.NewPCG(7, 0))
	for range 20 {
		messages := []Message{}
		for i := range 2 + rnd.IntN(5) {
			content := "x" + tricky[rnd.IntN(len(tricky))] + tricky[rnd.IntN(len(tricky))]
			messages = append(messages, Message{Role: []string{"user", "assistant"}[i%2], Content: content})
		}
		whole, _ := mustRender(t, r.Conversation, messages, nil)
		for k := 1; k < len(messages); k++ {
			render := r.Conversation
			if messages[k].Role == "assistant" {
				render = r.Prompt
			}
			if part, _ := mustRender(t, render, messages[:k], nil); !hasPrefix(whole, part) {
				t.Fatalf("%d of %d messages are no beginning: %+v", k, len(messages), messages)
			}
		}
	}
	dialogue := []Message{user("a"), answer("b")}
	prompt, _ := mustRender(t, r.Prompt, dialogue[:1], nil)
	whole, _ := mustRender(t, r.Conversation, dialogue, nil)
	if end := r.Stop(); len(end) != 1 || !slices.Contains(whole[len(prompt):], end[0]) {
		t.Errorf("a turn ends with %v, which is not in %v", end, whole[len(prompt):])
	}
}
