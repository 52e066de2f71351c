// Package openai serves policies to clients of OpenAI's API: chat, completions, models. It knows JSON, text and tokens,
// and how models write thoughts and calls of tools. It does not know who may ask, or how much (package gate), or where
// policies come from (package serving).
//
// # From a request to an answer
//
//	fields      the body; fields that are not read are refused if they would change the answer
//	job         what to sample, from which policy, and how to write the answer
//	mailbox     passes tokens from the sampling goroutine to the one that writes
//	choice      one completion: speech turns tokens into text without partial characters and stop strings, and
//	            a reader separates thoughts, content and calls
//	form        writes the answer, as a whole or as a stream
//
// Both take the same path, so the lines of a stream join to the same text.
package openai

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/internal/serving/body"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// Options of a server.
type Options struct {
	MaxN int // completions per prompt at most; 0: 128
	// OnAnswer is called after each complete answer, OnUsage with the tokens of each request as soon as its sampling ends.
	OnAnswer func(Latency)
	OnUsage  func(TokenUsage)
	// Now is the time for answers; nil: the clock's.
	Now func() time.Time
	// ClientID identifies who sent a request, for fair scheduling (sampler.Request.From) and for taking turns with large bodies.
	// nil: all are the same.
	ClientID func(context.Context) string
	// OtherRoutes lists routes of other handlers on the same server, such as POST /v1/sessions, for the message about an unknown path.
	OtherRoutes []string
	// Methods are those that other handlers on the same server have for a path; nil: none.
	Methods func(*http.Request) []string
	// OnError is called with every request that is refused.
	OnError func(r *http.Request, err error)
}

// Latency is the latency of an answer.
type Latency struct {
	Model        string
	First, Whole time.Duration
}

// TokenUsage counts tokens: of a prompt, of those the ones from the prefix cache, and of its completions.
type TokenUsage struct {
	Model                      string
	Prompt, Cached, Completion int
}

// Server is the handler of the API.
type Server struct {
	host    Host
	mux     *http.ServeMux
	maxN    int
	watch   func(Latency)
	from    func(context.Context) string
	drew    func(TokenUsage)
	turns   *body.Turns
	refused func(r *http.Request, err error)
	now     func() time.Time
}

// errStopping is the cause of contexts that end because the server stops.
var errStopping error = &refusal.Error{Status: http.StatusServiceUnavailable, Message: "the server is stopping", After: time.Second}

// ShutdownCause is the cause to end the contexts of requests with when the server stops.
func ShutdownCause() error { return errStopping }

// New makes a server of the policies of a host.
func New(host Host, o Options) *Server {
	s := &Server{host: host, mux: http.NewServeMux(), maxN: o.MaxN, watch: o.OnAnswer, drew: o.OnUsage, from: o.ClientID,
		turns: body.NewTurns(), refused: o.OnError, now: o.Now}
	if s.maxN == 0 {
		s.maxN = 128
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.from == nil {
		s.from = func(context.Context) string { return "" }
	}
	s.handle("GET /v1/models", s.models)
	s.handle("GET /v1/models/{id...}", s.model)
	s.handle("POST /v1/chat/completions", s.drawn(s.chatJob))
	s.handle("POST /v1/completions", s.drawn(s.textJob))
	s.mux.HandleFunc("/v1/embeddings", func(w http.ResponseWriter, _ *http.Request) {
		refusal.Write(w, refusal.Errorf(http.StatusNotFound, "/v1/embeddings: the models here generate text, not embeddings"))
	})
	s.mux.HandleFunc("/", s.unknown(o))
	return s
}

// unknown answers paths and methods that do not exist.
func (s *Server) unknown(o Options) http.HandlerFunc {
	there := strings.Join(append([]string{"GET /v1/models", "POST /v1/chat/completions", "POST /v1/completions"}, o.OtherRoutes...), ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		methods := refusal.Methods(s.mux, r, "/")
		if o.Methods != nil {
			methods = append(methods, o.Methods(r)...)
		}
		if err := refusal.MethodError(w, r, methods); err != nil {
			refusal.Write(w, err)
			return
		}
		refusal.Write(w, refusal.Errorf(http.StatusNotFound, "%s %.200s is not served here; there are: %s", r.Method, r.URL.Path, there))
	}
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// handle adds a route. An error of fn is sent as the answer, unless an answer has begun.
func (s *Server) handle(pattern string, fn func(w http.ResponseWriter, r *http.Request) error) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		err := fn(w, r)
		if err == nil {
			return
		}
		if s.refused != nil {
			s.refused(r, err)
		}
		var late *lateError
		if !errors.As(err, &late) {
			refusal.Write(w, err)
		}
	})
}

