package rebuild

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// module is the path of this program's module.
const module = "github.com/seed-7879b91d/grpo"

// source is the source code of this program.
type source struct {
	dir     string // of its go.mod
	release string // its version if it is a published one, which never changes
}

// source finds the source that this program was built from.
func (b *builder) source(ctx context.Context, goTool string) (source, error) {
	if b.info == nil || b.info.Main.Path != module {
		return source{}, b.cannot("it is part of another one")
	}
	commit := setting(b.info, "vcs.revision")
	if v := b.info.Main.Version; commit == "" && v != "" && v != "(devel)" {
		return b.published(ctx, goTool, v)
	}
	for _, start := range []string{filepath.Dir(b.file), "."} {
		dir, ok := checkout(start)
		if !ok {
			continue
		}
		if commit != "" {
			if now := headCommit(ctx, dir); now != commit {
				return source{}, b.cannot("the source in %s is at %.12s, while this program is of %.12s", dir, cmp.Or(now, "no commit"), commit)
			}
		}
		return source{dir: dir}, nil
	}
	return source{}, b.cannot("its source is neither here nor where it was built")
}

// published is the source of a version in the module cache.
func (b *builder) published(ctx context.Context, goTool, version string) (source, error) {
	var found struct{ Dir, Error string }
	out, err := exec.CommandContext(ctx, goTool, "mod", "download", "-json", module+"@"+version).Output()
	if jsonErr := json.Unmarshal(out, &found); found.Dir == "" {
		return source{}, b.cannot("the source of %s cannot be fetched: %s", version, cmp.Or(found.Error, fmt.Sprint(cmp.Or(err, jsonErr))))
	}
	return source{found.Dir, version}, nil
}

// compiledIn is the path of this file when the program was built; with -trimpath it is no real path.
func compiledIn() string {
	_, file, _, _ := runtime.Caller(0)
	return file
}

// checkout finds our module in a folder or its parents.
func checkout(dir string) (string, bool) {
	dir, err := filepath.Abs(dir)
	for err == nil {
		if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil {
			first, _, _ := strings.Cut(string(text), "\n")
			return dir, strings.TrimSpace(first) == "module "+module
		}
		if filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	return "", false
}

// headCommit is the commit that is checked out; "" if there is none.
func headCommit(ctx context.Context, dir string) string {
	out, _ := exec.CommandContext(ctx, "git", "-C", dir, "rev-parse", "HEAD").Output()
	return string(bytes.TrimSpace(out))
}

func setting(info *debug.BuildInfo, name string) string {
	for _, s := range info.Settings {
		if s.Key == name {
			return s.Value
		}
	}
	return ""
}

// fingerprint is the key of a build: the source, the compiler, and the flags.
func (s source) fingerprint(info *debug.BuildInfo) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH, s.release, flags(info))
	for _, name := range []string{"CC", "CGO_CFLAGS", "CGO_LDFLAGS", "GOFLAGS", "GOAMD64", "GOARM64", "GOEXPERIMENT"} {
		fmt.Fprintf(sum, "%s=%s\n", name, os.Getenv(name))
	}
	if s.release == "" {
		if err := s.hash(sum); err != nil {
			return "", fmt.Errorf("looking at the source in %s: %w", s.dir, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// hash hashes the files that affect the build: those in and below folders with Go files, as cgo and embed use them,
// without tests. Run folders, which may be inside and large, have no Go files.
func (s source) hash(to io.Writer) error {
	packages := []string{}
	return filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != s.dir && (strings.HasPrefix(name, ".") || name == "testdata") {
				return filepath.SkipDir
			}
			if goFiles, _ := filepath.Glob(filepath.Join(path, "*.go")); path != s.dir && len(goFiles) > 0 {
				packages = append(packages, path+string(filepath.Separator))
			}
			return nil
		}
		inPackage := slices.ContainsFunc(packages, func(p string) bool { return strings.HasPrefix(path, p) })
		top := filepath.Dir(path) == s.dir && (strings.HasSuffix(name, ".go") || name == "go.mod" || name == "go.sum")
		if !d.Type().IsRegular() || strings.HasSuffix(name, "_test.go") || !inPackage && !top {
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			fmt.Fprintf(to, "%s %x\n", strings.TrimPrefix(path, s.dir), sha256.Sum256(text))
		}
		return err
	})
}
