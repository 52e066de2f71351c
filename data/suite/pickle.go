package suite

import (
	"encoding/binary"
	"unicode/utf8"
)

// The opcodes of a pickled string, in protocols 1 to 5. All others are refused: they make objects or call functions.
const (
	opProto           = 0x80 // followed by a byte
	opFrame           = 0x95 // followed by eight bytes
	opMemoize         = 0x94
	opBinPut          = 'q' // followed by a byte
	opLongBinPut      = 'r' // followed by four bytes
	opShortBinUnicode = 0x8c
	opBinUnicode      = 'X'
	opBinUnicode8     = 0x8d
	opStop            = '.'
)

// pickledText extracts the string from a pickle of a single string. It executes nothing.
func pickledText(p []byte) (text []byte, err error) {
	found := false
	take := func(n uint64) (part []byte) {
		if uint64(len(p)) < n {
			err = refuse("the pickle ends too early")
			return nil
		}
		part, p = p[:n], p[n:]
		return part
	}
	size := func(bytes uint64) uint64 {
		var whole [8]byte
		copy(whole[:], take(bytes))
		return binary.LittleEndian.Uint64(whole[:])
	}
	for err == nil {
		op := take(1)
		if err != nil {
			break
		}
		n := uint64(0)
		switch op[0] {
		case opProto, opBinPut:
			take(1)
			continue
		case opFrame:
			take(8)
			continue
		case opLongBinPut:
			take(4)
			continue
		case opMemoize:
			continue
		case opStop:
			if !found || len(p) > 0 {
				return nil, refuse("the pickle is not of one string")
			}
			return text, nil
		case opShortBinUnicode:
			n = 1
		case opBinUnicode:
			n = 4
		case opBinUnicode8:
			n = 8
		default:
			return nil, refuse("the pickle has the opcode 0x%02x, which a string does not need; it is not run", op[0])
		}
		if found {
			return nil, refuse("the pickle has more than one string")
		}
		text, found = take(size(n)), true
		if err == nil && !utf8.Valid(text) {
			err = refuse("the pickled string is not UTF-8")
		}
	}
	return nil, err
}
