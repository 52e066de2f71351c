package lora

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Target is a linear weight of a decoder block that can be adapted.
type Target uint8

// The targets, in the order in which a layout holds them.
const (
	Q Target = iota
	K
	V
	O
	Gate
	Up
	Down
	numTargets
)

// AllTargets are the seven linear weights of a block.
func AllTargets() []Target { return []Target{Q, K, V, O, Gate, Up, Down} }

var targetNames = [numTargets]string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}

func (t Target) String() string {
	if t >= numTargets {
		return fmt.Sprintf("Target(%d)", uint8(t))
	}
	return targetNames[t]
}

// module is the target's place in its block.
func (t Target) module() string {
	if t <= O {
		return "self_attn." + t.String()
	}
	return "mlp." + t.String()
}

// ParseTarget finds the target of that name.
func ParseTarget(name string) (Target, error) {
	if i := slices.Index(targetNames[:], name); i >= 0 {
		return Target(i), nil
	}
	return 0, badinput.Errorf("target %q is not known; expected one of %q", name, targetNames)
}

// ParseTargets finds the targets of these names.
func ParseTargets(names []string) ([]Target, error) {
	var targets []Target
	for _, name := range names {
		t, err := ParseTarget(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// Config has the settings of an adapter.
type Config struct {
	Rank    int
	Alpha   float64  // the correction is scaled by Alpha/Rank
	Targets []Target // in any order
}

// Defaults are rank 32, alpha 32 and all seven targets.
func Defaults() Config { return Config{Rank: 32, Alpha: 32, Targets: AllTargets()} }

// maxRank is above any useful rank, and keeps sizes from overflowing.
const maxRank = 1 << 16

// scale is Alpha/Rank, in the precision in which it is used.
func (c Config) scale() float32 { return float32(c.Alpha / float64(c.Rank)) }

func (c Config) check() error {
	if c.Rank < 1 || c.Rank > maxRank {
		return badinput.Errorf("rank is %d, expected 1 to %d", c.Rank, maxRank)
	}
	if !(c.Alpha > 0) || c.Alpha > math.MaxFloat32 {
		return badinput.Errorf("alpha is %v, expected a number above 0 and at most 3.4e38", c.Alpha)
	}
	if c.scale() == 0 {
		return badinput.Errorf("alpha is %v: divided by rank %d it is 0 in single precision; expected more, such as %d", c.Alpha, c.Rank, c.Rank)
	}
	if len(c.Targets) == 0 {
		return badinput.Errorf("there are no targets, expected some of %q", targetNames)
	}
	for i, t := range c.Targets {
		if t >= numTargets {
			return badinput.Errorf("target %d is not known; expected one of %q", uint8(t), targetNames)
		}
		if slices.Contains(c.Targets[:i], t) {
			return badinput.Errorf("target %s is there twice", t)
		}
	}
	return nil
}

// Dims are the sizes of a model that its adapters depend on.
type Dims struct {
	Layers       int
	Hidden       int
	Q            int // query heads × head size: the output of q_proj and the input of o_proj
	KV           int // key-value heads × head size
	Intermediate int
}

// Shape is the shape [out, in] of a target's weight.
func (d Dims) Shape(t Target) (out, in int) {
	switch t {
	case Q:
		return d.Q, d.Hidden
	case K, V:
		return d.KV, d.Hidden
	case O:
		return d.Hidden, d.Q
	case Down:
		return d.Hidden, d.Intermediate
	}
	return d.Intermediate, d.Hidden
}

func (d Dims) check() error {
	if min(d.Layers, d.Hidden, d.Q, d.KV, d.Intermediate) < 1 {
		return badinput.Errorf("model sizes %+v: expected all of them above 0", d)
	}
	return nil
}

// Limits of an adapter: above any useful size, and far from overflow.
const (
	maxLayers  = 1 << 16
	maxNumbers = 1 << 40
)

// checkSize refuses sizes whose sums or products could overflow.
func (c Config) checkSize(d Dims) error {
	if d.Layers > maxLayers {
		return badinput.Errorf("model sizes %+v: found %d layers, more than the %d that there may be", d, d.Layers, maxLayers)
	}
	numbers := 0.0
	for _, t := range c.Targets {
		out, in := d.Shape(t)
		numbers += float64(d.Layers) * float64(c.Rank) * (float64(out) + float64(in))
	}
	if numbers > maxNumbers {
		return badinput.Errorf("model sizes %+v with rank %d make %.2g numbers, expected at most %.2g", d, c.Rank, numbers, float64(maxNumbers))
	}
	return nil
}

// Side is one of the two matrices of a correction.
type Side uint8

const (
	A Side = iota // [rank, in]: projects the input down
	B             // [out, rank]: projects up to the output
)

func (s Side) String() string {
	if s > B {
		return fmt.Sprintf("Side(%d)", uint8(s))
	}
	return [...]string{"lora_A", "lora_B"}[s]
}

// Entry is one matrix in the slab.
type Entry struct {
	Name       string // PEFT's name of the tensor
	Layer      int
	Target     Target
	Side       Side
	Offset     int // of its first number in the slab
	Rows, Cols int // row-major, one row after the other
}

// Len is the number of its elements.
func (e Entry) Len() int { return e.Rows * e.Cols }

// Layout says where each matrix lies in the slab: ordered by layer, then by the input that targets
// share (q, k and v; o; gate and up; down). The A matrices of one input follow one another without a
// gap, so that one product serves them all; their B matrices come next. Numbers between entries are
// padding; they are zero and stay zero.
type Layout struct {
	Config  Config // with the targets in their order
	Dims    Dims
	entries []Entry
	index   [numTargets][2]int // of a target's A and B among the entries of a layer
	size    int
}

const align = 16 // floats: a cache line

// NewLayout places the adapters that c asks for in a model of these dimensions.
func NewLayout(c Config, d Dims) (*Layout, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	if err := c.checkSize(d); err != nil {
		return nil, err
	}
	c.Targets = slices.Sorted(slices.Values(c.Targets))
	l := &Layout{Config: c, Dims: d, entries: make([]Entry, 0, 2*d.Layers*len(c.Targets))}
	for layer := range d.Layers {
		for _, group := range bySharedInput {
			targets := slices.DeleteFunc(slices.Clone(group), func(t Target) bool { return !slices.Contains(c.Targets, t) })
			for _, t := range targets {
				_, in := d.Shape(t)
				l.place(layer, t, A, c.Rank, in)
			}
			l.align()
			for _, t := range targets {
				out, _ := d.Shape(t)
				l.place(layer, t, B, out, c.Rank)
				l.align()
			}
		}
	}
	return l, nil
}

// bySharedInput groups the targets that read the same input.
var bySharedInput = [][]Target{{Q, K, V}, {O}, {Gate, Up}, {Down}}

func (l *Layout) align() { l.size = (l.size + align - 1) / align * align }

func (l *Layout) place(layer int, t Target, s Side, rows, cols int) {
	e := Entry{
		Name:  fmt.Sprintf("base_model.model.model.layers.%d.%s.%s.weight", layer, t.module(), s),
		Layer: layer, Target: t, Side: s, Offset: l.size, Rows: rows, Cols: cols,
	}
	l.index[t][s] = len(l.entries) % (2 * len(l.Config.Targets))
	l.entries = append(l.entries, e)
	l.size += e.Len()
}

// Len is the number of float32s in the slab, padding included.
func (l *Layout) Len() int { return l.size }

// Entries are all matrices, in the order of the slab. The slice is the layout's own.
func (l *Layout) Entries() []Entry { return l.entries }

// Pair finds the two matrices of a weight; ok is false if the weight is not adapted.
func (l *Layout) Pair(layer int, t Target) (a, b Entry, ok bool) {
	if !slices.Contains(l.Config.Targets, t) || layer < 0 || layer >= l.Dims.Layers {
		return Entry{}, Entry{}, false
	}
	first := layer * 2 * len(l.Config.Targets)
	return l.entries[first+l.index[t][A]], l.entries[first+l.index[t][B]], true
}

// Scale is the factor of a correction: Alpha/Rank.
func (l *Layout) Scale() float32 { return l.Config.scale() }

// Locate names the tensor that holds the number at a slab offset, for messages.
func (l *Layout) Locate(offset int) string {
	i := sort.Search(len(l.entries), func(i int) bool { return l.entries[i].Offset > offset }) - 1
	if i < 0 || offset >= l.size {
		return fmt.Sprintf("offset %d, outside the adapter", offset)
	}
	if e := l.entries[i]; offset >= e.Offset+e.Len() {
		return "the padding after " + e.Name
	}
	return l.entries[i].Name
}
