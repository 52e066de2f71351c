package openai

import (
	"sync"

	"github.com/seed-7879b91d/grpo/sampler"
)

// event is a token, the scores of the prompt, or the end of a completion.
type event struct {
	choice int
	token  sampler.Token
	prompt *sampler.Rollout // set for an event with the prompt's scores only
	done   *sampler.Rollout
}

// mailbox passes events from the sampling goroutine, which never blocks, to the one that writes to the client.
type mailbox struct {
	ready chan struct{} // full if there are events

	mu     sync.Mutex
	events []event
}

func newMailbox() *mailbox { return &mailbox{ready: make(chan struct{}, 1)} }

func (m *mailbox) put(e event) {
	m.mu.Lock()
	m.events = append(m.events, e)
	m.mu.Unlock()
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// take removes and returns the events, in order.
func (m *mailbox) take() []event {
	m.mu.Lock()
	defer m.mu.Unlock()
	events := m.events
	m.events = nil
	return events
}
