// Package fault reads a reward file, and explains its failures to its author.
package fault

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/openfile"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// File is the reward file. The zero value is one without lines.
type File struct {
	lines  int    // of the file; later lines of a source are code of ours, appended to it
	folder string // of the file
	apart  bool   // it has its own interpreter (reward_python)
}

// Source reads the source of a reward file.
func Source(path string) (string, error) {
	text, err := openfile.Read(path)
	if err != nil {
		return "", badinput.Errorf("reward_file: %w", err)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // a byte order mark, which Python accepts in a file but not in a string
	if !utf8.Valid(text) {
		return "", badinput.Errorf("reward_file=%s is not UTF-8; save it as UTF-8", path)
	}
	return string(text), nil
}

// Of is the File at path with the given source.
func Of(path, source string, apart bool) File {
	return File{lines: strings.Count(source, "\n") + 1, folder: filepath.Dir(path), apart: apart}
}

var (
	ownFrame = regexp.MustCompile(`File "(?:preload|solution)\.py", line (\d+)`)
	noModule = regexp.MustCompile(`^ModuleNotFoundError: No module named '(\w+)`)
	// readByGRPO finds columns of a row that become parts of a problem, and are not passed on under their own names.
	readByGRPO = regexp.MustCompile(`'(?:question|problem|\w*tests|match|fn_name|starter_code|checker|kind|tolerance|\w+_limit_\w+)'`)

	missing = regexp.MustCompile(`^TypeError: .*missing \d+ required (?:positional|keyword-only) arguments?: (.+)$`)
)

// Note explains the failure of a call of a function of the file, given the note so far and the limits of the call. It is "" if note is.
func (f File) Note(note, function string, a sandbox.Result, l sandbox.Limits) string {
	stderr := strings.TrimSpace(a.Stderr)
	last := stderr[strings.LastIndexByte(stderr, '\n')+1:]
	switch {
	case note == "":
		return ""
	case a.Status == sandbox.TLE:
		cpu, wall := l.CPU, l.Wall
		if wall == 0 {
			wall = 2*cpu + time.Second
		}
		return fmt.Sprintf("TLE, time limit exceeded: it was allowed %v s of processor time, and %v s if it sleeps",
			cpu.Seconds(), wall.Seconds())
	case a.Status == sandbox.OK && a.Value == nil && strings.Contains(last, "Out of range float values"):
		return function + " returned nan or an infinity, expected a finite number"
	}
	line := f.line(a.Stderr)
	if m := missing.FindStringSubmatch(last); m != nil && line == "" {
		if readByGRPO.MatchString(m[1]) {
			note += "; of the columns that grpo reads it passes on id, prompt (also for question and problem), source, metadata and answer"
		}
		return fmt.Sprintf("no column %s in the row, for a parameter without a default: %s", m[1], note)
	}
	note += line
	switch {
	case strings.HasPrefix(last, "FileNotFoundError"), strings.HasPrefix(last, "NameError: name '__file__'"):
		note += "; the reward file is alone in the sandbox, without the files beside it: put what it needs of them into the file itself"
	case strings.Contains(note, "JSON cannot carry"):
		note += "; return a float"
	case !strings.HasPrefix(last, "ModuleNotFoundError"):
	case f.beside(last):
		note += "; it lies beside the reward file, which is loaded alone: put what it needs of that into the file itself"
	case f.apart:
		note += "; install it for the interpreter of reward_python"
	default:
		note += "; type reward_python=FILE for an interpreter that has it"
	}
	return note
}

// beside tells whether the module that an error misses is in the folder of the file, where Python finds it outside of the sandbox.
func (f File) beside(last string) bool {
	m := noModule.FindStringSubmatch(last)
	if m == nil {
		return false
	}
	_, file := os.Stat(filepath.Join(f.folder, m[1]+".py"))
	_, folder := os.Stat(filepath.Join(f.folder, m[1]))
	return file == nil || folder == nil
}

// line is the last line of the file that a traceback names, as " (line 7)", or "".
func (f File) line(stderr string) (where string) {
	for _, m := range ownFrame.FindAllStringSubmatch(stderr, -1) {
		if n, err := strconv.Atoi(m[1]); err == nil && n <= f.lines {
			where = fmt.Sprintf(" (line %d)", n)
		}
	}
	return where
}
