package openai

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/serving"
	"github.com/seed-7879b91d/grpo/internal/tiny"
	"github.com/seed-7879b91d/grpo/sampler"
)

// script is a host of one policy, with scripted answers.
type script struct {
	*Policy
	says    []string // the answers to each prompt, in turn
	tokens  []int32  // used instead for the first of them
	logProb float32  // of each token, if not 0
	refuse  error
	fail    error // after the first token
	hang    bool  // after the first token

	mu        sync.Mutex
	asked     []sampler.Request
	cancelled chan struct{}
	hanging   chan struct{} // gets a value when a request hangs
}

// tinyTokenizer is the tokenizer of the embedded model.
var tinyTokenizer = sync.OnceValues(func() (*tokenizer.Tokenizer, error) {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := tiny.Extract(dir); err != nil {
		return nil, err
	}
	return tokenizer.Load(dir)
})

// scripted is a script with the tokenizer of the embedded model.
func scripted(t testing.TB, says ...string) *script {
	t.Helper()
	tok, err := tinyTokenizer()
	require.NoError(t, err)
	renderer, err := chat.ForModel(tok, chat.Options{})
	require.NoError(t, err)
	s := &script{says: says, cancelled: make(chan struct{}, 1), hanging: make(chan struct{}, 1)}
	s.Policy = &Policy{Name: "tiny", Base: "tiny", Created: time.Unix(7, 0), MaxLength: 1000, Submit: s.submit, Language: &Language{
		Tokenizer: tok, Stops: renderer.Stop(), Rows: 768,
		Chat: func(map[string]json.RawMessage) (*chat.Renderer, error) { return renderer, nil },
	}}
	return s
}

func (s *script) Policies() []*Policy { return []*Policy{s.Policy} }

func (s *script) Find(name string) (*Policy, error) {
	if name != s.Name {
		return nil, &serving.NotFoundError{Name: name, Available: []string{s.Name}}
	}
	return s.Policy, nil
}

// submit sends the whole answer from another goroutine.
func (s *script) submit(all []sampler.Request, on []sampler.Listener) (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return nil, s.refuse
	}
	for k, r := range all {
		s.asked = append(s.asked, r)
		place := len(s.asked) - 1
		go func() {
			for i := range r.N {
				s.say(r, place, i, on[k])
			}
		}()
	}
	return func() {
		select {
		case s.cancelled <- struct{}{}:
		default:
		}
	}, nil
}

func (s *script) say(r sampler.Request, place, sample int, on sampler.Listener) {
	ids := s.tokens
	if ids == nil {
		ids = s.Language.Tokenizer.Encode(s.says[(place*r.N+sample)%len(s.says)])
	}
	ids = append(append([]int32{}, ids...), s.Language.Stops[0])
	done := sampler.Rollout{Sample: sample, Finish: sampler.Length, Cached: 3}
	var watch func(int32) bool
	if r.Params.Watch != nil {
		watch = r.Params.Watch()
	}
	if r.ScorePrompt {
		for i := range r.Prompt {
			done.Prompt = append(done.Prompt, -float32(i)/2)
		}
	}
	if r.ScorePrompt && sample == 0 && on.Prompt != nil {
		on.Prompt(done.Prompt, nil)
	}
	for i, id := range ids {
		if i == r.Params.MaxTokens {
			break
		}
		token := sampler.Token{Sample: sample, ID: id, Raw: -float32(i), LogProb: s.logProb}
		done.Tokens, done.LogProbs, done.Raw = append(done.Tokens, id), append(done.LogProbs, cmp.Or(s.logProb, -9)), append(done.Raw, token.Raw)
		if r.Top > 0 {
			token.Top = []sampler.Likely{{Token: id, LogProb: token.Raw}, {Token: 5, LogProb: -50}}[:min(2, r.Top)]
			done.Top = append(done.Top, token.Top)
		}
		if on.Token != nil {
			on.Token(token)
		}
		if id == s.Language.Stops[0] && len(r.Params.StopTokens) > 0 || watch != nil && watch(id) {
			done.Finish = sampler.Stop
			break
		}
		if s.hang {
			s.hanging <- struct{}{}
			return
		}
		if s.fail != nil {
			done.Finish, done.Err = sampler.Failed, s.fail
			break
		}
	}
	on.Done(done)
}

