package tinker

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

// A request with invalid content uses up its sequence number and fails by its future: the one after it does not wait. One without a
// number is refused, and the error gives the expected form.
func TestAWrongRequestUsesItsNumberUp(t *testing.T) {
	s := serve(t, t.TempDir())
	m := train(t, s.connect(t), 1)
	wrong := protowire.AppendTag(nil, 3, protowire.VarintType) // a varint where a datum is expected; the fields after it are read
	wrong = protowire.AppendVarint(wrong, 7)
	wrong = protowire.AppendString(protowire.AppendTag(wrong, 1, protowire.BytesType), m.ID)
	wrong = protowire.AppendVarint(protowire.AppendTag(wrong, 2, protowire.VarintType), 1)
	promised := s.get(t, "POST", "forward_backward", wrong)
	require.Equal(t, m.ID+"#1", promised["request_id"])
	failure := s.get(t, "POST", "retrieve_future", promised)
	require.Equal(t, "user", failure["category"])
	require.Contains(t, failure["error"], "field 3")
	m.Seq = 1
	stepped(t, m, 0)

	err := s.Call(t.Context(), "POST", "forward_backward", map[string]any{"model_id": m.ID, "seq_id": 3}, nil)
	require.ErrorContains(t, err, "expected protobuf, found Content-Type \\\"application/json\\\"")
	s.refused(t, http.StatusBadRequest, "POST", "forward_backward", []byte("{}"))
	awaitGradient(t, m, crossEntropy(weightedDatum(tokens1, 3, 1))) // the sequence number is free
}

// Numbers that Python writes and JSON does not have fail the request by the name of their field, and the next request does not wait.
func TestNumbersThatJSONDoesNotHave(t *testing.T) {
	s := serve(t, t.TempDir())
	n := s.connect(t)
	m := train(t, n, 1)
	for i, x := range []string{"NaN", "Infinity", "-Infinity"} {
		promised := s.get(t, "POST", "optim_step", fmt.Appendf(nil,
			`{"model_id": %q, "user": "NaN \" NaN", "adam_params": {"beta1": 0.9, "learning_rate": %s, "eps": NaN}, "seq_id": %d}`, m.ID, x, i+1))
		failure := s.get(t, "POST", "retrieve_future", promised)
		require.Equal(t, "user", failure["category"])
		require.Equal(t, "learning_rate: found "+x+", expected a finite number", failure["error"])
	}
	m.Seq = 3
	require.EqualValues(t, 1, stepped(t, m, 0)["metrics"].(map[string]any)["updates"])
	err := s.Call(t.Context(), "POST", "asample", []byte(`{"sampling_session_id": "x", "sampling_params": {"temperature": NaN}}`), nil)
	require.ErrorContains(t, err, "temperature: found NaN, expected a finite number")
	require.NotContains(t, err.Error(), "detail", "the error has no JSON around its message")
	err = s.Call(t.Context(), "POST", "asample", []byte(`{"sampling_params": {"temperature": NaN}`), nil)
	require.ErrorContains(t, err, "no JSON object")
}

// A client may repeat a request whose body did not arrive in time, compressed or not.
func TestASlowBody(t *testing.T) {
	s := serve(t, t.TempDir())
	for packing, begins := range map[string]string{"": "{", "zstd": "\x28\xb5\x2f\xfd"} {
		body := io.MultiReader(bytes.NewReader([]byte(begins)), iotest.ErrReader(os.ErrDeadlineExceeded))
		r := httptest.NewRequest("POST", "/api/v1/optim_step", body)
		r.Header.Set("Content-Encoding", packing)
		w := httptest.NewRecorder()
		s.server.ServeHTTP(w, r)
		require.Equal(t, http.StatusRequestTimeout, w.Code, "%q: %s", packing, w.Body)
		require.Contains(t, w.Body.String(), "did not come in time")
	}
}
