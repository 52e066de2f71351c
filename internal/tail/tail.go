// Package tail keeps the end of a program's output, where it says what went wrong.
package tail

import (
	"strings"
	"sync"
)

// Tail keeps the end of what is written to it. The zero value is ready for use.
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

// Last is ": " with the last line that is not empty, "" if there is none.
func (t *Tail) Last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(string(t.text))
	if text == "" {
		return ""
	}
	return ": " + text[strings.LastIndexByte(text, '\n')+1:]
}
