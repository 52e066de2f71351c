package configs

import "bytes"

// Former has the values of settings that a configuration of an older release lacks: the defaults, except that prefixes were not
// shared, sums were serial, and adapters were not rounded.
func Former() Config {
	c := Defaults()
	c.SharePrefixes, c.Order, c.AdapterPrecision = false, "serial", "f32"
	return c
}

// Completed adds to a complete file of an older release the settings that were added since, with the values that it behaved by.
func Completed(name string, text []byte) ([]byte, error) {
	l, err := parseLayer(name, text)
	if err != nil {
		return nil, err
	}
	former := Former()
	for i, key := range keys() {
		if !l.names(key) && !l.names(aliases[key]) {
			text = append(bytes.TrimRight(text, "\n"), "\n"+key+": "+quoteField(&former, i)+"\n"...)
		}
	}
	return text, nil
}
