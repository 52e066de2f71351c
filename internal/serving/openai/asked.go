package openai

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"

	"github.com/seed-7879b91d/grpo/data/chat/calls"
	"github.com/seed-7879b91d/grpo/internal/serving/body"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Limits of a request.
const (
	mostStops      = 16
	longestStop    = 1024 // bytes
	mostChoices    = 1024
	mostMessages   = 4096
	mostPrompts    = 1024
	mostTools      = 512
	mostTop        = 20
	mostLikely     = 1 << 20 // log-probabilities in an answer
	usualMaxTokens = 16      // the default of /v1/completions, as OpenAI has it
)

// samplingFields has the sampling parameters that both kinds of requests have in common.
type samplingFields struct {
	n       int
	seed    uint64
	params  sampler.Params
	stops   []string
	stream  bool
	usage   bool
	endless bool // no stop tokens
	none    bool // max_tokens is 0: only the prompt is scored
}

// samplingFields reads these parameters; max_tokens may not be below fewest. MaxTokens stays 0 if the request does not say it.
func (s *Server) drawing(f *fields, p *Policy, fewest int) (d samplingFields, err error) {
	d = samplingFields{n: 1, params: sampler.Params{Temperature: 1, TopP: 1}}
	f.count("n", &d.n, 1, s.maxN)
	f.temperature(&d.params.Temperature)
	f.number("top_p", &d.params.TopP, 0, 1)
	f.number("min_p", &d.params.MinP, 0, 1)
	if raw := f.all["top_k"]; raw != nil && same("-1", string(raw)) { // vLLM's way to say that there is no limit
		f.take("top_k")
	}
	f.count("top_k", &d.params.TopK, 0, math.MaxInt32)
	said := f.count("max_tokens", &d.params.MaxTokens, fewest, math.MaxInt32)
	f.count("max_completion_tokens", &d.params.MaxTokens, 1, math.MaxInt32)
	d.none = said && d.params.MaxTokens == 0
	value(f, "stream", &d.stream, "true or false")
	value(f, "ignore_eos", &d.endless, "true or false")
	d.stops = f.stops()
	var o struct {
		Usage       bool `json:"include_usage"`
		Obfuscation bool `json:"include_obfuscation"`
	}
	if exact(f, "stream_options", &o, `an object such as {"include_usage": true}`) && !d.stream {
		f.wrong("stream_options", "found without \"stream\": true")
	}
	d.usage = o.Usage
	if d.params.TopP == 0 {
		d.params.TopP = math.SmallestNonzeroFloat32 // greedy: to the sampler, 0 means no limit
	}
	d.seed = f.seed()
	if !d.endless {
		d.params.StopTokens = p.Language.Stops
	}
	return d, f.err
}

// temperature reads the temperature.
func (f *fields) temperature(to *float32) {
	raw, _ := f.take("temperature")
	t, err := body.Temperature(raw)
	if err != nil && f.err == nil {
		f.err = err
	}
	*to = t
}

// seed reads the seed; without one it is random.
func (f *fields) seed() uint64 {
	var seed int64
	if f.whole("seed", &seed) {
		return uint64(seed)
	}
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// stops reads the stop strings: one text or several.
func (f *fields) stops() (stops []string) {
	raw, ok := f.take("stop")
	if !ok {
		return nil
	}
	add := func(_ int, part json.RawMessage) error {
		var text string
		if json.Unmarshal(part, &text) != nil || text == "" || len(text) > longestStop {
			return refusal.Errorf(http.StatusBadRequest, "found %s, expected a text of 1 to %d bytes; null, [] and \"\" mean none",
				brief(part), longestStop)
		}
		stops = append(stops, text)
		return nil
	}
	err := error(nil)
	if raw[0] == '"' {
		if string(raw) != `""` { // some clients write none like this
			err = add(0, raw)
		}
	} else if raw[0] == '[' {
		err = each(raw, mostStops, add)
	} else {
		err = refusal.Errorf(http.StatusBadRequest, "found %s, expected a text or a list of texts", brief(raw))
	}
	if err != nil {
		f.wrong("stop", "%v", err)
	}
	return stops
}

// room returns how many tokens a completion may have, and refuses a prompt that leaves too little room.
func (d *samplingFields) room(p *Policy, prompt []int32, usual int) (maxTokens int, err error) {
	left := p.MaxLength - len(prompt)
	maxTokens = d.params.MaxTokens
	if maxTokens == 0 && !d.none {
		maxTokens = min(max(left, 1), usual)
	}
	if maxTokens > left {
		return 0, &refusal.Error{Status: http.StatusBadRequest, Code: "context_length_exceeded", Message: fmt.Sprintf(
			"a prompt of %d tokens and a completion of %d exceed the maximum context length of %d tokens of %s; shorten the prompt, or lower "+
				"max_tokens",
			len(prompt), maxTokens, p.MaxLength, p.Name)}
	}
	return maxTokens, nil
}

// request is the request for one prompt. place, the prompt's index, selects its random numbers.
func (d *samplingFields) request(place int, prompt []int32, maxTokens int, watch func() func(int32) bool) sampler.Request {
	params := d.params
	params.MaxTokens, params.Watch = maxTokens, watch
	return sampler.Request{Prompt: prompt, N: d.n, Key: sampler.Key{Seed: d.seed, Problem: place}, Params: params}
}

// watch stops a completion at a stop string, or with once after a call; nil if there is neither.
func (d *samplingFields) watch(open func() *choice, once bool) func() func(int32) bool {
	if len(d.stops) == 0 && !once {
		return nil
	}
	return func() func(int32) bool {
		c := open()
		return func(token int32) bool {
			c.token(sampler.Token{ID: token})
			c.pending = nil
			return c.speech.stopped || once && c.reader.Made() > 0
		}
	}
}

// name makes an ID from the seed, the prompt and parts, so that equal requests get equal IDs, streamed or not.
func (d *samplingFields) name(prefix string, prompt []int32, parts ...int) string {
	h := sha256.New()
	binary.Write(h, binary.LittleEndian, d.seed)
	binary.Write(h, binary.LittleEndian, prompt)
	for _, p := range parts {
		binary.Write(h, binary.LittleEndian, int64(p))
	}
	return prefix + hex.EncodeToString(h.Sum(nil)[:12])
}

// callName is the ID of a call.
func (d *samplingFields) callName(n calls.Notation, prompt []int32, choice, call int) string {
	if n.List {
		return d.name("", prompt, choice, call)[:9] // Mistral's templates accept only nine characters
	}
	return d.name("call_", prompt, choice, call)
}

// newID is a random ID.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }
