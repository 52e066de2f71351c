package chat

import (
	"encoding/json"
	"reflect"
	"testing"
)

// The right column is Python's output.
func TestPythonJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"b":1,"a":[true,null,{}],"c":[]}`:                    `{"b": 1, "a": [true, null, {}], "c": []}`,
		`"\u00e9\u2028\u0001\u001f\b\f\n\r\t\"\\\/<"`:          "\"é\u2028\\u0001\\u001f\\b\\f\\n\\r\\t\\\"\\\\/<\"",
		`[1.0,1e2,1.50,0.1,-0,-0.0,12345678901234567890123]`:   `[1.0, 100.0, 1.5, 0.1, 0, -0.0, 12345678901234567890123]`,
		`[1e16,1.5e300,0.0001,0.00001,1e-7,123456789012345.6]`: `[1e+16, 1.5e+300, 0.0001, 1e-05, 1e-07, 123456789012345.6]`,
		`[1e999,-1e999]`: `[Infinity, -Infinity]`,
	} {
		if got, err := pythonJSON(json.RawMessage(in)); err != nil || got != want {
			t.Errorf("%s: got %s, %v; expected %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "{", "[1", `{"a"}`, "[1]]", "1 2", "{1:2}"} {
		if got, err := pythonJSON(json.RawMessage(in)); err == nil {
			t.Errorf("%s: got %s, expected an error", in, got)
		}
	}
}

func TestMessageJSON(t *testing.T) {
	want := Message{Role: "assistant", ToolCalls: []ToolCall{{Name: "f", Arguments: json.RawMessage(`{"a":1}`)}}}
	for _, in := range []string{
		`{"role":"assistant","content":"","tool_calls":[{"type":"function","function":{"name":"f","arguments":{"a":1}}}]}`,
		`{"role":"assistant","content":null,"tool_calls":[{"name":"f","arguments":{"a":1}}]}`,
	} {
		var got Message
		if err := json.Unmarshal([]byte(in), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v", in, got, err)
		}
		data, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var again Message
		if err := json.Unmarshal(data, &again); err != nil || !reflect.DeepEqual(again, want) {
			t.Errorf("%s comes back as %+v, %v", data, again, err)
		}
	}
}

func TestArgumentsAsText(t *testing.T) {
	c := ToolCall{Name: "f", Arguments: json.RawMessage(`"{\"a\":1}"`)}
	if got, err := c.arguments(); err != nil || got != `{"a":1}` {
		t.Errorf("got %s, %v", got, err)
	}
}
