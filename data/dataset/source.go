package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/data/hub"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
)

// File is one file of a data set.
type File struct {
	// Path is the path of the file on disk.
	Path string `json:"-"`
	// Name is its name in messages and manifests.
	Name string `json:"name"`
	// Collection is the default source of its rows: a folder of the data set, or the name of the file.
	Collection string `json:"collection"`
	Bytes      int64  `json:"bytes"`
	SHA256     string `json:"sha256"`
	// commit is the commit on the Hub that the file belongs to.
	commit string
}

func (f *File) parquet() bool { return strings.HasSuffix(f.Path, ".parquet") }

var (
	hubName = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[\w.-]+(@[\w./-]+)?$`)
	// splitName finds the split in "train-00000-of-00004.parquet", "data_test.jsonl", "test/0.parquet".
	splitName = regexp.MustCompile(`(?:^|[-_.])(train|test|validation|valid|val|dev)(?:[-_.]|$)`)
	shardName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})(.*)$`)
)

// splits are the valid names of splits.
var splits = []string{"train", "test", "validation", "all"}

// CheckSplit refuses an invalid name of a split. A data set without splits is read whole, whatever the name.
func CheckSplit(name string) error {
	if name != "" && !slices.Contains(splits, name) {
		return badinput.Errorf("no split %q; type train, test, validation or all", name)
	}
	return nil
}

// Locate returns the files of a source: a JSON Lines or Parquet file, a folder of them, or a data set on
// the Hub as owner/name or owner/name@revision, which is downloaded unless it is in the cache. If the names
// of the files tell splits apart, only those of the wanted split are returned.
func Locate(ctx context.Context, source string, opt Options) ([]File, error) {
	if err := CheckSplit(opt.Split); err != nil {
		return nil, badinput.Errorf("%s: %w", opt.call(source), err)
	}
	info, err := os.Stat(source)
	switch {
	case err == nil && info.IsDir():
		return locateFolder(source, opt)
	case err == nil:
		if err := checkIsRows(source, info); err != nil {
			return nil, badinput.Errorf("%s: %w", opt.call(source), err)
		}
		stem := strings.TrimSuffix(filepath.Base(source), filepath.Ext(source))
		for _, c := range opt.Collections {
			if c != stem {
				return nil, badinput.Errorf("%s: no collection %q in it; it has %s", opt.call(source), c, stem)
			}
		}
		return []File{{Path: source, Name: source, Collection: stem}}, nil
	case !os.IsNotExist(err):
		return nil, badinput.Errorf("%s: %w", opt.call(source), err)
	case readable(source) || path.Ext(source) == ".json":
		return nil, absent(source, opt, "")
	case !hubName.MatchString(source):
		return nil, absent(source, opt, ", and not the name of a data set on the Hub (owner/name)")
	}
	return locateHub(ctx, source, opt)
}

// unpackCommands maps extensions of compressed files to the command that unpacks them.
var unpackCommands = map[string]string{".gz": "gzip -dk", ".zst": "zstd -d", ".xz": "xz -dk", ".bz2": "bzip2 -dk", ".zip": "unzip"}

// checkIsRows refuses a file that has no rows. A pipe is refused too: rows are read twice, and opening it again would block.
func checkIsRows(source string, info fs.FileInfo) error {
	switch unpack := unpackCommands[path.Ext(source)]; {
	case !info.Mode().IsRegular():
		return errors.New("found a pipe or a device, which cannot be read twice; write the rows to a file, such as rows.jsonl, and use that")
	case unpack != "":
		return fmt.Errorf("found a compressed file, expected .jsonl (a row of JSON on each line), .ndjson or .parquet; type %s %s, and use "+
			"the unpacked file", unpack, display.ShellQuote(source))
	case !readable(source):
		return errors.New("unknown file format, expected .jsonl (a row of JSON on each line), .ndjson or .parquet")
	}
	return nil
}

// ErrAbsent is the error for a source that does not exist and is not a name on the Hub.
var ErrAbsent = errors.New("no such file")

// absent is ErrAbsent for a source, with the folder where it was looked for.
func absent(source string, opt Options, more string) error {
	where := ""
	if here, err := os.Getwd(); err == nil && !filepath.IsAbs(source) {
		where = " in " + here
	}
	return badinput.Errorf("%s: %w%s%s", opt.call(source), ErrAbsent, where, more)
}

func readable(name string) bool {
	switch path.Ext(name) {
	case ".jsonl", ".ndjson", ".parquet":
		return true
	}
	return false
}

