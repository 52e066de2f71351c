package jsonl

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Text after a value is reported with its beginning, in whole characters, and its position.
func TestRest(t *testing.T) {
	for text, says := range map[string]string{
		"{}": "", "{} \r\n\t": "", "{}x\n": `found "x" at byte 2`, "{}\n {\"a\": 1}": `found "{\"a\": 1}" at byte 4`,
		"{}éééééééééééé": `found "éééééééééé" at byte 2`, "{}aéééééééééééé": `found "aééééééééé" at byte 2`,
	} {
		err := CheckEnd([]byte(text), 2)
		if says == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, says+", after the JSON value; expected one value alone")
	}
}
