package configs

import "bytes"

// Former has what stands for the settings that an older release did not know, in what it wrote: the default, but that no prefixes
// were shared, sums were taken in series, and no adapter was rounded.
func Former() Config {
	c := Defaults()
	c.SharePrefixes, c.Order, c.AdapterPrecision = false, "serial", "f32"
	return c
}

// Completed gives a file that named every setting of the release that wrote it those that came since, as they were for that one.
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
