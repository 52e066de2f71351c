// Package tail keeps the end of what a program says, which is where it says what went wrong.
package tail

import (
	"strings"
	"sync"
)

// Tail is the end of what was written to it. Its zero value is ready.
type Tail struct {
	mu   sync.Mutex
	text []byte
}

const most = 2000

// Write keeps the end of the text.
func (t *Tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, text...)
	t.text = t.text[max(0, len(t.text)-most):]
	return len(text), nil
}

// Last is the last line that has something in it after a colon, "" where there is none.
func (t *Tail) Last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(string(t.text))
	if text == "" {
		return ""
	}
	return ": " + text[strings.LastIndexByte(text, '\n')+1:]
}
