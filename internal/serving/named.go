package serving

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// NamedDir is the directory of a model or an adapter, and its name for clients.
type NamedDir struct{ Name, Dir string }

// ParseNamedDir parses NAME=DIR. A directory without a name gets its last part as the name, and a model on the Hub its own.
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

// DefaultName is the NamedDir of a model for which the user gave no name.
func DefaultName(dir string) (NamedDir, error) {
	n := NamedDir{usualName(dir), dir}
	return n, CheckName(n.Name)
}

// usualName is the default name of a directory.
func usualName(dir string) string {
	id, _, _ := strings.Cut(dir, "@")
	if strings.Count(id, "/") == 1 && !strings.HasPrefix(id, ".") && !strings.HasPrefix(id, "/") && !isDir(dir) {
		return id
	}
	if whole, err := filepath.Abs(dir); err == nil {
		dir = whole // "." has a name too, behind links
	}
	return filepath.Base(dir)
}

const longestName = 200

// CheckName refuses a name that could not be used in a request or a line of a log.
func CheckName(name string) error {
	bad := func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) || r == unicode.ReplacementChar }
	switch {
	case name == "":
		return misnamed("type NAME=DIR", "the name is empty")
	case len(name) > longestName:
		return misnamed("", "the name has %d bytes, at most %d are allowed", len(name), longestName)
	case strings.ContainsFunc(name, bad):
		return misnamed("", "the name %q has a space or a control character", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." { // clients and proxies normalise these away in /v1/models/NAME
			return misnamed("type NAME=DIR", "the name %q has an empty, . or .. part between its slashes", name)
		}
	}
	return nil
}

// NameError is the error of a wrong name: what is wrong, and what to type on a command line.
type NameError struct{ Problem, Suggestion string }

func (e *NameError) Error() string {
	if e.Suggestion == "" {
		return e.Problem
	}
	return e.Problem + "; " + e.Suggestion
}

func misnamed(advice, format string, args ...any) error {
	return badinput.Errorf("%w", &NameError{fmt.Sprintf(format, args...), advice})
}

// NotFoundError is the error of a name that is not served.
type NotFoundError struct {
	Name      string
	Available []string // the names that are, sorted
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("model %.200q is not served here; there are: %s", e.Name, strings.Join(e.Available, ", "))
}

// taken is the error of a name that is in use.
func taken(name string) error {
	return misnamed("type another NAME=DIR", "the name %q is taken", name)
}

// notAnAdapter is the error of unloading a model, as if it were an adapter.
func notAnAdapter(name string) error {
	return badinput.Errorf("%s is a model, and only adapters can be unloaded", name)
}

func names(policies []Policy) []string {
	all := make([]string, len(policies))
	for i, p := range policies {
		all[i] = p.Name
	}
	slices.Sort(all)
	return all
}
