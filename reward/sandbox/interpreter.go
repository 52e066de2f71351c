package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// interpreter is a Python as it describes itself.
type interpreter struct {
	Exe      string   `json:"exe"`
	Version  string   `json:"version"`
	Prefixes []string `json:"prefixes"`
	Path     []string `json:"path"` // where it looks for modules
	// Libraries are the shared libraries that it has loaded once the modules written in C are
	// imported; empty where the system does not tell.
	Libraries []string `json:"libraries"`
	CTypes    bool     `json:"ctypes"`
}

// selfDescription is run by the interpreter outside of any cell. The python3 on PATH can be a script
// that only finds the real one, so sys.executable is what counts.
const selfDescription = `
import json, sys
loaded = set()
for name in ("ctypes", "hashlib", "decimal", "zlib", "bz2", "lzma", "socket", "select", "resource"):
    try:
        __import__(name)
    except ImportError:
        pass
try:
    with open("/proc/self/maps") as f:
        loaded = {line.split(None, 5)[5].strip() for line in f if line.count("/")}
except OSError:
    pass
print(json.dumps({
    "exe": sys.executable, "version": "%d.%d.%d" % sys.version_info[:3], "ctypes": "ctypes" in sys.modules,
    "path": [p for p in sys.path if p], "prefixes": sorted({sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}),
    "libraries": sorted(p for p in loaded if ".so" in p)}))`

// Flags of the interpreter. They keep the user's own packages out and write no byte code. What is installed may ask
// for code of its own in every interpreter that starts, and that can take longer than the rest of the start: the
// interpreter that describes itself runs it and hears nothing of the environment, those that run programs look for
// modules where that one does, and leave it out.
var (
	describeFlags = []string{"-s", "-B", "-E"}
	programFlags  = []string{"-s", "-B", "-S"}
)

// describeTime is how long an interpreter may take to describe itself: a network's disk is slow.
const describeTime = 30 * time.Second

// anotherPython is what to do about one that cannot be used.
const anotherPython = "install Python 3.8 or later, or name one with python=PATH"

// described holds what interpreters have said, by their paths: they need a while for it.
var described sync.Map

// findInterpreter asks the Python of that name or path what it is, the first time.
func findInterpreter(ctx context.Context, name string) (*interpreter, error) {
	if name == "" {
		name = "python3"
	}
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return nil, badinput.Errorf("python %q: not found; %s", name, anotherPython)
	} else if err != nil {
		return nil, badinput.Errorf("python %q: cannot be run: %w; %s", name, errors.Unwrap(err), anotherPython)
	}
	if py, ok := described.Load(path); ok {
		return py.(*interpreter), nil
	}
	patient, cancel := context.WithTimeout(ctx, describeTime)
	defer cancel()
	cmd := exec.CommandContext(patient, path, append(slices.Clone(describeFlags), "-c", selfDescription)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second // what left the group may hold its pipes
	kill := ownGroup(cmd)       // a script may have started the interpreter
	cmd.Cancel = kill
	runtime.LockOSThread() // with which the process ends
	out, err := cmd.Output()
	runtime.UnlockOSThread()
	kill()
	switch said := lastLine(stderr.String()); {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case patient.Err() != nil:
		return nil, badinput.Errorf("python %s: asked for its version and got no answer in %v; %s", path, describeTime, anotherPython)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.EAGAIN): // which says nothing about Python
		return nil, badinput.Errorf("python %s: could not be started: %w; %s", path, err, remedy(err.Error()))
	case err != nil && said != "":
		return nil, badinput.Errorf("python %s: asked for its version and got %v: %s; %s", path, err, said, anotherPython)
	case err != nil:
		return nil, badinput.Errorf("python %s: asked for its version and got %v; %s", path, err, anotherPython)
	}
	py := new(interpreter)
	if err := json.Unmarshal(out, py); err != nil {
		return nil, badinput.Errorf("python %s: asked for its version and got %.80q; %s", path, out, anotherPython)
	}
	if py.Exe == "" {
		return nil, badinput.Errorf("python %s: does not know its own path (sys.executable is empty)", path)
	}
	var major, minor int
	if _, err := fmt.Sscanf(py.Version, "%d.%d", &major, &minor); err != nil || major < 3 || major == 3 && minor < 8 {
		return nil, badinput.Errorf("python %s: asked for its version and got %.20q; %s", path, py.Version, anotherPython)
	}
	described.Store(path, py)
	return py, nil
}

