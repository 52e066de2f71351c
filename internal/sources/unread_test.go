package sources

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/model"
)

// In full training, tensors of the model's files that are not part of it are not saved, which is reported at the start.
func TestTensorsThatAreNotSavedAreTold(t *testing.T) {
	from, err := ModelDir(t.Context(), Embedded)
	require.NoError(t, err)
	shape, err := model.ReadConfig(from)
	require.NoError(t, err)
	set, err := tensorfile.OpenModel(from)
	require.NoError(t, err)
	defer set.Close()
	var all []tensorfile.Source
	for _, name := range set.Names() {
		tensor, err := set.Tensor(name)
		require.NoError(t, err)
		all = append(all, tensorfile.FromTensor(tensor))
	}
	one := []float32{1}
	same := []tensorfile.Source{tensorfile.FromFloat32s("model.layers.0.self_attn.rotary_emb.inv_freq", one, 1)}
	if shape.TiedHead {
		same = append(same, tensorfile.FromFloat32s("lm_head.weight", one, 1))
	}
	value := tensorfile.FromFloat32s("v_head.summary.weight", one, 1)
	many := []tensorfile.Source{value}
	for _, name := range []string{"a", "b", "c"} {
		many = append(many, tensorfile.FromFloat32s(name, one, 1))
	}
	const not = " not read, and will not be in what is saved: "
	for _, c := range []struct {
		beside []tensorfile.Source
		train  string
		says   []string
	}{
		{nil, "full", nil}, {same, "full", nil}, {many, "lora", nil},
		{append(same, value), "full", []string{"train=full: 1 tensor of the model is" + not + "v_head.summary.weight"}},
		{many, "full", []string{"train=full: 4 tensors of the model are" + not + "a, b, c and 1 more"}},
	} {
		dir := t.TempDir()
		require.NoError(t, tensorfile.WriteModel(dir, append(all[:len(all):len(all)], c.beside...), nil))
		var says []string
		p, err := OpenRun(t.Context(), &configs.Config{Train: c.train, Data: Embedded, AnswerMatch: "row"}, &Language{Dir: dir, Shape: shape},
			func(text string) { says = append(says, text) })
		require.NoError(t, err)
		require.NoError(t, p.Close())
		require.Equal(t, c.says, says)
	}
}