func locateFolder(dir string, opt Options) ([]File, error) {
	root, err := filepath.EvalSymlinks(dir) // WalkDir does not follow a link, not even at its root
	if err != nil {
		return nil, badinput.Errorf("%s: %w", opt.call(dir), err)
	}
	var names []string
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if !d.IsDir() {
			rel, _ := filepath.Rel(root, p)
			names = append(names, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		return nil, badinput.Errorf("%s: %w", opt.call(dir), err)
	}
	whole := filepath.Base(filepath.Clean(dir))
	names, err = choose(dir, whole, names, opt)
	if err != nil {
		return nil, err
	}
	files := make([]File, len(names))
	for i, name := range names {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if info, err := os.Stat(p); err == nil { // otherwise opening it reports the error
			if err := checkIsRows(p, info); err != nil {
				return nil, badinput.Errorf("%s: %w", opt.call(p), err)
			}
		}
		files[i] = File{Path: p, Name: p, Collection: collection(name, whole)}
	}
	return files, nil
}

func locateHub(ctx context.Context, source string, opt Options) ([]File, error) {
	client := opt.Hub
	if client == nil {
		var err error
		if client, err = hub.FromEnv(); err != nil {
			return nil, err
		}
	}
	id, revision, _ := strings.Cut(source, "@")
	snapshot, err := client.Snapshot(ctx, hub.Repo{Type: hub.Dataset, ID: id, Revision: revision})
	if err != nil {
		return nil, err
	}
	names, err := choose(source, path.Base(id), snapshot.Files, opt)
	if err != nil {
		return nil, err
	}
	paths, err := snapshot.DownloadAll(ctx, names)
	if err != nil {
		return nil, err
	}
	files := make([]File, len(names))
	for i, name := range names {
		files[i] = File{Path: paths[i], Name: id + "/" + name, Collection: collection(name, path.Base(id)), commit: snapshot.Commit}
	}
	return files, nil
}

// choose selects the files of the wanted split and collections, sorted by name, and checks that no shard
// of a numbered series is missing.
func choose(source, whole string, names []string, opt Options) ([]string, error) {
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !readable(n) })
	slices.Sort(names)
	if len(names) == 0 {
		return nil, badinput.Errorf("%s: no .jsonl, .ndjson or .parquet file in it", opt.call(source))
	}
	wanted, splits := cmp.Or(opt.Split, "train"), map[string]bool{}
	for _, n := range names {
		splits[splitOf(n)] = true
	}
	if wanted != "all" && (len(splits) > 1 || !splits[""]) {
		if names = slices.DeleteFunc(names, func(n string) bool { return splitOf(n) != wanted }); len(names) == 0 {
			delete(splits, "")
			return nil, badinput.Errorf("%s: no split %q; it has %s", opt.call(source), wanted, joinKeys(splits))
		}
	}
	if len(opt.Collections) > 0 {
		have := map[string]bool{}
		for _, n := range names {
			have[collection(n, whole)] = true
		}
		for _, c := range opt.Collections {
			if !have[c] {
				return nil, badinput.Errorf("%s: no collection %q in split %q; it has %s", opt.call(source), c, wanted, joinKeys(have))
			}
		}
		names = slices.DeleteFunc(names, func(n string) bool {
			return !slices.Contains(opt.Collections, collection(n, whole))
		})
	}
	return names, checkShards(opt.call(source), names)
}

// splitOf is the split in the name of a file or of a folder in its path, or "".
func splitOf(name string) string {
	parts := strings.Split(name, "/")
	for i := len(parts) - 1; i >= 0; i-- {
		if m := splitName.FindStringSubmatch(parts[i]); m != nil {
			switch m[1] {
			case "valid", "val", "dev":
				return "validation"
			}
			return m[1]
		}
	}
	return ""
}

// collection is the first folder of a path that is neither "data" nor a split, else whole.
func collection(name, whole string) string {
	for _, part := range strings.Split(path.Dir(name), "/") {
		if part != "." && part != "data" && splitOf(part) == "" {
			return part
		}
	}
	return whole
}

// checkShards refuses an incomplete series of shards: nobody should train on part of a data set by accident.
func checkShards(called string, names []string) error {
	there, seen := map[string]bool{}, map[[3]string]bool{}
	for _, n := range names {
		there[n] = true
	}
	for _, n := range names {
		m := shardName.FindStringSubmatch(n)
		if m == nil || seen[[3]string{m[1], m[3], m[4]}] {
			continue
		}
		seen[[3]string{m[1], m[3], m[4]}] = true
		var total int
		fmt.Sscanf(m[3], "%d", &total)
		for i := range total {
			if shard := fmt.Sprintf("%s-%05d-of-%s%s", m[1], i, m[3], m[4]); !there[shard] {
				return badinput.Errorf("%s: %s is missing, but %s is there; complete it with 'grpo data fetch'", called, shard, n)
			}
		}
	}
	return nil
}

func joinKeys(set map[string]bool) string {
	var list []string
	for k := range set {
		list = append(list, k)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
