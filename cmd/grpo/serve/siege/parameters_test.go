package siege

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// parameterAttacks are attacks by valid JSON with hostile parameters.
var parameterAttacks = []attack{
	{name: "schemas and patterns that cost much", do: schemas, memory: 600, cpu: 60 * time.Second},
	{name: "200 sets of variables for the template", do: variables, cpu: 20 * time.Second},
	{name: "answers as long as can be: n, log-probabilities, prompts", do: longAnswers, memory: 700, cpu: 120 * time.Second},
	{name: "16 stop texts of 1,000 letters that nearly match, 8 times", do: stops, cpu: 60 * time.Second},
	{name: "conversations for a template to work at: 4,096 messages, 512 calls, 512 tools", do: conversations, memory: 400,
		cpu: 60 * time.Second},
}

// document requests an answer that fits a schema.
func document(schema string) string {
	return chat(`"response_format":{"type":"json_schema","json_schema":{"schema":` + schema + `}}`)
}

func schemas(c *target) string {
	var got tally
	for _, schema := range []string{
		`{"pattern":"(a|b)*a(a|b){20}"}`, `{"pattern":"((a{0,100}){0,100}){0,100}"}`, `{"pattern":"(a+)+$"}`, `{"pattern":"(a|a)*b\\1"}`,
		`{"pattern":"` + strings.Repeat(`[\\pL\\pN]?`, 200) + `"}`, `{"pattern":"` + strings.Repeat("(", 1<<16) + `"}`,
		`{"pattern":"` + strings.Repeat("a?", 1<<18) + `"}`, `{"enum":[` + strings.Repeat(`"abcdefghijklmnopqrstuvwxyz",`, 100000) + `1]}`,
		`{"items":{"items":{"items":{"maxItems":4096},"minItems":4096},"minItems":4096},"minItems":4096}`,
		`{"allOf":[` + strings.Repeat(`{"anyOf":[{"minimum":1},{"maximum":2},{"minLength":3}]},`, 20) + `{}]}`,
		`{"anyOf":[` + strings.Repeat(`{"pattern":"\\pL{100}\\d{100}[^x]{50}"},`, 200) + `{}]}`,
		`{"const":"` + strings.Repeat("a", 3<<20) + `"}`, `{"minimum":1e-60,"maximum":1e60,"multipleOf":1000,"type":"integer"}`,
		`{"$ref":"#"}`, `{"$ref":"http://evil/x"}`, `{"$ref":"file:///etc/passwd"}`, `{"minLength":1e18}`, `{"minItems":2147483647}`,
		`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`,
	} {
		for range 3 {
			began := time.Now()
			status, text := c.post(chats, document(schema))
			require.Contains(c.t, []int{200, 400}, status, "%.80s: %.300s", schema, text)
			require.NotContains(c.t, text, "root:")
			require.Less(c.t, time.Since(began), 20*time.Second, "%.80s", schema)
			got.add(status)
		}
	}
	for i := range 40 { // different ones each time, since only a few are cached
		status, _ := c.post(chats, document(fmt.Sprintf(`{"pattern":"[a-z]{%d}(a|b)*a(a|b){9}","maxLength":%d}`, i, 100+i)))
		got.add(status)
	}
	return got.String()
}

func variables(c *target) string {
	var got tally
	for i := range 200 {
		status, text := c.post(chats, chat(fmt.Sprintf(`"chat_template_kwargs":{"a":"%s%d"}`, strings.Repeat("x", 15000), i)))
		require.Contains(c.t, []int{200, 400}, status, text)
		got.add(status)
	}
	return got.String()
}

func longAnswers(c *target) string {
	var got tally
	got.add(statusOf(c.post(chats, `{"model":"tiny","n":128,"max_tokens":2000,"ignore_eos":true,"logprobs":true,"top_logprobs":20,`+
		`"messages":[{"role":"user","content":"a"}]}`)))
	prompt := "[1" + strings.Repeat(",5", 1900) + "]"
	got.add(statusOf(c.post(texts, `{"model":"tiny","max_tokens":0,"echo":true,"logprobs":20,"prompt":[`+prompt+strings.Repeat(","+
		prompt, 900)+`]}`)))
	got.add(statusOf(c.post(texts, `{"model":"tiny","max_tokens":0,"echo":true,"logprobs":20,"prompt":[`+prompt+strings.Repeat(","+
		prompt, 15)+`]}`)))
	return got.String()
}

func statusOf(status int, _ string) int { return status }

func stops(c *target) string {
	var got tally
	var list []string
	for i := range 16 {
		list = append(list, fmt.Sprintf("%q", strings.Repeat("a", 1000+i)+"b"))
	}
	c.flood(8, &got, texts, `{"model":"tiny","prompt":"a","max_tokens":1000,"ignore_eos":true,"n":8,"stop":[`+strings.Join(list, ",")+`]}`)
	return got.String()
}

func conversations(c *target) string {
	var got tally
	rng := rand.New(rand.NewPCG(1, 2))
	call := `{"function":{"name":"f","arguments":{"a":"` + strings.Repeat("x", 100) + `"}}}`
	var tools []string
	for i := range 512 {
		tools = append(tools, fmt.Sprintf(`{"type":"function","function":{"name":"f%d_%d"}}`, i, rng.IntN(9)))
	}
	for _, body := range []string{
		`{"model":"tiny","messages":[{"role":"user","content":"a"}` + strings.Repeat(`,{"role":"assistant","content":"<think>a</think>"}`,
			4095) + `]}`,
		`{"model":"tiny","messages":[{"role":"user","content":"a"}` + strings.Repeat(`,{"role":"tool","content":"<tool_call>"}`, 4095) + `]}`,
		`{"model":"tiny","messages":[{"role":"assistant","tool_calls":[` + strings.Repeat(call+",", 511) + call + `]}]}`,
		chat(`"tool_choice":"required","tools":[` + strings.Join(tools, ",") + `]`),
	} {
		c.flood(16, &got, chats, body)
	}
	return got.String()
}