// drawn handles requests that sample; read parses them.
func (s *Server) drawn(read func(*fields, *Policy) (*job, error)) func(w http.ResponseWriter, r *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if packing := r.Header.Get("Content-Encoding"); packing != "" && packing != "identity" {
			return refusal.Errorf(http.StatusUnsupportedMediaType, "Content-Encoding: found %.40q, expected none", packing)
		}
		text, err := readBody(r.Body)
		if err != nil {
			return err
		}
		j, err := s.understand(r, text, read)
		if err != nil {
			return err
		}
		from, job := "", newID("job-")
		if s.from != nil {
			from = s.from(r.Context())
		}
		for i := range j.requests {
			j.requests[i].From, j.requests[i].Job = from, job
		}
		return s.answer(w, r, j)
	}
}

// understand parses a body into a job. Large bodies take turns.
func (s *Server) understand(r *http.Request, text []byte, read func(*fields, *Policy) (*job, error)) (*job, error) {
	if len(text) > body.LargeSize {
		leave, err := s.turns.Take(r.Context(), s.from(r.Context()))
		if err != nil {
			return nil, whyEnded(r.Context())
		}
		defer leave()
	}
	f, err := readFields(text)
	if err != nil {
		return nil, err
	}
	p, err := s.named(f)
	if err != nil {
		return nil, err
	}
	j, err := read(f, p)
	if err != nil {
		return nil, err
	}
	return j, j.checkLogProbs()
}

// card describes a model in the list of models.
type card struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Owner   string `json:"owned_by"`
	Root    string `json:"root"`             // as vLLM has it
	Parent  string `json:"parent,omitempty"` // of an adapter: its model
	Length  int    `json:"max_model_len"`
}

func cardOf(p *Policy) card {
	c := card{ID: p.Name, Object: "model", Created: p.Created.Unix(), Owner: "grpo", Root: p.Base, Length: p.MaxLength}
	if p.Base != p.Name {
		c.Parent = p.Base
	}
	return c
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) error {
	list := []card{}
	for _, p := range s.host.Policies() {
		list = append(list, cardOf(p))
	}
	return writeJSON(w, map[string]any{"object": "list", "data": list})
}

func (s *Server) model(w http.ResponseWriter, r *http.Request) error {
	p, err := s.find(r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, cardOf(p))
}

// longestName is the longest name of a model, and how much an error quotes of an unknown one.
const longestName = 200

// find returns the policy of that name.
func (s *Server) find(name string) (*Policy, error) {
	p, err := s.host.Find(refusal.Truncate(name, longestName))
	if err != nil {
		return nil, &refusal.Error{Status: http.StatusNotFound, Param: "model", Code: "model_not_found", Message: err.Error()}
	}
	return p, nil
}

// named reads which model a request is for.
func (s *Server) named(f *fields) (*Policy, error) {
	name := ""
	if !value(f, "model", &name, "the name of a model") {
		f.wrong("model", "missing, expected one of GET /v1/models")
	}
	if f.err != nil {
		return nil, f.err
	}
	return s.find(name)
}
