// Package tfevents writes the record of a run as a TensorBoard event file: TFRecord frames with an Event protobuf in each.
package tfevents

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed-7879b91d/grpo/internal/rows"
)

// Name is the file name for a run. TensorBoard reads the files of a folder in the order of their names.
func Name(r rows.Run) string {
	return fmt.Sprintf("events.out.tfevents.%010d.grpo-%s", max(0, r.Begun.Unix()), r.ID[:8])
}

// Writer is a rows.Sink. Each event is one Write.
type Writer struct{ to io.Writer }

// New starts a file.
func New(to io.Writer, r rows.Run) (*Writer, error) {
	w := &Writer{to}
	return w, w.event(r.Begun, 0, 3, []byte("brain.Event:2"))
}

// Start writes the settings as a table, a text summary.
func (w *Writer) Start(s rows.Start) error {
	if len(s.Changed) == 0 {
		return nil
	}
	var table strings.Builder
	table.WriteString("| setting | value |\n|---|---|\n")
	for _, c := range s.Changed {
		fmt.Fprintf(&table, "| %s | %s |\n", c.Name, code(c.Text()))
	}
	var tensor []byte // of one string
	tensor = protowire.AppendTag(tensor, 1, protowire.VarintType)
	tensor = protowire.AppendVarint(tensor, 7) // DT_STRING
	tensor = member(tensor, 2, member(nil, 2, varint(nil, 1, 1)))
	tensor = member(tensor, 8, []byte(table.String()))
	value := member(nil, 1, []byte("settings"))
	value = member(value, 8, tensor)
	value = member(value, 9, member(nil, 1, member(nil, 1, []byte("text"))))
	return w.summary(s.Time, s.After, member(nil, 1, value))
}

// code formats a value so that Markdown does not interpret it.
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + strings.NewReplacer("`", "'", "|", "\\|", "\n", " ").Replace(text) + "`"
}

// Row writes one event with a scalar for each number, as float32.
func (w *Writer) Row(r rows.Row) error {
	var all []byte
	for _, c := range r.Cells {
		number, ok := c.Number()
		if !ok {
			continue
		}
		value := member(nil, 1, []byte(c.Name))
		value = protowire.AppendTag(value, 2, protowire.Fixed32Type)
		value = protowire.AppendFixed32(value, math.Float32bits(float32(number)))
		all = member(all, 1, value)
	}
	if len(all) == 0 {
		return nil
	}
	return w.summary(r.Time, r.Step, all)
}

// Done does nothing, as the format has no such event.
func (w *Writer) Done(time.Time) error { return nil }

func (w *Writer) summary(at time.Time, step int, summary []byte) error {
	return w.event(at, step, 5, summary)
}

// event writes one frame.
func (w *Writer) event(at time.Time, step int, what protowire.Number, body []byte) error {
	event := protowire.AppendTag(nil, 1, protowire.Fixed64Type)
	event = protowire.AppendFixed64(event, math.Float64bits(float64(at.UnixMicro())/1e6))
	if step != 0 {
		event = varint(event, 2, uint64(step))
	}
	event = member(event, what, body)
	frame := binary.LittleEndian.AppendUint64(nil, uint64(len(event)))
	frame = binary.LittleEndian.AppendUint32(frame, masked(frame))
	frame = append(frame, event...)
	_, err := w.to.Write(binary.LittleEndian.AppendUint32(frame, masked(event)))
	return err
}

func member(to []byte, number protowire.Number, body []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), body)
}

func varint(to []byte, number protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(to, number, protowire.VarintType), v)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is the masked checksum of TFRecord: rotated, with a constant added.
func masked(data []byte) uint32 {
	sum := crc32.Checksum(data, castagnoli)
	return (sum>>15 | sum<<17) + 0xa282ead8
}
