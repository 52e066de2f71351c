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
	"errors"
	"net/http"
	"time"

	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// Options of a server.
type Options struct {
	MaxN int // completions of a request, over all its prompts; 0: 128
	// Watch hears of every answer that was given in full.
	Watch func(Served)
	// Now is the time that answers bear; nil: the clock's.
	Now func() time.Time
	// Refused hears of every request that was not answered.
	Refused func(r *http.Request, err error)
}

// Served is what an answer took.
type Served struct {
	Model                      string
	Prompt, Cached, Completion int // tokens
	First, Whole               time.Duration
}

// Server answers.
type Server struct {
	host    Host
	mux     *http.ServeMux
	maxN    int
	watch   func(Served)
	refused func(r *http.Request, err error)
	now     func() time.Time
}

// errStopping is the cause of a context that ends because the server stops.
var errStopping error = &refusal.Error{Status: http.StatusServiceUnavailable, Message: "the server is stopping", After: time.Second}

// Stopping is what ends the contexts of requests when the server stops, as their cause.
func Stopping() error { return errStopping }

// New makes a server of the policies of a host.
func New(host Host, o Options) *Server {
	s := &Server{host: host, mux: http.NewServeMux(), maxN: o.MaxN, watch: o.Watch, refused: o.Refused, now: o.Now}
	if s.maxN == 0 {
		s.maxN = 128
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.handle("GET /v1/models", s.models)
	s.handle("GET /v1/models/{id...}", s.model)
	s.handle("POST /v1/chat/completions", s.drawn(s.chatJob))
	s.handle("POST /v1/completions", s.drawn(s.textJob))
	s.mux.HandleFunc("/v1/embeddings", func(w http.ResponseWriter, _ *http.Request) {
		refusal.Write(w, refusal.Errorf(http.StatusNotFound, "/v1/embeddings: the models here write text, and give no embeddings"))
	})
	s.mux.HandleFunc("/", unknown)
	return s
}

// unknown answers where nothing is, or not with that method.
func unknown(w http.ResponseWriter, r *http.Request) {
	refusal.Write(w, refusal.Errorf(http.StatusNotFound,
		"%s %.200s is not served here; there are GET /v1/models, POST /v1/chat/completions and POST /v1/completions", r.Method, r.URL.Path))
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
		if !errors.As(err, &late) && !errors.Is(err, errLeft) {
			refusal.Write(w, err)
		}
	})
}

// drawn answers what is drawn for the body of a request, of which read says what it asks for.
func (s *Server) drawn(read func(*fields, *Policy) (*job, error)) func(w http.ResponseWriter, r *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		f, err := readFields(r.Body)
		if err != nil {
			return err
		}
		p, err := s.named(f)
		if err != nil {
			return err
		}
		j, err := read(f, p)
		if err != nil {
			return err
		}
		return s.answer(w, r, j)
	}
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
