package serving

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// NamedDir is a model, or the directory of an adapter, and what clients call it.
type NamedDir struct{ Name, Dir string }

// ParseNamedDir reads NAME=DIR. Without a name a directory goes by its last part, and a model on the Hub by its own.
func ParseNamedDir(text string) (NamedDir, error) {
	name, dir, named := strings.Cut(text, "=")
	if !named {
		name, dir = "", text
	}
	if dir == "" {
		return NamedDir{}, badinput.Errorf("%q: expected NAME=DIR, or DIR", text)
	}
	n := NamedDir{Name: name, Dir: dir}
	if !named {
		n.Name = usualName(dir)
	}
	return n, CheckName(n.Name)
}

// Usual names a model as ParseNamedDir does where nobody gives it a name.
func Usual(dir string) (NamedDir, error) {
	n := NamedDir{usualName(dir), dir}
	return n, CheckName(n.Name)
}

// usualName is what a directory goes by where nobody says.
func usualName(dir string) string {
	id, _, _ := strings.Cut(dir, "@")
	if strings.Count(id, "/") == 1 && !strings.HasPrefix(id, ".") && !strings.HasPrefix(id, "/") && !isDir(dir) {
		return id
	}
	if whole, err := filepath.Abs(dir); err == nil {
		dir = whole // "." has a name too
	}
	return filepath.Base(dir)
}

const longestName = 200

// CheckName refuses a name that could not stand in a request or a line of a log.
func CheckName(name string) error {
	bad := func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) || r == unicode.ReplacementChar }
	switch {
	case name == "":
		return misnamed("type NAME=DIR", "a name for what is served: found none")
	case len(name) > longestName:
		return misnamed("", "a name for what is served: it has %d bytes, at most %d are allowed", len(name), longestName)
	case strings.ContainsFunc(name, bad):
		return misnamed("", "a name for what is served: found %q, expected letters, digits and signs without spaces", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." { // clients and proxies fold these in /v1/models/NAME
			return misnamed("type NAME=DIR",
				"a name for what is served: found %q, expected something but . and .. between its slashes", name)
		}
	}
	return nil
}

// Misnamed says what is wrong with a name, and what to do about it on a command line.
type Misnamed struct{ Wrong, Type string }

func (e *Misnamed) Error() string {
	if e.Type == "" {
		return e.Wrong
	}
	return e.Wrong + "; " + e.Type
}

func misnamed(advice, format string, args ...any) error {
	return badinput.Errorf("%w", &Misnamed{fmt.Sprintf(format, args...), advice})
}

// NotFound says that nothing of a name is served.
type NotFound struct {
	Name  string
	There []string // what is, in order
}

func (e *NotFound) Error() string {
	return fmt.Sprintf("model %.200q is not served here; there are: %s", e.Name, strings.Join(e.There, ", "))
}

// taken reports that a name stands for something already.
func taken(name string) error {
	return misnamed("type another NAME=DIR", "%q: something else of this name is served", name)
}

// stays reports that a model was taken for an adapter.
func stays(name string) error {
	return badinput.Errorf("%s is a model, and stays; expected the name of an adapter", name)
}

func names(policies []Policy) []string {
	all := make([]string, len(policies))
	for i, p := range policies {
		all[i] = p.Name
	}
	slices.Sort(all)
	return all
}
