package usage

import "github.com/spf13/pflag"

// presets is the value of a flag that may be repeated: --preset tiny --preset dapo is the same as --preset tiny,dapo.
type presets struct{ names *string }

// SeveralPresets makes the value of such a flag.
func SeveralPresets(names *string) pflag.Value { return presets{names} }

func (p presets) Set(more string) error {
	if *p.names != "" {
		more = *p.names + "," + more
	}
	*p.names = more
	return nil
}

func (p presets) String() string {
	if p.names == nil {
		return ""
	}
	return *p.names
}

func (presets) Type() string { return "string" }
