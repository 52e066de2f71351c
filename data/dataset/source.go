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

	"github.com/seed-7879b91d/grpo/data/dataset/foreign"
	"github.com/seed-7879b91d/grpo/data/hub"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/notice"
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
		return locateFolder(ctx, source, opt)
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
	case foreign.Readable(source) || path.Ext(source) == ".json":
		return nil, absent(source, opt, "")
	case !hubName.MatchString(source):
		return nil, absent(source, opt, ", and not the name of a data set on the Hub (owner/name)")
	}
	return locateHub(ctx, source, opt)
}

// checkIsRows refuses a file that has no rows. A pipe is refused too: rows are read twice, and opening it again would block.
func checkIsRows(source string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return errors.New("found a pipe or a device, which cannot be read twice; write the rows to a file, such as rows.jsonl, and use that")
	}
	if !foreign.Readable(source) {
		return errors.New(foreign.Advice(source))
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
	if to, err := os.Readlink(source); err == nil {
		where = "; it is a link to " + display.Line(to) + ", which is not there"
	}
	if strings.ContainsAny(source, "*?,") {
		more += "; a source is one file, or one folder of files"
	}
	return badinput.Errorf("%s: %w%s%s", opt.call(source), ErrAbsent, where, more)
}

func locateFolder(ctx context.Context, dir string, opt Options) ([]File, error) {
	root, err := filepath.EvalSymlinks(dir) // WalkDir does not follow a link, not even at its root
	if err != nil {
		return nil, badinput.Errorf("%s: %w", opt.call(dir), err)
	}
	var names, linked []string
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if !d.IsDir() {
			rel, _ := filepath.Rel(root, p)
			if isFolder(p) {
				linked = append(linked, filepath.ToSlash(rel))
			} else {
				names = append(names, filepath.ToSlash(rel))
			}
		}
		return nil
	})
	if err != nil {
		return nil, badinput.Errorf("%s: %w", opt.call(dir), err)
	}
	whole, all := filepath.Base(filepath.Clean(dir)), names
	if names, err = choose(dir, whole, all, opt); err != nil {
		return nil, err
	}
	warnUnread(ctx, dir, opt.call(dir), all, names, linked)
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

// isFolder reports whether a path leads to a folder, through links too.
func isFolder(p string) bool {
	info, err := os.Stat(p)
	return err == nil && info.IsDir()
}

// warnUnread tells of what is in a folder and not read, but may have been meant to be: of all the files, those that chosen lacks
// because their names have no split, or for their format; and links to folders, which are not followed.
func warnUnread(ctx context.Context, dir, called string, all, chosen, linked []string) {
	warn := func(names []string, why string) {
		if n := len(names); n > 0 {
			more := ""
			if n > 1 {
				more = fmt.Sprintf(", like %d more", n-1)
			}
			notice.Warn(ctx, fmt.Sprintf("%s: %s is not read%s: %s", called, names[0], more, why))
		}
	}
	if splitOf(chosen[0]) != "" {
		warn(slices.DeleteFunc(slices.Clone(all), func(n string) bool {
			return !foreign.Readable(n) || splitOf(n) != "" || slices.Contains(chosen, n)
		}), "its name has no split, and other names have; the split all reads every file")
	}
	warn(linked, "it is a link to a folder; name that folder, or link its files")
	if others := foreign.Convertible(all); len(others) > 0 {
		warn(others, foreign.Advice(filepath.Join(dir, filepath.FromSlash(others[0]))))
	}
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
	all := names
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !foreign.Readable(n) })
	slices.Sort(names)
	if len(names) == 0 {
		return nil, noneReadable(source, all, opt)
	}
	wanted, splits, other := cmp.Or(opt.Split, "train"), map[string]bool{}, ""
	for _, n := range names {
		splits[splitOf(n)] = true
		if splitOf(n) == "" {
			other = n
		}
	}
	if wanted != "all" && (len(splits) > 1 || !splits[""]) {
		if names = slices.DeleteFunc(names, func(n string) bool { return splitOf(n) != wanted }); len(names) == 0 {
			more := ""
			if delete(splits, ""); other != "" {
				more = fmt.Sprintf(", and files such as %s without one in the name; the split all reads every file", other)
			}
			return nil, badinput.Errorf("%s: no split %q; it has %s%s", opt.call(source), wanted, joinKeys(splits), more)
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

// noneReadable is the error for a folder, or a data set on the Hub, with files of other formats alone.
func noneReadable(source string, names []string, opt Options) error {
	more := ""
	if others := foreign.Convertible(names); len(others) > 0 && isFolder(source) {
		file := filepath.Join(source, filepath.FromSlash(others[0]))
		more = fmt.Sprintf("; %s: %s", others[0], foreign.Advice(file))
	}
	return badinput.Errorf("%s: no .jsonl, .ndjson or .parquet file in it%s", opt.call(source), more)
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
