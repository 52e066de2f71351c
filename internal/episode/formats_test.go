package episode

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/sampler"
)

// in is a talk in a chat format whose template refuses messages for which `refusal` is true.
func in(t *testing.T, refusal string) *Player {
	t.Helper()
	k, _, _ := newTalk(t, sampler.Options{MaxLength: 320})
	k.Tokenizer = k.Tokenizer.WithChatTemplate(`{% for m in messages %}{% if ` + refusal + ` %}{{ raise_exception('no') }}{% endif %}` +
		`{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}` +
		`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}{# calls stand in <tool_call> #}`)
	var err error
	k.Renderer, err = chat.ForModel(k.Tokenizer, chat.Options{})
	require.NoError(t, err)
	k.Stops = k.Renderer.Stop()
	return k
}

// A chat format may refuse histories: with calls, which are then written as text, or with two turns of the model in a row, which no
// conversation has.
func TestFormatsThatRefuseAPast(t *testing.T) {
	const alternating = "(m.role == 'user') != (loop.index0 % 2 == 0)"
	for _, refusal := range []string{"false", "m.tool_calls", alternating, "m.tool_calls or " + alternating} {
		k, q := in(t, refusal), &fakeEnv{}
		try, r := script(t, k, q, withTools(), twoCalls, "so", "done")
		require.NoError(t, try.err, refusal)
		require.Len(t, q.turns[0][0].Calls, 2)
		require.Len(t, q.turns[0], 3)
		const asks = "<|im_end|>\n<|im_start|>user\nand %?<|im_end|><|im_end|>\n<|im_start|>assistant\n"
		require.Equal(t, twoCalls+strings.Replace(asks, "%", "0", 1)+"so"+strings.Replace(asks, "%", "1", 1)+"done<|im_end|>",
			k.Tokenizer.Decode(r.Tokens, false), refusal)
	}
	try, _ := script(t, in(t, "messages|length > 2"), &fakeEnv{}, withTools(), "so")
	require.ErrorContains(t, try.err, "what the environment answers cannot be rendered: ")
	require.ErrorContains(t, try.err, "the model's chat template refuses the conversation: no")
}
