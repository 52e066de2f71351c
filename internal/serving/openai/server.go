// Package openai serves policies to clients of OpenAI's API: chat, completions, models. It knows JSON, text and tokens,
// and how models write thoughts and calls of tools. It does not know who may ask, or how much (package gate), or where
// policies come from (package serving).
//
// # From a request to an answer
//
//	fields      the body, of which nothing may be left over that would change the answer
//	job         what is to be drawn, of which policy, and how the answer is written
//	mailbox     tokens, from the goroutine that draws them to the one that writes them
//	choice      one completion: tokens become speech, which shows no half characters and no stop strings, and
//	            a reader tells thoughts, content and calls in it apart
//	form        what came is written, as a whole or line by line
//
// Both ways of writing take the same steps for the same tokens, so a stream joins to what the whole would have been.
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
	MaxN int // completions of each prompt of a request; 0: 128
	// Watch hears of every answer that was given in full, Drawn of what was drawn for any, as soon as that ends.
	Watch func(Served)
	Drawn func(Drawn)
	// Now is the time that answers bear; nil: the clock's.
	Now func() time.Time
	// From is who sent a request, by its context, as sampler.Request has it: they take turns, with large bodies too. nil: all
	// are one.
	From func(context.Context) string
	// Beside are calls that others answer on the same server, such as POST /v1/sessions. What is not served is told of them.
	Beside []string
	// Methods are those that others answer a path with on the same server; nil: nobody else does.
	Methods func(*http.Request) []string
	// Refused hears of every request that was not answered.
	Refused func(r *http.Request, err error)
}

// Served is how long an answer took.
type Served struct {
	Model        string
	First, Whole time.Duration
}

// Drawn are the tokens of a prompt, of those the ones that were found in the cache, and of its completions.
type Drawn struct {
	Model                      string
	Prompt, Cached, Completion int
}

// Server answers.
type Server struct {
	host    Host
	mux     *http.ServeMux
	maxN    int
	watch   func(Served)
	from    func(context.Context) string
	drew    func(Drawn)
	turns   *body.Turns
	refused func(r *http.Request, err error)
	now     func() time.Time
}

// errStopping is the cause of a context that ends because the server stops.
var errStopping error = &refusal.Error{Status: http.StatusServiceUnavailable, Message: "the server is stopping", After: time.Second}

// Stopping is what ends the contexts of requests when the server stops, as their cause.
func Stopping() error { return errStopping }

// New makes a server of the policies of a host.
func New(host Host, o Options) *Server {
	s := &Server{host: host, mux: http.NewServeMux(), maxN: o.MaxN, watch: o.Watch, drew: o.Drawn, from: o.From, turns: body.NewTurns(),
		refused: o.Refused, now: o.Now}
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
		refusal.Write(w, refusal.Errorf(http.StatusNotFound, "/v1/embeddings: the models here write text, and give no embeddings"))
	})
	s.mux.HandleFunc("/", s.unknown(o))
	return s
}

// unknown answers where nothing is, or not with that method.
func (s *Server) unknown(o Options) http.HandlerFunc {
	there := strings.Join(append([]string{"GET /v1/models", "POST /v1/chat/completions", "POST /v1/completions"}, o.Beside...), ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		methods := refusal.Methods(s.mux, r, "/")
		if o.Methods != nil {
			methods = append(methods, o.Methods(r)...)
		}
		if err := refusal.Method(w, r, methods); err != nil {
			refusal.Write(w, err)
			return
		}
		refusal.Write(w, refusal.Errorf(http.StatusNotFound, "%s %.200s is not served here; there are: %s", r.Method, r.URL.Path, there))
	}
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// handle answers a path; an error of fn is the answer, unless one was begun.
func (s *Server) handle(pattern string, fn func(w http.ResponseWriter, r *http.Request) error) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		err := fn(w, r)
		if err == nil {
			return
		}
		if s.refused != nil {
			s.refused(r, err)
		}
		var late *afterwards
		if !errors.As(err, &late) {
			refusal.Write(w, err)
		}
	})
}

// drawn answers what is drawn for the body of a request, of which read says what it asks for.
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

// understand makes a job of a body, by turns where that is large.
func (s *Server) understand(r *http.Request, text []byte, read func(*fields, *Policy) (*job, error)) (*job, error) {
	if len(text) > body.Large {
		leave, err := s.turns.Take(r.Context(), s.from(r.Context()))
		if err != nil {
			return nil, left(r.Context())
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
	return j, j.bearable()
}

// card is a model as a list of them shows it.
type card struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Owner   string `json:"owned_by"`
	Root    string `json:"root"`             // as vLLM has it
	Parent  string `json:"parent,omitempty"` // what an adapter is over
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

// longestName is as long as that of a model can be, and what an error quotes of one that is not there.
const longestName = 200

// find is the policy of a name.
func (s *Server) find(name string) (*Policy, error) {
	p, err := s.host.Find(refusal.Short(name, longestName))
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
