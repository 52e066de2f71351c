// Package clients tests the server with the official Go client of OpenAI's API; npm/ does so with the one for Node.js. It is a module of
// its own, so that others do not depend on that client. `make clients` starts a server and runs both.
package clients

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"
	"github.com/stretchr/testify/require"
)

// client is a client of the server named by the environment.
func client(t *testing.T, more ...option.RequestOption) openai.Client {
	t.Helper()
	url, key := os.Getenv("OPENAI_BASE_URL"), os.Getenv("OPENAI_API_KEY")
	require.NotEmpty(t, url, "type make clients")
	usual := []option.RequestOption{option.WithBaseURL(url), option.WithAPIKey(key), option.WithMaxRetries(0)}
	return openai.NewClient(append(usual, more...)...)
}

func question(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: "tiny", Seed: openai.Int(7), MaxCompletionTokens: openai.Int(40),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)},
	}
}

const add8 = "Define compute(x), which takes an integer x and returns x plus 8.\nAnswer with Python code in a ```python block."

func TestModels(t *testing.T) {
	c := client(t)
	list, err := c.Models.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, "tiny", list.Data[0].ID)
	one, err := c.Models.Get(t.Context(), "tiny")
	require.NoError(t, err)
	require.Equal(t, "tiny", one.ID)
}

// A joined stream is the whole answer, and the same seed gives the same answer.
func TestChat(t *testing.T) {
	c := client(t)
	asked := question(add8)
	asked.Temperature = openai.Float(0)
	whole, err := c.Chat.Completions.New(t.Context(), asked)
	require.NoError(t, err)
	require.Contains(t, whole.Choices[0].Message.Content, "def compute(x)")
	require.Equal(t, whole.Usage.PromptTokens+whole.Usage.CompletionTokens, whole.Usage.TotalTokens)

	asked = question(add8)
	asked.N = openai.Int(2)
	asked.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := c.Chat.Completions.NewStreaming(t.Context(), asked)
	var all openai.ChatCompletionAccumulator
	for stream.Next() {
		require.True(t, all.AddChunk(stream.Current()))
	}
	require.NoError(t, stream.Err())
	asked.StreamOptions = openai.ChatCompletionStreamOptionsParam{}
	whole, err = c.Chat.Completions.New(t.Context(), asked)
	require.NoError(t, err)
	require.Len(t, all.Choices, 2)
	for i, choice := range whole.Choices {
		require.Equal(t, choice.Message.Content, all.Choices[i].Message.Content)
		require.Equal(t, choice.FinishReason, all.Choices[i].FinishReason)
	}
	require.Equal(t, whole.Usage.TotalTokens, all.Usage.TotalTokens)
	require.NotEqual(t, whole.Choices[0].Message.Content, whole.Choices[1].Message.Content)
}

func TestStop(t *testing.T) {
	asked := question(add8)
	asked.Temperature = openai.Float(0)
	asked.Stop = openai.ChatCompletionNewParamsStopUnion{OfStringArray: []string{"compute"}}
	c := client(t)
	whole, err := c.Chat.Completions.New(t.Context(), asked)
	require.NoError(t, err)
	require.Equal(t, "```python\ndef ", whole.Choices[0].Message.Content)
	require.Equal(t, "stop", whole.Choices[0].FinishReason)
}

func TestTools(t *testing.T) {
	asked := question("What is the weather in Paris?")
	asked.MaxCompletionTokens = openai.Int(200)
	asked.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: "weather", Parameters: shared.FunctionParameters{
			"type": "object", "additionalProperties": false, "required": []string{"unit"},
			"properties": map[string]any{"unit": map[string]any{"enum": []string{"celsius", "kelvin"}}},
		},
	})}
	asked.ToolChoice = openai.ToolChoiceOptionFunctionToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: "weather"})
	c := client(t)
	whole, err := c.Chat.Completions.New(t.Context(), asked)
	require.NoError(t, err)
	message := whole.Choices[0].Message
	require.Len(t, message.ToolCalls, 1)
	require.Equal(t, "weather", message.ToolCalls[0].Function.Name)
	require.Equal(t, "tool_calls", whole.Choices[0].FinishReason)
	var arguments struct{ Unit string }
	require.NoError(t, json.Unmarshal([]byte(message.ToolCalls[0].Function.Arguments), &arguments))
	require.Contains(t, []string{"celsius", "kelvin"}, arguments.Unit)

	stream := c.Chat.Completions.NewStreaming(t.Context(), asked)
	var all openai.ChatCompletionAccumulator
	for stream.Next() {
		require.True(t, all.AddChunk(stream.Current()))
	}
	require.NoError(t, stream.Err())
	require.Equal(t, message.ToolCalls[0].ID, all.Choices[0].Message.ToolCalls[0].ID)
	require.Equal(t, message.ToolCalls[0].Function.Arguments, all.Choices[0].Message.ToolCalls[0].Function.Arguments)

	// The conversation continues with the result of the tool.
	asked.Messages = append(asked.Messages, message.ToParam(), openai.ToolMessage("18", message.ToolCalls[0].ID))
	asked.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: param.NewOpt("none")}
	_, err = c.Chat.Completions.New(t.Context(), asked)
	require.NoError(t, err)
}

