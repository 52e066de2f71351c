package tfevents

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"io"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed-7879b91d/grpo/internal/rows"
)

var run = rows.Run{Name: "first", ID: "0123456789abcdef0123456789abcdef", Begun: time.Unix(1700000000, 0)}

func written(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := New(&out, run)
	require.NoError(t, err)
	settings := []rows.Cell{{Name: "model", JSON: []byte(`"a|b"`)}}
	require.NoError(t, w.Start(rows.Start{Time: run.Begun, Settings: settings, Changed: settings}))
	require.NoError(t, w.Row(rows.Row{Step: 3, Time: run.Begun.Add(1500 * time.Millisecond), Cells: []rows.Cell{
		{Name: "steps/mean_reward", JSON: []byte("0.25")}, {Name: "steps/updated", JSON: []byte("true")},
		{Name: "steps/policy", JSON: []byte(`"text"`)}, {Name: "steps/none", JSON: []byte("null")},
	}}))
	require.NoError(t, w.Start(rows.Start{Time: run.Begun, Settings: settings}))
	require.NoError(t, w.Row(rows.Row{Step: 4, Time: run.Begun}))
	require.NoError(t, w.Done(run.Begun))
	return out.Bytes()
}

// The bytes are those that were checked with TensorBoard's own reader (see docs/log.md).
func TestFixedBytes(t *testing.T) {
	require.Equal(t, "events.out.tfevents.1700000000.grpo-01234567", Name(run))
	require.Equal(t, fixed, hex.EncodeToString(written(t)))
}

const fixed = "1800000000000000a37f4b220900000040fc54d9411a0d627261696e2e4576656e743a32eced8f9d5e00000000000000d8b06ebc0900000040fc54d9" +
	"412a530a510a0873657474696e6773423b080712041202080142317c2073657474696e67207c2076616c7565207c0a7c2d2d2d7c2d2d2d7c0a7c206d" +
	"6f64656c207c2060615c7c6260207c0a4a080a060a0474657874d94ea6483d000000000000006049f1ec0900006040fc54d94110032a300a180a1173" +
	"746570732f6d65616e5f726577617264150000803e0a140a0d73746570732f75706461746564150000803f5b81f55d"

// Values are escaped from Markdown, and a missing one is empty.
func TestValuesAreShownAsTheyAre(t *testing.T) {
	for text, want := range map[string]string{"": "", "a`b|c\nd": "`a'b\\|c d`"} {
		require.Equal(t, want, code(text))
	}
}

// room is a writer that fails after a number of events.
type room int

func (r *room) Write(b []byte) (int, error) {
	if *r--; *r == -1 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

// If something could not be written, the error says what.
func TestAFullDisk(t *testing.T) {
	settings := []rows.Cell{{Name: "model", JSON: []byte("1")}}
	for n := range room(3) {
		w, err := New(&n, run)
		if err == nil {
			err = w.Start(rows.Start{Changed: settings})
		}
		if err == nil {
			err = w.Row(rows.Row{Cells: settings})
		}
		require.ErrorIs(t, err, io.ErrShortWrite)
	}
}

// sum is CRC-32C bit by bit, with TFRecord's mask.
func sum(data []byte) uint32 {
	crc := ^uint32(0)
	for _, b := range data {
		crc ^= uint32(b)
		for range 8 {
			crc = crc>>1 ^ 0x82f63b78&-(crc&1)
		}
	}
	crc = ^crc
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// frames are the events of a file, with checked checksums.
func frames(t *testing.T, text []byte) (events [][]byte) {
	t.Helper()
	for len(text) > 0 {
		n := binary.LittleEndian.Uint64(text)
		require.Equal(t, sum(text[:8]), binary.LittleEndian.Uint32(text[8:]))
		event := text[12 : 12+n]
		require.Equal(t, sum(event), binary.LittleEndian.Uint32(text[12+n:]))
		events, text = append(events, event), text[16+n:]
	}
	return events
}

// members are the fields of a message, by number; repeated ones in order.
func members(t *testing.T, message []byte) map[protowire.Number][]string {
	t.Helper()
	out := map[protowire.Number][]string{}
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		require.Positive(t, n)
		message = message[n:]
		size := protowire.ConsumeFieldValue(number, kind, message)
		require.Positive(t, size)
		value := message[:size]
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		out[number], message = append(out[number], string(value)), message[size:]
	}
	return out
}

func TestWhatIsWrittenReadsBack(t *testing.T) {
	require.Equal(t, uint32(0xe3069283), func() uint32 { // the check value of the CRC catalogue
		s := sum([]byte("123456789")) - 0xa282ead8
		return s<<15 | s>>17
	}())
	events := frames(t, written(t))
	require.Len(t, events, 3)
	require.Equal(t, []string{"brain.Event:2"}, members(t, events[0])[3])
	text := members(t, []byte(members(t, []byte(members(t, events[1])[5][0]))[1][0]))
	require.Equal(t, []string{"settings"}, text[1])
	require.Equal(t, []string{"| setting | value |\n|---|---|\n| model | `a\\|b` |\n"}, members(t, []byte(text[8][0]))[8])

	row := members(t, events[2])
	require.Equal(t, 1700000001.5, math.Float64frombits(binary.LittleEndian.Uint64([]byte(row[1][0]))))
	require.Equal(t, "\x03", row[2][0])
	values := members(t, []byte(row[5][0]))[1]
	require.Len(t, values, 2)
	for i, want := range []struct {
		tag   string
		value float32
	}{{"steps/mean_reward", 0.25}, {"steps/updated", 1}} {
		value := members(t, []byte(values[i]))
		require.Equal(t, []string{want.tag}, value[1])
		require.Equal(t, want.value, math.Float32frombits(binary.LittleEndian.Uint32([]byte(value[2][0]))))
	}
}
