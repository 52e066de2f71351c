package grpo

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/race"
)

// The limits of a file, a function, a line and a package.
const (
	mostFileLines     = 350
	mostFunctionLines = 60
	mostLineRunes     = 140
	mostPackageLines  = 3000 // non-test Go, in one directory
)

// broadPackages may be larger: the reference implementation of every kernel is one package.
var broadPackages = []string{"kernels/cpu"}

// generated marks files that are generated.
var generated = regexp.MustCompile(`(?m)^(//|/\*) Code generated .* DO NOT EDIT\.`)

// source is a hand-written file.
type source struct {
	path, text string
	lines      []string
}

// TestHouseRules limits sizes to keep the code readable: a function fits a screen, a file can be read at a sitting.
func TestHouseRules(t *testing.T) {
	race.SkipSerial(t)
	packages := map[string]int{}
	files := handwritten(t)
	require.Greater(t, len(files), 100)
	for _, f := range files {
		n := len(f.lines)
		wanted(t, n <= mostFileLines, "%s:%d: a file of %d lines, expected at most %d", f.path, n, n, mostFileLines)
		for i, line := range f.lines {
			runes := utf8.RuneCountInString(line)
			wanted(t, runes <= mostLineRunes, "%s:%d: a line of %d characters, expected at most %d", f.path, i+1, runes, mostLineRunes)
		}
		if filepath.Ext(f.path) != ".go" {
			continue
		}
		for _, complaint := range longFunctions(t, f.path, f.text) {
			t.Error(complaint)
		}
		if !strings.HasSuffix(f.path, "_test.go") {
			packages[filepath.ToSlash(filepath.Dir(f.path))] += len(f.lines)
		}
	}
	for dir, lines := range packages {
		ok := lines <= mostPackageLines || slices.Contains(broadPackages, dir)
		wanted(t, ok, "%s: a package of %d lines of Go, expected at most %d", dir, lines, mostPackageLines)
	}
}

// wanted reports a fault without stopping, so that one run reports all.
func wanted(t *testing.T, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

// handwritten returns the hand-written files of the module, without hidden folders and test data.
func handwritten(t *testing.T) (files []source) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != "." && (name == "testdata" || strings.HasPrefix(name, ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".go", ".c", ".h", ".inc"}, filepath.Ext(path)) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil && !generated.Match(text) {
			lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
			files = append(files, source{filepath.ToSlash(path), string(text), lines})
		}
		return err
	}))
	return files
}

// longFunctions names the functions of a file that are too long, function literals outside of functions included.
func longFunctions(t *testing.T, path, text string) (complaints []string) {
	t.Helper()
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, path, text, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		name := "a function literal"
		switch f := n.(type) {
		case *ast.FuncDecl:
			name = f.Name.Name
		case *ast.FuncLit:
		default:
			return true
		}
		at := positions.Position(n.Pos())
		if lines := positions.Position(n.End()).Line - at.Line + 1; lines > mostFunctionLines {
			complaints = append(complaints, fmt.Sprintf("%s:%d: %s has %d lines, expected at most %d",
				path, at.Line, name, lines, mostFunctionLines))
		}
		return false
	})
	return complaints
}

// longFunctions reports functions that are too long, and no others.
func TestLongFunctionsAreFound(t *testing.T) {
	body := strings.Repeat("\n", mostFunctionLines-1)
	text := "package p\nfunc fits() {" + body + "}\nfunc (t) long() {" + body + "\n}\nvar f = func() {" + body + "\n}\n"
	const most = mostFunctionLines
	require.Equal(t, []string{
		fmt.Sprintf("p.go:%d: long has %d lines, expected at most %d", most+2, most+1, most),
		fmt.Sprintf("p.go:%d: a function literal has %d lines, expected at most %d", 2*most+3, most+1, most),
	}, longFunctions(t, "p.go", text))
}
