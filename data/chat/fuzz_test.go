package chat

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/text/unicode/norm"

	"github.com/seed-7879b91d/grpo/data/tokenizer/tokenizertest"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Any conversation is refused in one line, or rendered so that the tokens are the text, no message begins or ends a turn, and the result
// is the same after it was written to a file.
func FuzzConversation(f *testing.F) {
	text, err := os.ReadFile(filepath.Join(tokenizertest.Qwen3(f), "chat_vectors.json"))
	if err != nil {
		f.Fatal(err)
	}
	var vectors []struct{ Messages, Tools json.RawMessage }
	if err := json.Unmarshal(text, &vectors); err != nil || len(vectors) == 0 {
		f.Fatalf("%d vectors: %v", len(vectors), err)
	}
	for _, v := range vectors {
		f.Add([]byte(v.Messages), []byte(v.Tools))
	}
	tok := small(f)
	start, _ := tok.TokenID(imStart)
	end, _ := tok.TokenID(imEnd)
	f.Fuzz(func(t *testing.T, said, offered []byte) {
		var messages, again []Message
		var tools []Tool
		if json.Unmarshal(said, &messages) != nil || len(bytes.TrimSpace(offered)) > 0 && json.Unmarshal(offered, &tools) != nil {
			return
		}
		for _, name := range Names() {
			r := renderer(t, name, tok)
			ids, text, err := r.Prompt(messages, tools...)
			if err != nil {
				if !badinput.Is(err) || bytes.ContainsAny([]byte(err.Error()), "\n") {
					t.Fatalf("not an input error of one line: %q", err)
				}
				continue
			}
			if got := tok.Decode(ids, false); norm.NFC.String(got) != norm.NFC.String(text) {
				t.Fatalf("%s: the tokens are %q, the text is %q", name, got, text)
			}
			if begun, ended := count(ids, start), count(ids, end); begun != turns(messages, tools)+1 || ended != begun-1 {
				t.Fatalf("%s: %d turns begin and %d end in %q", name, begun, ended, text)
			}
			if written, err := json.Marshal(messages); err != nil || json.Unmarshal(written, &again) != nil {
				t.Fatalf("%s was rendered, and cannot be written: %v", said, err)
			}
			if _, read, err := r.Prompt(again, tools...); err != nil || read != text {
				t.Fatalf("%s: written and read it is %q, before %q: %v", name, read, text, err)
			}
			again = nil
		}
	})
}

func count(ids []int32, id int32) (n int) {
	for _, x := range ids {
		if x == id {
			n++
		}
	}
	return n
}

// turns is the number of turns of a conversation: adjacent results of tools share one, and tools add a system turn if there is no system
// message.
func turns(messages []Message, tools []Tool) int {
	n := len(slices.CompactFunc(slices.Clone(messages), func(a, b Message) bool { return a.Role == roleTool && b.Role == roleTool }))
	if len(tools) > 0 && messages[0].Role != roleSystem {
		n++
	}
	return n
}
