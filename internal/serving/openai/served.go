package openai

import (
	"encoding/json"
	"errors"
	"maps"
	"sync"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/sampler"
)

// NewHost adapts a host of package serving, whose models are prompted as speech says.
func NewHost(h *serving.Host, speech serving.PromptOptions) Host {
	return &served{host: h, speech: speech, languages: map[*sources.Language]*Language{}}
}

type served struct {
	host   *serving.Host
	speech serving.PromptOptions

	mu        sync.Mutex
	languages map[*sources.Language]*Language // by model, as models stay loaded
}

func (s *served) Policies() (list []*Policy) {
	for _, p := range s.host.Policies() {
		list = append(list, s.policy(&p))
	}
	return list
}

func (s *served) Find(name string) (*Policy, error) {
	p, err := s.host.Find(name)
	if err != nil {
		return nil, err
	}
	return s.policy(p), nil
}

func (s *served) policy(p *serving.Policy) *Policy {
	return &Policy{Name: p.Name, Base: p.Base, Created: p.Created, Language: s.language(p.Language), MaxLength: p.Live.Plan().MaxLength,
		Submit: func(all []sampler.Request, on []sampler.Listener) (func(), error) {
			speak := p.Adapter
			submit := func() ([]*sampler.Ticket, error) {
				for i := range all {
					all[i].Adapter = speak
				}
				return p.Live.SubmitAll(all, on)
			}
			tickets, err := submit()
			for errors.Is(err, sampler.ErrWithdrawn) { // replaced since it was found: look again
				now, found := s.host.Find(p.Name)
				if found != nil || now.Adapter == speak || now.Live != p.Live {
					break
				}
				speak = now.Adapter
				tickets, err = submit()
			}
			return func() {
				for _, t := range tickets {
					t.Cancel()
				}
			}, err
		}}
}

func (s *served) language(l *sources.Language) *Language {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.languages[l] == nil {
		s.languages[l] = &Language{Tokenizer: l.Tokenizer, Stops: l.Stops, Rows: l.Shape.Vocab,
			Chat: func(vars map[string]json.RawMessage) (*chat.Renderer, error) { return s.chat(l, vars) }}
	}
	return s.languages[l]
}

// chat is the model's chat format with additional variables for its template.
func (s *served) chat(l *sources.Language, more map[string]json.RawMessage) (*chat.Renderer, error) {
	if len(more) == 0 {
		return l.Renderer, nil
	}
	if s.speech.Renderer != "" && s.speech.Renderer != "auto" {
		return nil, badinput.Errorf("the server writes conversations as %s, which has no variables; leave it out", l.Renderer.Name())
	}
	vars, err := chat.ParseVars(s.speech.ChatVars)
	if err != nil {
		return nil, err
	}
	if vars == nil {
		vars = map[string]json.RawMessage{}
	}
	maps.Copy(vars, more)
	return chat.ForModel(l.Tokenizer, chat.Options{Date: s.speech.ChatDate, Vars: vars})
}
