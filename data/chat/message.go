package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// plainMessage has the fields of Message, and no methods.
type plainMessage Message

// message is how a message stands in JSON.
type message struct {
	*plainMessage
	Content json.RawMessage `json:"content"`
}

// UnmarshalJSON reads a content of any kind. null is none.
func (m *Message) UnmarshalJSON(data []byte) error {
	v := message{plainMessage: (*plainMessage)(m)}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields() // a field that is passed over would be missing in silence
	if err := d.Decode(&v); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			kind.Field = strings.TrimPrefix(kind.Field, "plainMessage.") // a name of Go's alone
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

// MarshalJSON writes what UnmarshalJSON reads.
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