// view is what a cell has to see of the file system so that the interpreter works: real files and
// directories, and the symbolic links on the way to them.
func (py *interpreter) view() (readable []string, links [][2]string) {
	// Debian has links to the chosen version of a library, such as that of numpy, in /etc/alternatives.
	wanted := []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/etc/alternatives", py.Exe}
	for _, prefix := range py.Prefixes {
		wanted = append(wanted, filepath.Join(prefix, "lib"), filepath.Join(prefix, "lib64"), filepath.Join(prefix, "pyvenv.cfg"))
	}
	wanted = append(wanted, py.Libraries...)
	seenLinks := map[string]bool{}
	for _, path := range wanted {
		real, onTheWay := followLinks(path)
		if real == "" {
			continue
		}
		for _, link := range onTheWay {
			if !seenLinks[link[0]] {
				seenLinks[link[0]] = true
				links = append(links, link)
			}
		}
		readable = append(readable, real)
	}
	readable = withoutNested(readable)
	// What lies below a directory that is shown comes with it.
	links = slices.DeleteFunc(links, func(link [2]string) bool {
		return slices.ContainsFunc(readable, func(dir string) bool { return strings.HasPrefix(link[0], dir+"/") })
	})
	return readable, links
}

// followLinks finds the real file behind a path, and the links it goes through. Only the last
// component of each step and its directories are resolved, so that every link is repeated where it
// is. A path that does not exist has no real file.
func followLinks(path string) (real string, links [][2]string) {
	path = filepath.Clean(path)
	for range 40 {
		link, target := firstLink(path)
		if link == "" {
			if _, err := os.Stat(path); err != nil {
				return "", nil
			}
			return path, links
		}
		links = append(links, [2]string{link, target})
		rest := strings.TrimPrefix(path, link)
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(link), target)
		}
		path = filepath.Clean(target + rest)
	}
	return "", nil
}

// firstLink is the shortest part of an absolute path that is a symbolic link, and where it points.
func firstLink(path string) (link, target string) {
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		if target, err := os.Readlink(path[:i]); err == nil {
			return path[:i], target
		}
	}
	return "", ""
}

// withoutNested drops the paths that lie below others.
func withoutNested(paths []string) []string {
	slices.Sort(paths)
	paths = slices.Compact(paths)
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool {
		return slices.ContainsFunc(paths, func(above string) bool {
			return strings.HasPrefix(p, strings.TrimSuffix(above, "/")+"/")
		})
	})
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// lastWords is the last line of what a process said before it died, or of a crash of Go the lines that say why.
func lastWords(s string) string {
	if at := strings.Index(s, "runtime/cgo: "); at >= 0 {
		line, _, _ := strings.Cut(s[at:], "\n")
		return line
	}
	before, _, crashed := strings.Cut(s, "fatal error: ")
	if at := strings.Index(before, "runtime: "); crashed && at >= 0 {
		return strings.ReplaceAll(strings.TrimSpace(before[at:]), "\n", "; ")
	}
	return lastLine(s)
}

// command is the command line that makes the interpreter read its program from a descriptor that it
// shares with other processes, and so must not move the offset of.
func (py *interpreter) command(fd int) []string {
	load := fmt.Sprintf("import os, json; CONFIG = json.loads(os.pread(%d, os.fstat(%d).st_size, 0)); os.close(%d); "+
		"exec(compile(CONFIG.pop('source'), 'cell.py', 'exec'))", fd, fd, fd)
	return slices.Concat([]string{py.Exe}, programFlags, []string{"-c", load})
}
