package model

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
)

// A change of the masters that nobody published is found, and named.
func TestAnUnpublishedAdapterIsFound(t *testing.T) {
	onBackends(t, func(t *testing.T, b kernels.Backend) {
		for _, name := range goldenCases {
			p := openGolden(t, b, name, "adapter", Options{})
			host, err := p.Adapter()
			require.NoError(t, err)
			hash, err := p.Hash()
			require.NoError(t, err)
			require.Equal(t, host.Hash(), hash)

			for _, e := range host.Entries() {
				host.Values[e.Offset+e.Len()-1]++
				params, _, _ := p.Slabs()
				b.Upload(params, host.Values)
				_, err = p.Hash()
				require.ErrorContains(t, err, e.Name)
				p.Publish()
				_, err = p.Hash()
				require.NoError(t, err)
			}
		}
	})
}

func TestStopTokensAreReadFromBothFiles(t *testing.T) {
	for text, want := range map[string][]int32{
		`{}`: nil, `{"eos_token_id":null}`: nil, `{"eos_token_id":5}`: {5}, `{"eos_token_id":[7,9]}`: {7, 9},
	} {
		got, err := parseStopTokens([]byte(text))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := parseStopTokens([]byte(`{"eos_token_id":"x"}`))
	require.EqualError(t, err, `eos_token_id: found "x", expected a token id or a list of them`)
}

func FuzzStopTokens(f *testing.F) {
	f.Add([]byte(`{"eos_token_id":[1,2]}`))
	f.Fuzz(func(t *testing.T, text []byte) { _, _ = parseStopTokens(text) })
}
