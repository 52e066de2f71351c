package wandb

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed-7879b91d/grpo/internal/rows"
)

var began = rows.Run{Name: "first", ID: "0123456789abcdef0123456789abcdef", Begun: time.Unix(1700000000, 0)}

func written(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	about := Environment(func(name string) string {
		return map[string]string{"WANDB_PROJECT": "p", "WANDB_ENTITY": "e", "WANDB_TAGS": "a, b,", "WANDB_NOTES": "n"}[name]
	})
	w, err := New(&out, began, about)
	require.NoError(t, err)
	settings := []rows.Cell{{Name: "model", JSON: []byte(`"<tiny>"`)}, {Name: "seed", JSON: []byte("0")}}
	require.NoError(t, w.Start(rows.Start{Settings: settings, Changed: settings}))
	require.NoError(t, w.Row(rows.Row{Step: 3, Time: began.Begun.Add(1500 * time.Millisecond), Cells: []rows.Cell{
		{Name: "steps/mean_reward", JSON: []byte("0.25")}, {Name: "steps/none", JSON: []byte("null")}}}))
	require.NoError(t, w.Start(rows.Start{Settings: settings, Changed: settings[1:]}))
	require.NoError(t, w.Start(rows.Start{Settings: settings}))
	require.NoError(t, w.Done(began.Begun.Add(2*time.Second)))
	return out.Bytes()
}

// The bytes are those that were checked with the client's own reader (see docs/log.md).
func TestFixedBytes(t *testing.T) {
	require.Equal(t, "offline-run-20231114_221320-01234567/run-01234567.wandb", Path(began))
	require.Equal(t, fixed, hex.EncodeToString(written(t)))
}

const fixed = "3a572642e1be007f3b182c1600010801aa01110a0f0a06302e32382e331205302e362e3002fb55ac50000108028a014b0a0830313233343536371201" +
	"651a017022200a120a056d6f64656c820108223c74696e793e220a0a0a047365656482010130420566697273744a016e5201615201628a01060880e2" +
	"cfaa06079b9b811300010803620f120773746570732f2a22047374657079b4427714000108046210120874696d696e672f2a220473746570f4354cdd" +
	"19000108056215120d6576616c756174696f6e732f2a2204737465705868e1ad6c0001080612680a0a0a0473746570820101330a1a0a117374657073" +
	"2f6d65616e5f726577617264820104302e32350a0b0a055f73746570820101300a1b0a0a5f74696d657374616d7082010c313730303030303030312e" +
	"350a100a085f72756e74696d65820103312e3512020800f6bfa5312c000108071a280a0a0a0473746570820101330a1a0a1173746570732f6d65616e" +
	"5f726577617264820104302e323591ace68310000108082a0c0a0a0a0473656564820101305e745a0907000108099201021002"

// records reads a log by LevelDB's description of the format.
func records(t *testing.T, text []byte) (all [][]byte) {
	t.Helper()
	require.Equal(t, ":W&B\xe1\xbe\x00", string(text[:7]))
	var record []byte
	for at := 7; at < len(text); {
		if left := block - at%block; left < 7 {
			require.Equal(t, make([]byte, left), text[at:at+left])
			at += left
			continue
		}
		n, part := int(binary.LittleEndian.Uint16(text[at+4:])), text[at+6]
		require.LessOrEqual(t, at%block+7+n, block)
		require.Equal(t, binary.LittleEndian.Uint32(text[at:]), crc32.ChecksumIEEE(text[at+6:at+7+n]))
		require.Equal(t, part == full || part == first, record == nil)
		record = append(append([]byte{}, record...), text[at+7:at+7+n]...)
		if part == full || part == last {
			all, record = append(all, record), nil
		}
		at += 7 + n
	}
	require.Nil(t, record)
	return all
}

// Records of every length are read back, wherever a block ends.
func TestLogsReadBack(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	var out bytes.Buffer
	l := log{to: &out}
	require.NoError(t, l.header())
	var want [][]byte
	for i := range 200 {
		size := draw.IntN(900)
		switch {
		case i%40 == 7:
			size = draw.IntN(3 * block)
		case i%3 == 0: // to the end of a block, or close to it
			size = max(0, block-l.at%block-head-draw.IntN(10))
		}
		record := make([]byte, size)
		for k := range record {
			record[k] = byte(draw.Uint32())
		}
		want = append(want, record)
		require.NoError(t, l.append(record))
		require.Equal(t, out.Len(), l.at)
	}
	require.Equal(t, want, records(t, out.Bytes()))
}