// post sends a body, and returns the status and the body of the response.
func post(t testing.TB, h http.Handler, path, body string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	text, err := io.ReadAll(w.Body)
	require.NoError(t, err)
	return w.Code, string(text)
}

// with is a chat request with additional fields.
func with(fields string) string {
	if fields != "" {
		fields = "," + fields
	}
	return `{"model":"tiny","messages":[{"role":"user","content":"hi"}]` + fields + `}`
}

// wholeChat is an answer as a client reads it.
type wholeChat struct {
	ID      string
	Object  string
	Choices []wholeChoice
	Usage   usage
}

type wholeChoice struct {
	Index   int
	Message struct {
		Role     string
		Content  *string
		Thoughts string     `json:"reasoning_content"`
		Calls    []toolCall `json:"tool_calls"`
	}
	LogProbs *struct{ Content []tokenLikelihood }
	Finish   string `json:"finish_reason"`
}

// content is the text of a choice.
func (c wholeChoice) content() string {
	if c.Message.Content == nil {
		return "null"
	}
	return *c.Message.Content
}

func ask(t testing.TB, h http.Handler, fields string) (answer wholeChat) {
	t.Helper()
	status, text := post(t, h, "/v1/chat/completions", with(fields))
	require.Equal(t, 200, status, text)
	require.NoError(t, json.Unmarshal([]byte(text), &answer))
	return answer
}

// lines are the lines of a stream, which must end properly.
func lines(t testing.TB, text string) (list []string) {
	t.Helper()
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		require.True(t, ok, line)
		list = append(list, data)
	}
	return list
}

// streamed joins a stream into the whole answer.
func streamed(t testing.TB, h http.Handler, fields string) (answer wholeChat) {
	t.Helper()
	status, text := post(t, h, "/v1/chat/completions", with(`"stream":true,"stream_options":{"include_usage":true},`+fields))
	require.Equal(t, 200, status, text)
	list := lines(t, text)
	require.Equal(t, "[DONE]", list[len(list)-1])
	for _, line := range list[:len(list)-1] {
		var v struct {
			ID      string
			Choices []streamedChoice
			Usage   *usage
		}
		require.NoError(t, json.Unmarshal([]byte(line), &v))
		if v.Usage != nil {
			require.Empty(t, v.Choices)
			answer.Usage = *v.Usage
		}
		for _, c := range v.Choices {
			if c.Index >= len(answer.Choices) {
				answer.Choices = append(answer.Choices, make([]wholeChoice, c.Index+1-len(answer.Choices))...)
			}
			join(&answer.Choices[c.Index], c)
		}
	}
	return answer
}

// streamedChoice is a line of a stream.
type streamedChoice struct {
	Index    int
	Delta    said
	LogProbs *struct{ Content []tokenLikelihood }
	Finish   *string `json:"finish_reason"`
}

func join(to *wholeChoice, c streamedChoice) {
	to.Index = c.Index
	to.Message.Role += c.Delta.Role
	if c.Delta.Content != nil {
		text := *c.Delta.Content
		if to.Message.Content != nil {
			text = *to.Message.Content + text
		}
		to.Message.Content = &text
	}
	if c.Delta.Reasoning != nil {
		to.Message.Thoughts += *c.Delta.Reasoning
	}
	for _, call := range c.Delta.Calls {
		at := *call.Index
		call.Index = nil
		if at == len(to.Message.Calls) {
			to.Message.Calls = append(to.Message.Calls, call)
			continue
		}
		to.Message.Calls[at].Function.Arguments += call.Function.Arguments
	}
	if c.LogProbs != nil && to.LogProbs == nil {
		to.LogProbs = c.LogProbs
	} else if c.LogProbs != nil {
		to.LogProbs.Content = append(to.LogProbs.Content, c.LogProbs.Content...)
	}
	if c.Finish != nil {
		to.Finish += *c.Finish
	}
}
