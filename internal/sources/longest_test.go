package sources

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// If a prompt leaves no room for a completion, or a conversation, the error names the settings.
func TestWhatIsTooLongIsRefusedByItsSettings(t *testing.T) {
	const begins = ", and the longest prompt, problem p of data, has 50 tokens: "
	const prompt = "leave the problem out (max_prompt_chars leaves out those of a data set)"
	for _, c := range []struct {
		env                   string
		turns, tokens, talked int
		says                  string
	}{
		{"none", 30, 2000, 3000, "max_tokens is 2000" + begins + "2050 together, more than the model's 2048 positions; lower max_tokens, or "},
		{"heal", 1, 2000, 0, "max_tokens is 2000" + begins + "2050 together, more than the model's 2048 positions; lower max_tokens, or "},
		{"heal", 30, 96, 0, "max_turns is 30 and max_tokens 96, so a conversation has up to 2880" + begins + "2930 together, more than the " +
			"model's 2048 positions; type max_turns=20 or max_conversation_tokens=1998, lower max_tokens, or "},
		{"heal", 2, 2000, 0, "max_turns is 2 and max_tokens 2000, so a conversation has up to 4000" + begins + "4050 together, more than the " +
			"model's 2048 positions; lower max_tokens and max_turns, or "},
		{"tools", 2, 96, 3000, "max_conversation_tokens is 3000" + begins + "3050 together, more than the model's 2048 positions; " +
			"lower max_conversation_tokens, or "},
	} {
		cfg := configs.Defaults()
		cfg.Env, cfg.MaxTurns, cfg.MaxTokens, cfg.MaxConversationTokens = c.env, c.turns, c.tokens, c.talked
		err := tooLong(&cfg, "problem p of data", 50, 2048)
		require.EqualError(t, err, c.says+prompt)
		require.True(t, badinput.Is(err))
	}
}