// fields are the text members of a message, by number.
func fields(t *testing.T, message []byte) map[protowire.Number][]string {
	t.Helper()
	out := map[protowire.Number][]string{}
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		require.Positive(t, n)
		size := protowire.ConsumeFieldValue(number, kind, message[n:])
		require.Positive(t, size)
		value := message[n : n+size]
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		out[number], message = append(out[number], string(value)), message[n+size:]
	}
	return out
}

func TestRecordsReadBack(t *testing.T) {
	var kinds []protowire.Number
	var parts []map[protowire.Number][]string
	for i, r := range records(t, written(t)) {
		all := fields(t, r)
		require.Equal(t, string(rune(i+1)), all[1][0])
		for number := range all {
			if number != 1 {
				kinds, parts = append(kinds, number), append(parts, fields(t, []byte(all[number][0])))
			}
		}
	}
	require.Equal(t, []protowire.Number{21, run, metric, metric, metric, history, summary, config, exit}, kinds)
	about := parts[1]
	require.Equal(t, []string{"01234567", "e", "p", "first", "n"}, []string{about[1][0], about[2][0], about[3][0], about[8][0], about[9][0]})
	require.Equal(t, []string{"a", "b"}, about[10])
	setting := fields(t, []byte(fields(t, []byte(about[4][0]))[1][0]))
	require.Equal(t, []string{"model", `"<tiny>"`}, []string{setting[1][0], setting[16][0]})
	var line []string
	for _, item := range parts[5][1] {
		pair := fields(t, []byte(item))
		line = append(line, pair[1][0]+"="+pair[16][0])
	}
	require.Equal(t, []string{"step=3", "steps/mean_reward=0.25", "_step=0", "_timestamp=1700000001.5", "_runtime=1.5"}, line)
	require.Len(t, parts[6][1], 2)
}

// A run's project is set by the client's environment variables.
func TestWhereARunIsFiled(t *testing.T) {
	var out bytes.Buffer
	w, err := New(&out, began, Environment(func(name string) string { return "of " + name }))
	require.NoError(t, err)
	require.NoError(t, w.Start(rows.Start{}))
	about := fields(t, []byte(fields(t, records(t, out.Bytes())[1])[run][0]))
	for number, name := range map[protowire.Number]string{2: "WANDB_ENTITY", 3: "WANDB_PROJECT", 6: "WANDB_RUN_GROUP", 7: "WANDB_JOB_TYPE",
		8: "WANDB_NAME", 9: "WANDB_NOTES", 10: "WANDB_TAGS"} {
		require.Equal(t, []string{"of " + name}, about[number])
	}
}

// room is a writer that fails after a number of records.
type room int

func (r *room) Write(b []byte) (int, error) {
	if *r--; *r == -1 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

// If something could not be written, the error says what: the header, the client, the run, three axes, a line and the summary, new
// settings, and the end.
func TestAFullDisk(t *testing.T) {
	settings := []rows.Cell{{Name: "seed", JSON: []byte("0")}}
	told := func(n room) error {
		w, err := New(&n, began, About{})
		for _, write := range []func() error{func() error { return w.Start(rows.Start{Changed: settings}) },
			func() error { return w.Row(rows.Row{}) }, func() error { return w.Start(rows.Start{Changed: settings}) },
			func() error { return w.Done(began.Begun) }} {
			if err == nil {
				err = write()
			}
		}
		return err
	}
	for n := range room(10) {
		require.ErrorIs(t, told(n), io.ErrShortWrite, "%d", n)
	}
	require.NoError(t, told(10))
	w, err := New(io.Discard, began, About{})
	require.NoError(t, err)
	damaged := []rows.Cell{{Name: "seed", JSON: []byte("{")}}
	require.Error(t, w.Start(rows.Start{Changed: damaged}))
	require.Error(t, w.Row(rows.Row{Cells: damaged}))
}
