package calls

import "strings"

// mostNamed is how long the name of a call may be, or its id.
const mostNamed = 64

// nameEnds finds the end of a name, in a text that begins with one: what follows it, or "" where that has not come yet. The text is
// no call where there is nothing that a name could end with, or it is too long.
func nameEnds(text string) (name, rest string, ok bool) {
	i := 0
	for i < len(text) && (text[i] >= 'a' && text[i] <= 'z' || text[i] >= 'A' && text[i] <= 'Z' || text[i] >= '0' && text[i] <= '9' ||
		text[i] == '_' || text[i] == '-' || text[i] == '.') {
		i++
	}
	name, rest = text[:i], text[i:]
	return name, rest, i <= mostNamed && (i > 0 || text == "")
}

// named reads the name of a call, or finds that a list or an object of calls stands there.
func (r *Reader) named(parts []Part, last bool) []Part {
	text := strings.TrimLeft(r.held, " \n\t\r")
	if text != "" && (text[0] == '[' || text[0] == '{') {
		r.at = inCall
		return parts
	}
	name, rest, ok := nameEnds(text)
	if ok && strings.HasPrefix(rest, nameID) {
		_, rest, ok = nameEnds(rest[len(nameID):])
	}
	switch {
	case ok && strings.HasPrefix(rest, NameEnd):
		taken := len(r.held) - len(rest) + len(NameEnd)
		r.raw, r.held, r.at = append(r.raw, r.held[:taken]...), rest[len(NameEnd):], inCall
		r.call.names(name)
	case ok && !last && (strings.HasPrefix(NameEnd, rest) || strings.HasPrefix(nameID, rest)): // not known yet
	default: // it is no call
		parts = r.content(parts, string(r.raw))
		if r.at, r.call, r.raw = inContent, nil, nil; last {
			parts, r.held = r.content(parts, r.held), ""
		}
	}
	return parts
}

// names makes a call one of that name, of which the arguments come alone.
func (c *call) names(name string) {
	c.push(`{"name": ` + quoted(name) + `, "` + c.argKeys[0] + `": `)
	c.bare = true
}
