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

// interpreter is a Python's description of itself.
type interpreter struct {
	Exe      string   `json:"exe"`
	Version  string   `json:"version"`
	Prefixes []string `json:"prefixes"`
	Path     []string `json:"path"` // where it looks for modules
	// Libraries are the shared libraries that are loaded once the usual extension modules are
	// imported; empty where there is no /proc/self/maps.
	Libraries []string `json:"libraries"`
	CTypes    bool     `json:"ctypes"`
}

// selfDescription is run by the interpreter outside of any cell. The python3 on PATH can be a wrapper
// script, so sys.executable is what counts.
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

// Flags of the interpreter: -s leaves out the user's own packages, -B writes no byte code. Installed packages may run
// code of their own whenever an interpreter starts (.pth files), which can take longer than the rest of the start. The
// interpreter that describes itself runs that code, but ignores the environment (-E). Those that run programs skip it
// (-S) and use the module path from the description.
var (
	describeFlags = []string{"-s", "-B", "-E"}
	programFlags  = []string{"-s", "-B", "-S"}
)

// describeTimeout is how long an interpreter may take to describe itself: it may be on a slow network disk.
const describeTimeout = 30 * time.Second

// pythonAdvice is the advice in the errors about a Python that cannot be used.
const pythonAdvice = "install Python 3.8 or later, or name one with python=PATH"

// described caches interpreters by path, because starting one to describe itself is slow.
var described sync.Map

// findInterpreter finds the Python of that name or path and has it describe itself, once per process.
func findInterpreter(ctx context.Context, name string) (*interpreter, error) {
	if name == "" {
		name = "python3"
	}
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return nil, badinput.Errorf("python %q: not found; %s", name, pythonAdvice)
	} else if err != nil {
		return nil, badinput.Errorf("python %q: cannot be run: %w; %s", name, errors.Unwrap(err), pythonAdvice)
	}
	if py, ok := described.Load(path); ok {
		return py.(*interpreter), nil
	}
	patient, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	cmd := exec.CommandContext(patient, path, append(slices.Clone(describeFlags), "-c", selfDescription)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second // a process that left the group may hold the pipes open
	kill := ownGroup(cmd)       // a script may have started the interpreter
	cmd.Cancel = kill
	runtime.LockOSThread() // the kernel kills the process when the thread that started it ends
	out, err := cmd.Output()
	runtime.UnlockOSThread()
	kill()
	switch said := lastLine(stderr.String()); {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case patient.Err() != nil:
		return nil, badinput.Errorf("python %s: no answer within %v to the question for its version; %s", path, describeTimeout, pythonAdvice)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.EAGAIN): // which says nothing about Python
		return nil, badinput.Errorf("python %s: could not be started: %w; %s", path, err, remedy(err.Error()))
	case err != nil && said != "":
		return nil, badinput.Errorf("python %s does not tell its version (%v: %s); %s", path, err, said, pythonAdvice)
	case err != nil:
		return nil, badinput.Errorf("python %s does not tell its version (%v); %s", path, err, pythonAdvice)
	}
	py := new(interpreter)
	if err := json.Unmarshal(out, py); err != nil {
		return nil, badinput.Errorf("python %s does not tell its version (it printed %.80q); %s", path, out, pythonAdvice)
	}
	if py.Exe == "" {
		return nil, badinput.Errorf("python %s: does not know its own path (sys.executable is empty)", path)
	}
	var major, minor int
	if _, err := fmt.Sscanf(py.Version, "%d.%d", &major, &minor); err != nil || major < 3 || major == 3 && minor < 8 {
		return nil, badinput.Errorf("python %s has the version %.20q; %s", path, py.Version, pythonAdvice)
	}
	described.Store(path, py)
	return py, nil
}

// visibleFiles are the files and directories that the interpreter needs in a cell, and the symbolic links
// on the way to them.
func (py *interpreter) visibleFiles() (readable []string, links [][2]string) {
	// On Debian /etc/alternatives has the links that choose an implementation of a library, such as numpy's BLAS.
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
	// A link below a readable directory is visible with it.
	links = slices.DeleteFunc(links, func(link [2]string) bool {
		return slices.ContainsFunc(readable, func(dir string) bool { return strings.HasPrefix(link[0], dir+"/") })
	})
	return readable, links
}

// followLinks resolves a path one symbolic link at a time, and returns the real file and every link on
// the way, so that a new root can have each link in its place. real is empty if the path does not exist.
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

// firstLink is the shortest prefix of an absolute path that is a symbolic link, and where it points.
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

// lastWords is the reason that a process left on standard error before it died: its last line, or the reason of a Go crash.
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

// command is the command line that makes the interpreter read its program from a descriptor. All cells
// inherit the same one, so they read it with pread, which does not move the shared offset.
func (py *interpreter) command(fd int) []string {
	load := fmt.Sprintf("import os, json; CONFIG = json.loads(os.pread(%d, os.fstat(%d).st_size, 0)); os.close(%d); "+
		"exec(compile(CONFIG.pop('source'), 'cell.py', 'exec'))", fd, fd, fd)
	return slices.Concat([]string{py.Exe}, programFlags, []string{"-c", load})
}
