package siege

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// bodyAttacks are attacks by request bodies, of valid or invalid content.
var bodyAttacks = []attack{
	{name: "bodies of 1 GB, with a length, in chunks, without a length, at both protocols", do: gigabytes, memory: 256},
	{name: "8 bodies of 1 GB in chunks at a time, no key", do: uninvited},
	{name: "bodies that unpack to 1 GB (gzip, zstd)", do: packed, memory: 256},
	{name: "JSON that is none: nested, cut, not UTF-8, NUL, half surrogates, huge numbers", quick: true, do: malformed},
	{name: "32 times 4 MB of fields, of messages, of arguments, of variables", do: fields, memory: 600, cpu: 30 * time.Second},
	{name: "32 times 4 MB of text that is one word, of token ids", do: words, memory: 600, cpu: 60 * time.Second},
}

// repeatedBytes is a body of `left` equal bytes.
type repeatedBytes struct {
	left int64
	of   byte
}

func (z *repeatedBytes) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), z.left))
	for i := range p[:n] {
		p[i] = z.of
	}
	z.left -= int64(n)
	return n, nil
}

func gigabytes(c *target) string {
	var got tally
	for _, path := range []string{chats, texts, "/api/v1/forward_backward", "/api/v1/asample", "/api/v1/create_session",
		"/api/v1/telemetry"} {
		length := &repeatedBytes{1 << 30, ' '}
		conn := c.dial()
		head := "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + c.mallory + "\r\n"
		fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n", head, length.left)
		go io.Copy(conn, length)
		got.add(firstOrClosed(c.answers(conn, 10*time.Second)))
		conn.Close()
		status, _ := c.ask("POST", path, c.mallory, &repeatedBytes{1 << 30, ' '}) // chunked
		got.add(status)
	}
	list := c.raw("POST "+texts+" HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer "+c.mallory+"\r\n\r\n"+strings.Repeat(" ",
		1<<20), &got)
	require.Equal(c.t, 400, firstOrClosed(list))
	return got.String()
}

func firstOrClosed(list []int) any {
	if len(list) == 0 {
		return "closed"
	}
	return list[0]
}

func uninvited(c *target) string {
	var all sync.WaitGroup
	var got tally
	for range 8 {
		all.Go(func() {
			status, _ := c.ask("POST", texts, "", &repeatedBytes{1 << 30, ' '})
			got.add(status)
		})
	}
	all.Wait()
	return got.String()
}

func packed(c *target) string {
	var zipped, small bytes.Buffer
	g := gzip.NewWriter(&zipped)
	io.Copy(g, &repeatedBytes{1 << 30, ' '})
	g.Close()
	z, err := zstd.NewWriter(&small, zstd.WithWindowSize(64<<20))
	require.NoError(c.t, err)
	io.Copy(z, &repeatedBytes{1 << 30, ' '})
	z.Close()
	var got tally
	for _, path := range []string{chats, "/api/v1/optim_step"} {
		status, text := c.ask("POST", path, c.mallory, bytes.NewReader(zipped.Bytes()), "Content-Encoding", "gzip")
		got.add(status)
		require.Contains(c.t, text, "Content-Encoding", path)
	}
	for range 8 {
		status, _ := c.ask("POST", "/api/v1/optim_step", c.mallory, bytes.NewReader(small.Bytes()), "Content-Encoding", "zstd")
		got.add(status)
	}
	return got.String()
}

// chat is a chat request with additional fields.
func chat(more string) string {
	return `{"model":"tiny","max_tokens":1,"messages":[{"role":"user","content":"a"}],` + more + `}`
}

