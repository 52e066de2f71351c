package usage

import "github.com/spf13/pflag"

// presets are those of a flag that may be given several times, as --preset tiny --preset dapo: the same as tiny,dapo.
type presets struct{ names *string }

// SeveralPresets is the value of such a flag.
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
