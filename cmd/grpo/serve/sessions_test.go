package serve

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Who asks for a session of a server that has none is told how to start one that has.
func TestNoSessions(t *testing.T) {
	url, _, stop := serve(t)
	defer stop()
	_, err := post(t, url+"/v1/sessions", `{}`)
	require.ErrorContains(t, err, "404")
	require.ErrorContains(t, err, "start the server with --sessions tiny --store DIR")
	_, err = post(t, url+"/v1/sessions/x/train_step", `{"step":1}`)
	require.ErrorContains(t, err, "there are no training sessions here")
	_, err = post(t, url+"/v1/nothing", `{}`)
	require.ErrorContains(t, err, "POST /v1/load_lora_adapter")
	require.NotContains(t, err.Error(), "sessions")
}