func malformed(c *target) string {
	var got tally
	for _, body := range []string{
		"", "null", "[]", "{", `{"a":}`, `{"model":"tiny"`, "\xef\xbb\xbf{}", "{}{}", `{"model":"tiny",}`, `{'model':'tiny'}`,
		strings.Repeat("[", 1<<20), strings.Repeat(`{"a":`, 1<<18), chat(`"x":` + strings.Repeat("[", 1<<18) + strings.Repeat("]", 1<<18)),
		chat(`"metadata":` + strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000)),
		chat(`"temperature":1e999`), chat(`"temperature":` + strings.Repeat("9", 1<<20)), chat(`"n":1e400`),
		chat(`"seed":99999999999999999999`),
		chat(`"temperature":NaN`), chat(`"temperature":-0.1`), chat(`"n":-1`), chat(`"n":1.5`), chat(`"n":129`), chat(`"max_tokens":-5`),
		chat(`"max_tokens":1e18`), chat(`"top_logprobs":21,"logprobs":true`), chat(`"top_p":2`), chat(`"top_k":99999999999`),
		chat(`"min_p":-1`),
		chat(`"stop":["` + strings.Repeat("a", 2000) + `"]`), chat(`"stop":[` + strings.Repeat(`"a",`, 5000) + `"a"]`), chat(`"stop":[""]`),
		`{"model":"tiny","prompt":[-1]}`, `{"model":"tiny","prompt":[2147483647]}`, `{"model":"tiny","prompt":[1e30]}`,
		`{"model":"tiny","prompt":[1.5]}`, `{"model":"tiny","prompt":[null]}`, `{"model":"tiny","prompt":[[]]}`,
		`{"model":"tiny","prompt":[[1],[-7]]}`,
		`{"model":"tiny","prompt":"` + "\xff\xfe" + `"}`, `{"model":"tiny` + "\x00" + `","prompt":"a"}`, `{"model":"\ud800","prompt":"a"}`,
		chat(`"tools":[` + strings.Repeat(`{"type":"function","function":{"name":"f"}},`, 10000) + `1]`),
		chat(`"tools":[{"type":"function","function":{"name":"a\nb"}}]`), chat(`"tools":[{"type":"function","function":{"name":""}}]`),
		chat(`"tools":[{"type":"function","function":{"name":"` + strings.Repeat("a", 65) + `"}}]`),
		chat(`"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}]`),
		chat(`"` + strings.Repeat("a", 1<<20) + `":1`), chat(`"user":"\ud800\u0000"`),
		`{"model":"x","model":"tiny","prompt":"a","max_tokens":1,"n":1,"n":2}`,
	} {
		path := chats
		if strings.Contains(body, `"prompt"`) {
			path = texts
		}
		status, text := c.post(path, body)
		require.Contains(c.t, []int{400, 404}, status, "%.80s: %.200s", body, text)
		require.Less(c.t, len(text), 1500, "%.80s", body)
		got.add(status)
	}
	status, text := c.post(texts, `{"model":"tiny","prompt":"\ud83d\ude00\u0000","max_tokens":1}`) // a valid surrogate pair, and NUL
	require.Equal(c.t, 200, status, "%s", text)
	return got.String()
}

// flood sends the same body n times at once.
func (c *target) flood(n int, got *tally, path, body string) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			status, text := c.post(path, body)
			require.NotZero(c.t, status, text)
			if status != 200 && len(text) > 2000 {
				got.add("a long refusal")
			}
			got.add(status)
		})
	}
	all.Wait()
}

// list is a JSON list with as many parts as fit into 4 MB.
func list(open, part, end string) string {
	const most = 4<<20 - 4096
	var b strings.Builder
	b.WriteString(open)
	for i := 0; b.Len() < most; i++ {
		if strings.Contains(part, "%") {
			fmt.Fprintf(&b, part, i)
		} else {
			b.WriteString(part)
		}
	}
	return b.String() + end
}

func fields(c *target) string {
	var got tally
	for _, body := range []string{
		list(`{"model":"tiny","messages":[{"role":"user","content":"a"}]`, `,"%d":1`, `}`),
		list(`{"model":"tiny","messages":[{"role":"user","content":"a"}`, `,{"role":"user","content":""}`, `]}`),
		list(`{"model":"tiny","messages":[{"role":"user","content":"a"`, `,"%d":1`, `}]}`),
		list(`{"model":"tiny","messages":[{"role":"user","content":[{"type":"text","text":"a"}`, `,{"type":"text","text":""}`, `]}]}`),
		list(`{"model":"tiny","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{"a":[1`, `,{}`, `]}}}]}]}`),
		list(strings.TrimSuffix(chat(`"tools":[{"type":"function","function":{"name":"f","parameters":{"enum":[1`), "}"), `,{}`, `]}}}]}`),
		list(`{"model":"tiny","messages":[{"role":"user","content":"a"}],"chat_template_kwargs":{"a":1`, `,"%d":[]`, `}}`),
		list(`{"model":"tiny","messages":[{"role":"user","content":"a"}],"metadata":{"a":1`, `,"%d":{}`, `}}`),
		list(strings.TrimSuffix(chat(`"response_format":{"type":"json_schema","json_schema":{"schema":{"enum":[1`), "}"), `,%d`, `]}}}}`),
	} {
		c.flood(32, &got, chats, body)
	}
	return got.String()
}

func words(c *target) string {
	var got tally
	for _, body := range []string{
		list(`{"model":"tiny","prompt":"`, "a", `"}`),
		list(`{"model":"tiny","prompt":"`, "é\u0301", `"}`),
		list(`{"model":"tiny","prompt":"`, `\u0000`, `"}`),
		list(`{"model":"tiny","prompt":"`, "<|im_start|>", `"}`),
		list(`{"model":"tiny","prompt":[1`, ",5", `]}`),
		list(`{"model":"tiny","prompt":[[1]`, ",[5]", `]}`),
		list(`{"model":"tiny","prompt":["a"`, `,"a"`, `]}`),
	} {
		c.flood(32, &got, texts, body)
	}
	return got.String()
}
