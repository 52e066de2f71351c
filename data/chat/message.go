package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// plainMessage has the fields of Message without its methods, so that (un)marshalling does not recurse.
type plainMessage Message

// message is the JSON form of a Message.
type message struct {
	*plainMessage
	Content json.RawMessage `json:"content"`
}

// UnmarshalJSON reads a message with any type of content; null is empty content.
func (m *Message) UnmarshalJSON(data []byte) error {
	v := message{plainMessage: (*plainMessage)(m)}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields() // otherwise the content of a misspelt field would be silently dropped
	if err := d.Decode(&v); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			kind.Field = strings.TrimPrefix(kind.Field, "plainMessage.") // a Go name that users do not know
		}
		return err
	}
	switch content := bytes.TrimSpace(v.Content); {
	case len(content) == 0 || content[0] == 'n':
	case content[0] == '"':
		return json.Unmarshal(content, &m.Content)
	default:
		m.Structured = content
	}
	return nil
}

// MarshalJSON is the inverse of UnmarshalJSON.
func (m Message) MarshalJSON() ([]byte, error) {
	content := m.Structured
	if content == nil {
		var err error
		if content, err = json.Marshal(m.Content); err != nil {
			return nil, err
		}
	}
	return json.Marshal(message{(*plainMessage)(&m), content})
}
