// Package dataset reads collections of programming problems: JSON Lines and Parquet files, folders
// of them, and data sets on the Hub, in every record shape it knows. Each row becomes one
// data.Problem in normal form or is refused with a reason; nothing in between.
//
// The normal form of a set is kept in a store on disk, made once for each content of the files: the
// problems in an index that is loaded, the tests in a payload of which only offsets are. So a set
// with gigabytes of tests costs the memory of its statements.
//
// The package does not know what the problems are used for: prompts, sampling and judging are others'.
package dataset

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/hub"
	"github.com/seed-7879b91d/grpo/data/match"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/cachedir"
	"github.com/seed-7879b91d/grpo/internal/notice"
)

// Options say how to open a source. The zero value reads the train split of everything.
type Options struct {
	// Setting is what named the source, for messages; "" is data.
	Setting string
	// Split is the part of a data set to use: "train" (also ""), "test", "validation", or "all".
	Split string
	// Collections, where set, are the only ones to read: "taco", "lcbv5".
	Collections []string
	// Strict makes the first refused row an error. It suits a file that the user writes by hand.
	Strict bool
	// Empty allows a set without problems, for those who want to look at why.
	Empty bool
	// AnswerMatch is how the answers of rows with neither tests nor a "match" are held to what was said; "" refuses them.
	AnswerMatch match.By
	// KeepColumns keeps what rows have beside what a problem is made of, for data.Problem.Columns. It is no part of the fingerprint.
	KeepColumns bool
	// CacheDir holds the stores; "" means a folder of the user's cache.
	CacheDir string
	// Hub downloads; nil means as the environment says.
	Hub *hub.Client
	// Progress, where set, is told how many bytes of the files were read while a store is made.
	Progress func(done, total int64)
}

// call is how messages call a source.
func (o *Options) call(source string) string { return cmp.Or(o.Setting, "data") + " " + source }

// Open locates the files of a source, takes their fingerprints, and opens the store of what they
// hold, which is made first where this content was never seen.
func Open(ctx context.Context, source string, opt Options) (*Set, error) {
	if opt.AnswerMatch != "" && !slices.Contains(match.Names(), opt.AnswerMatch) {
		return nil, badinput.Errorf("answer_match=%s: expected %s", opt.AnswerMatch, ways)
	}
	files, err := Locate(ctx, source, opt)
	if err != nil {
		return nil, err
	}
	root := opt.CacheDir
	if root == "" {
		var why string
		if root, why, err = cachedir.Find(filepath.Join("grpo", "datasets")); err != nil {
			return nil, badinput.Errorf("no place for the normalised data set: %w", err)
		}
		notice.Warn(ctx, why)
	}
	for i := range files {
		if err := files[i].hash(ctx); err != nil {
			return nil, err
		}
	}
	set, err := openOrBuild(ctx, filepath.Join(root, storeKey(files, opt)), files, opt)
	if err != nil {
		return nil, err
	}
	set.commit = files[0].commit
	if refused := set.manifest.Refused; opt.Strict && len(refused) > 0 {
		set.Close()
		return nil, badinput.Errorf("%w (%d of %d rows refused; 'grpo data inspect --refused' lists them)",
			&refused[0], len(refused), len(refused)+set.manifest.Problems)
	}
	if len(set.problems) == 0 && !opt.Empty {
		set.Close()
		return nil, noProblems(opt.call(source), set.manifest.Refused)
	}
	return set, nil
}

func noProblems(called string, refused []Refused) error {
	if len(refused) == 0 {
		return badinput.Errorf("%s: no rows in it", called)
	}
	if len(refused) == 1 {
		return badinput.Errorf("%s: its one row was refused: %w", called, &refused[0])
	}
	return badinput.Errorf("%s: all %d rows were refused; the first: %w", called, len(refused), &refused[0])
}

// Read reads a small set of JSON Lines from memory, such as one that is part of the program, without
// a store: the tests stay in memory. The first row that is no problem is an error.
func Read(ctx context.Context, name string, in io.Reader) ([]data.Problem, error) {
	var problems []data.Problem
	seen := newSeen()
	err := readLines(in, name, func(r *row, _ error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		stem := filepath.Base(name)
		r.source = strings.TrimSuffix(stem, filepath.Ext(stem))
		n, err := normalise(r)
		if err == nil {
			err = seen.add(n, r.where)
		}
		var refused *Refused
		if errors.As(err, &refused) {
			refused.Where = r.where
			return badinput.Errorf("%w", refused)
		}
		if err != nil {
			return err
		}
		tests, err := data.DecodeTests(n.tests)
		problems = append(problems, n.problem.WithTests(tests...))
		return err
	})
	return problems, err
}

// seen is where the ids, and what is asked under them, were read first.
type seen struct {
	ids   map[string]string
	asked map[[sha256.Size]byte]string
}

func newSeen() seen {
	return seen{map[string]string{}, map[[sha256.Size]byte]string{}}
}

// add refuses an id that another row has, and a row that asks what another does under an id of its own.
func (s seen) add(n *normal, where string) error {
	if first, twice := s.ids[n.problem.ID]; twice {
		return refuse(Duplicate, "id %q is taken by %s", n.problem.ID, first)
	}
	if first, twice := s.asked[n.asked]; twice {
		return refuse(Duplicate, "it is the problem of %s under another id", first)
	}
	s.ids[n.problem.ID], s.asked[n.asked] = where, where
	return nil
}

// Set is an opened data set. Its methods may be called by several goroutines.
type Set struct {
	dir      string
	manifest Manifest
	problems []data.Problem
	entries  []entry
	payload  *os.File
	commit   string
}

// Problems are all problems of the set, in the order of the files. The slice is shared: not to be
// changed. Their tests can be fetched until Close.
func (s *Set) Problems() []data.Problem { return s.problems }

// Manifest is the set's fingerprint and everything countable about how it was read.
func (s *Set) Manifest() Manifest { return s.manifest }

// Commit is that of the Hub that the set was opened at, "" of one that is not from there.
func (s *Set) Commit() string { return s.commit }

// Dir is the folder of the store.
func (s *Set) Dir() string { return s.dir }

// Close gives the payload file back.
func (s *Set) Close() error { return s.payload.Close() }
