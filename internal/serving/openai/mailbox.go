package openai

import (
	"sync"

	"github.com/seed-7879b91d/grpo/sampler"
)

// event is a token, the scores of the prompt before the first, or the end of a completion.
type event struct {
	choice int
	token  sampler.Token
	prompt *sampler.Rollout // has nothing but them
	done   *sampler.Rollout
}

// mailbox brings events from the goroutine that draws, which never waits, to the one that writes them to a client.
type mailbox struct {
	ready chan struct{} // has one where there are events

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

// take gives what came, in order.
func (m *mailbox) take() []event {
	m.mu.Lock()
	defer m.mu.Unlock()
	events := m.events
	m.events = nil
	return events
}
