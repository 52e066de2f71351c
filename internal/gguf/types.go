package gguf

import (
	"math/bits"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Type is the number type of a tensor, with the format's numbers.
type Type uint32

// The types that can be written and read.
const (
	F32  Type = 0
	F16  Type = 1
	Q4   Type = 2 // q4_0: blocks of 32 weights with a scale, four bits each
	Q8   Type = 8 // q8_0: the same with eight bits
	BF16 Type = 30
)

// kind describes a type.
type kind struct {
	name         string
	block, bytes int    // numbers per block, and its bytes
	file         uint32 // general.file_type of a file of this type
}

var kinds = map[Type]kind{
	F32: {"f32", 1, 4, 0}, F16: {"f16", 1, 2, 1}, Q4: {"q4_0", 32, 18, 2}, Q8: {"q8_0", 32, 34, 7}, BF16: {"bf16", 1, 2, 32},
}

// Types are the names that ParseType knows.
func Types() []string { return []string{"bf16", "f16", "q8_0", "q4_0", "f32"} }

// ParseType finds a type by its name.
func ParseType(name string) (Type, error) {
	for t, k := range kinds {
		if k.name == name {
			return t, nil
		}
	}
	return 0, badinput.Errorf("found %q, expected one of %q", name, Types())
}

func (t Type) String() string { return kinds[t].name }

// size is the number of bytes of a tensor; false if it would overflow or does not fit blocks.
func (t Type) size(shape []int) (int, bool) {
	k, known := kinds[t]
	if !known || len(shape) == 0 || slices.Min(shape) < 1 || shape[len(shape)-1]%k.block != 0 {
		return 0, false
	}
	n := uint64(1)
	for _, d := range shape {
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > 1<<48 {
			return 0, false
		}
		n = lo
	}
	return int(n) / k.block * k.bytes, true
}

// forTensor is the type of a tensor in a file of type t: vectors are exact, and rows that do not consist of whole blocks are f16.
// In a four-bit file, the embedding and the head have eight bits, as every token passes through them.
func (t Type) forTensor(name string, shape []int) Type {
	if len(shape) == 1 {
		return F32
	}
	if t == Q4 && (name == embedding || name == head) {
		t = Q8
	}
	if shape[len(shape)-1]%kinds[t].block != 0 {
		return F16
	}
	return t
}
