package wandb

import (
	"encoding/binary"
	"hash/crc32"
	"io"
)

// log writes records in LevelDB's log format: in blocks, with records split at block boundaries. Only the checksums differ.
type log struct {
	to      io.Writer
	at      int
	records uint64
}

const (
	block = 32 << 10
	head  = 7 // of a part of a record: checksum, length, and kind of part
)

// The kinds of parts.
const (
	full = iota + 1
	first
	middle
	last
)

func (l *log) header() error {
	const ident, magic, version = ":W&B", 0xbee1, 0
	text := binary.LittleEndian.AppendUint16([]byte(ident), magic)
	return l.write(append(text, version))
}

// append writes a record with one Write.
func (l *log) append(record []byte) error {
	var out []byte
	for part := byte(first); ; part = middle {
		room := block - (l.at+len(out))%block
		if room < head { // stays unused
			out = append(out, make([]byte, room)...)
			room = block
		}
		n := min(len(record), room-head)
		switch {
		case n < len(record):
		case part == first:
			part = full
		default:
			part = last
		}
		sum := crc32.Update(crc32.ChecksumIEEE([]byte{part}), crc32.IEEETable, record[:n])
		out = binary.LittleEndian.AppendUint32(out, sum)
		out = binary.LittleEndian.AppendUint16(out, uint16(n))
		out = append(append(out, part), record[:n]...)
		if record = record[n:]; part == full || part == last {
			return l.write(out)
		}
	}
}

func (l *log) write(text []byte) error {
	_, err := l.to.Write(text)
	l.at += len(text)
	return err
}
