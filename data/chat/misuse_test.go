package chat

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A tokenizer that could not be loaded is missed at once.
func TestRenderersWithoutATokenizer(t *testing.T) {
	for what, call := range map[string]func(){
		"ForModel": func() { _, _ = ForModel(nil, Options{}) },
		"New":      func() { _, _ = New("qwen3", nil) },
		"Plain":    func() { _, _ = New(plain, nil) },
	} {
		require.PanicsWithValue(t, "chat."+what+": the argument tok is nil, expected a tokenizer, such as tokenizer.Load reads", call)
	}
}
