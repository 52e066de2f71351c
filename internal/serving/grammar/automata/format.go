package automata

import (
	"maps"
	"slices"
)

// formats are the known formats of strings, as patterns of the whole string.
var formats = map[string]string{
	"date":      date,
	"time":      clock,
	"date-time": date + "T" + clock,
	"duration": `P([0-9]{1,9}W|[0-9]{1,9}Y([0-9]{1,9}M([0-9]{1,9}D)?)?(` + hours + `)?|[0-9]{1,9}M([0-9]{1,9}D)?(` + hours +
		`)?|[0-9]{1,9}D(` + hours + `)?|` + hours + `)`,
	"email":    `[A-Za-z0-9_+-]{1,30}(\.[A-Za-z0-9_+-]{1,30}){0,1}@` + label + `(\.` + label + `){1,3}`,
	"hostname": label + `(\.` + label + `){0,6}`,
	"ipv4":     ipv4,
	"ipv6":     ipv6,
	"uuid":     `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`,
}

// Format is the automaton of a format; false if the format is unknown.
func Format(b *Budget, name string) (*Automaton, bool, error) {
	pattern, ok := formats[name]
	if !ok {
		return nil, false, nil
	}
	a, err := FullMatch(b, pattern)
	return a, true, err
}

// Formats are the known formats.
func Formats() []string { return slices.Sorted(maps.Keys(formats)) }

const (
	date = `(` + year + `-(((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01]))|((0[469]|11)-(0[1-9]|[12][0-9]|30))|(02-(0[1-9]|1[0-9]|2[0-8])))|` +
		leapYear + `-02-29)`
	year     = `[0-9]{4}`
	leapYear = `([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)`
	clock    = `([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])`
	hours    = `T([0-9]{1,9}H([0-9]{1,9}M([0-9]{1,9}S)?)?|[0-9]{1,9}M([0-9]{1,9}S)?|[0-9]{1,9}S)`
	label    = `[A-Za-z0-9]([A-Za-z0-9-]{0,29}[A-Za-z0-9])?` // shorter than allowed, so that a whole name keeps the limit of DNS
	octet    = `(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])`
	ipv4     = octet + `(\.` + octet + `){3}`
	group    = `[0-9a-fA-F]{1,4}`
	// ipv6 is eight groups, or fewer with one double colon.
	ipv6 = `((` + group + `:){7}` + group + `|(` + group + `:){1,7}:|(` + group + `:){1,6}:` + group +
		`|(` + group + `:){1,5}(:` + group + `){1,2}|(` + group + `:){1,4}(:` + group + `){1,3}|(` + group + `:){1,3}(:` + group +
		`){1,4}|(` + group + `:){1,2}(:` + group + `){1,5}|` + group + `:(:` + group + `){1,6}|:((:` + group + `){1,7}|:))`
)
