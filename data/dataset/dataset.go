// Package dataset reads collections of programming problems: JSON Lines and Parquet files, folders
// of them, and data sets on the Hub, in every record shape it knows. Each row becomes one
// data.Problem in normal form or is refused with a reason; nothing in between.
//
// The normal form of a set is kept in a store on disk, made once for each content of the files. The
// problems are in an index, which is loaded; the tests are in a payload, of which only the offsets are
// loaded. So a set with gigabytes of tests takes only the memory of its statements.
//
// The package does not know what the problems are used for: other packages prompt, sample and judge.
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

// Options say how to open a source. The zero value reads the train split of all collections.
type Options struct {
	// Setting is the setting or flag that named the source, for messages; "" is data.
	Setting string
	// Split is the part of a data set to use: "train" (also ""), "test", "validation", or "all".
	Split string
	// Collections, if set, are the only ones to read: "taco", "lcbv5".
	Collections []string
	// Strict makes the first refused row an error, as suits a file written by hand.
	Strict bool
	// Empty allows a set without problems, for callers that report why it has none.
	Empty bool
	// AnswerMatch is how to match the "answer" of rows that have neither tests nor a "match"; "" refuses such rows.
	AnswerMatch match.By
	// KeepColumns keeps the unread columns of rows, for data.Problem.Columns. They do not affect the fingerprint.
	KeepColumns bool
	// CacheDir holds the stores; "": a folder in the user's cache.
	CacheDir string
	// Hub is the client for downloads; nil: hub.FromEnv.
	Hub *hub.Client
	// Progress, if set, is called with the bytes of the files that were read while a store is made.
	Progress func(done, total int64)
}

// call is the name of a source in messages.
func (o *Options) call(source string) string { return cmp.Or(o.Setting, "data") + " " + source }

// Open locates the files of a source, takes their fingerprints, and opens the store of their content,
// which it makes if there is none.
func Open(ctx context.Context, source string, opt Options) (*Set, error) {
	if opt.AnswerMatch != "" && !slices.Contains(match.Names(), opt.AnswerMatch) {
		return nil, badinput.Errorf("answer_match=%s: expected %s", opt.AnswerMatch, matchNames)
	}
	files, err := Locate(ctx, source, opt)
	if err != nil {
		return nil, err
	}
	root := opt.CacheDir
	if root == "" {
		var why string
		if root, why, err = cachedir.Find(filepath.Join("grpo", "datasets")); err != nil {
			return nil, badinput.Errorf("no folder for the normalised data set: %w", err)
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
		return badinput.Errorf("%s: its only row was refused: %w", called, &refused[0])
	}
	return badinput.Errorf("%s: all %d rows were refused; the first: %w", called, len(refused), &refused[0])
}

// Read reads a small set of JSON Lines without a store, such as one embedded in the program; the tests
// stay in memory. The first refused row is an error.
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

// seen records where each id and each problem was read first.
type seen struct {
	ids   map[string]string
	asked map[[sha256.Size]byte]string
}

func newSeen() seen {
	return seen{map[string]string{}, map[[sha256.Size]byte]string{}}
}

// add refuses an id that an earlier row has, and the same problem under another id.
func (s seen) add(n *normalised, where string) error {
	if first, twice := s.ids[n.problem.ID]; twice {
		return refuse(Duplicate, "the id %q is used by %s already", n.problem.ID, first)
	}
	if first, twice := s.asked[n.asked]; twice {
		return refuse(Duplicate, "it is the same problem as %s, with another id", first)
	}
	s.ids[n.problem.ID], s.asked[n.asked] = where, where
	return nil
}

// Set is an opened data set. Its methods are safe for concurrent use.
type Set struct {
	dir      string
	manifest Manifest
	problems []data.Problem
	entries  []entry
	payload  *os.File
	commit   string
}

// Problems are all problems of the set, in the order of the files. The slice is shared and must not be
// changed. Their tests can be fetched until Close.
func (s *Set) Problems() []data.Problem { return s.problems }

// Manifest is the fingerprint of the set, with counts of what was read and refused.
func (s *Set) Manifest() Manifest { return s.manifest }

// Commit is the commit of a set from the Hub, or "".
func (s *Set) Commit() string { return s.commit }

// Dir is the folder of the store.
func (s *Set) Dir() string { return s.dir }

// Close closes the payload file, once: the tests of its problems can no longer be fetched, and a second Close is an error.
func (s *Set) Close() error { return s.payload.Close() }
