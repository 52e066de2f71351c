package settings

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

func TestApply(t *testing.T) {
	var rate float64
	var steps int
	var name string
	var wanted bool
	s := Set{"learning_rate": Float(&rate), "max_steps": Int(&steps), "name": String(&name), "wanted": Bool(&wanted)}
	require.NoError(t, s.Apply([]string{"learning_rate=4e-5", "max_steps=-1", "name=a=b", "wanted=true"}))
	require.True(t, wanted)
	require.Equal(t, 4e-5, rate)
	require.Equal(t, -1, steps)
	require.Equal(t, "a=b", name)

	for word, message := range map[string]string{
		"learning_rte=1":      `unknown key "learning_rte"; did you mean "learning_rate"?`,
		"zzzzzzzzzzzzzzzzz=1": `unknown key "zzzzzzzzzzzzzzzzz"; expected one of ["learning_rate" "max_steps" "name" "wanted"]`,
		"max_steps":           `"max_steps": expected key=value`,
		"max_steps=1.5":       `max_steps: found "1.5", expected a whole number`,
		"wanted=1":            `wanted: found "1", expected true or false`,
		"learning_rate=fast":  `learning_rate: found "fast", expected a number`,
	} {
		err := s.Apply([]string{word})
		require.True(t, badinput.Is(err))
		require.EqualError(t, err, message)
	}
}

func TestSlips(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"lraening", "learning", 2},
		{"ca", "abc", 3}} {
		require.Equal(t, c.want, EditDistance(c.a, c.b), "%q %q", c.a, c.b)
		require.Equal(t, c.want, EditDistance(c.b, c.a), "%q %q", c.b, c.a)
	}
}