func TestLogProbs(t *testing.T) {
	asked := question(add8)
	asked.Logprobs, asked.TopLogprobs = openai.Bool(true), openai.Int(5)
	c := client(t)
	whole, err := c.Chat.Completions.New(t.Context(), asked)
	require.NoError(t, err)
	var text []byte
	for _, token := range whole.Choices[0].Logprobs.Content {
		require.LessOrEqual(t, token.Logprob, 0.0)
		require.Len(t, token.TopLogprobs, 5)
		require.GreaterOrEqual(t, token.TopLogprobs[0].Logprob, token.Logprob)
		for _, b := range token.Bytes {
			text = append(text, byte(b))
		}
	}
	require.Equal(t, whole.Choices[0].Message.Content, strings.ToValidUTF8(string(text), "\uFFFD"))
}

func TestSchema(t *testing.T) {
	asked := question("A person, please.")
	asked.MaxCompletionTokens = openai.Int(300)
	asked.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
		Name: "person", Strict: openai.Bool(true), Schema: map[string]any{
			"type": "object", "additionalProperties": false, "required": []string{"age", "kind"},
			"properties": map[string]any{
				"age": map[string]any{"type": "integer", "minimum": 0, "maximum": 150}, "kind": map[string]any{"enum": []string{"a", "b"}},
			},
		},
	}}
	c := client(t)
	whole, err := c.Chat.Completions.New(t.Context(), asked)
	require.NoError(t, err)
	var person struct {
		Age  *int
		Kind string
	}
	require.NoError(t, json.Unmarshal([]byte(whole.Choices[0].Message.Content), &person))
	require.LessOrEqual(t, *person.Age, 150)
	require.Contains(t, []string{"a", "b"}, person.Kind)
}

// If a client cancels, drawing stops, and others are answered.
func TestCancel(t *testing.T) {
	asked := question(add8)
	asked.MaxCompletionTokens = openai.Int(1500)
	ctx, cancel := context.WithCancel(t.Context())
	c := client(t)
	stream := c.Chat.Completions.NewStreaming(ctx, asked, option.WithJSONSet("ignore_eos", true))
	require.True(t, stream.Next())
	cancel()
	for stream.Next() {
	}
	require.ErrorIs(t, stream.Err(), context.Canceled)
	alone := func() bool { return strings.Contains(metrics(t), "grpo_http_active_requests 1\n") } // the request of metrics is one
	require.Eventually(t, alone, 10*time.Second, 10*time.Millisecond)
}

func metrics(t *testing.T) string {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(os.Getenv("OPENAI_BASE_URL"), "/v1")+"/metrics", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+os.Getenv("OPENAI_API_KEY"))
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	var text strings.Builder
	require.NoError(t, res.Write(&text))
	return text.String()
}

func TestErrors(t *testing.T) {
	for status, change := range map[int]func(*openai.ChatCompletionNewParams) []option.RequestOption{
		http.StatusBadRequest: func(p *openai.ChatCompletionNewParams) []option.RequestOption {
			p.Temperature = openai.Float(-1)
			return nil
		},
		http.StatusNotFound: func(p *openai.ChatCompletionNewParams) []option.RequestOption {
			p.Model = "other"
			return nil
		},
		http.StatusUnauthorized: func(*openai.ChatCompletionNewParams) []option.RequestOption {
			return []option.RequestOption{option.WithAPIKey("sk-wrong")}
		},
		http.StatusRequestEntityTooLarge: func(p *openai.ChatCompletionNewParams) []option.RequestOption {
			p.Messages = []openai.ChatCompletionMessageParamUnion{openai.UserMessage(strings.Repeat("a", 5<<20))}
			return nil
		},
	} {
		asked := question("hi")
		c := client(t, change(&asked)...)
		_, err := c.Chat.Completions.New(t.Context(), asked)
		var refused *openai.Error
		require.True(t, errors.As(err, &refused), "%v", err)
		require.Equal(t, status, refused.StatusCode)
		require.NotEmpty(t, refused.Message)
	}
}

func TestText(t *testing.T) {
	c := client(t)
	whole, err := c.Completions.New(t.Context(), openai.CompletionNewParams{
		Model: "tiny", Seed: openai.Int(1), Echo: openai.Bool(true), Logprobs: openai.Int(2), MaxTokens: openai.Int(5),
		Prompt: openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{"def f(x):", "import"}},
	})
	require.NoError(t, err)
	require.Len(t, whole.Choices, 2)
	for i, prompt := range []string{"def f(x):", "import"} {
		require.True(t, strings.HasPrefix(whole.Choices[i].Text, prompt))
		require.Len(t, whole.Choices[i].Logprobs.TokenLogprobs, len(whole.Choices[i].Logprobs.Tokens))
	}
	_, err = c.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: "tiny", Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("a")},
	})
	var refused *openai.Error
	require.True(t, errors.As(err, &refused))
	require.Contains(t, refused.Message, "generate text, not embeddings")
}
