package configs

import (
	"math"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Bytes is an amount of memory: a number, or one followed by KiB, MiB, GiB or TiB.
type Bytes int64

var units = []string{"", "KiB", "MiB", "GiB", "TiB"}

func (b Bytes) String() string {
	n, unit := int64(b), 0
	for n != 0 && n%1024 == 0 && unit < len(units)-1 {
		n, unit = n/1024, unit+1
	}
	return strconv.FormatInt(n, 10) + units[unit]
}

// UnmarshalText reads what String writes, and fractions of a unit such as 1.5GiB.
func (b *Bytes) UnmarshalText(text []byte) error {
	number, scale := string(text), 1.0
	for i, unit := range units[1:] {
		if n, found := strings.CutSuffix(number, unit); found {
			number, scale = strings.TrimSpace(n), math.Pow(1024, float64(i+1))
			break
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if v *= scale; err != nil || !(math.Abs(v) < 1<<53) || v != math.Trunc(v) {
		return badinput.Errorf("found %q, expected an amount of memory such as 8GiB", text)
	}
	*b = Bytes(v)
	return nil
}

// MarshalText writes the amount in the largest unit of which it is a multiple.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }
