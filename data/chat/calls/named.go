package calls

import "strings"

// maxNameLength is the maximum length of the name of a tool and of the id of a call.
const maxNameLength = 64

// nameEnds splits a text after the name it begins with; rest is "" while the name may go on. Not ok: the text begins with no name, or
// with one that is too long.
func nameEnds(text string) (name, rest string, ok bool) {
	i := 0
	for i < len(text) && (text[i] >= 'a' && text[i] <= 'z' || text[i] >= 'A' && text[i] <= 'Z' || text[i] >= '0' && text[i] <= '9' ||
		text[i] == '_' || text[i] == '-' || text[i] == '.') {
		i++
	}
	name, rest = text[:i], text[i:]
	return name, rest, i <= maxNameLength && (i > 0 || text == "")
}

// readName parses the name of a call, unless a list of calls or an object follows the tag instead.
func (r *Reader) readName(parts []Part, last bool) []Part {
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
		r.call.startBare(name)
	case ok && !last && (strings.HasPrefix(NameEnd, rest) || strings.HasPrefix(nameID, rest)): // the rest of the tag may follow
	default: // not a call
		parts = r.appendContent(parts, string(r.raw))
		if r.at, r.call, r.raw = inContent, nil, nil; last {
			parts, r.held = r.appendContent(parts, r.held), ""
		}
	}
	return parts
}

// startBare starts a call whose name is known; only its arguments follow.
func (c *call) startBare(name string) {
	c.push(`{"name": ` + quoted(name) + `, "` + c.argKeys[0] + `": `)
	c.bare = true
}
