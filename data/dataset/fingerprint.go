package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"regexp"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/openfile"
)

// Manifest describes the files of a set and the result of reading them. It is part of the record of a run.
type Manifest struct {
	// Version is the version of the normal form. A set of another version is rebuilt.
	Version int `json:"version"`
	// SHA256 is the fingerprint of the set: the hash of its normal form, which is the file that
	// 'grpo data convert' writes.
	SHA256 string `json:"sha256"`
	// Files are the source files with their own fingerprints.
	Files    []File `json:"files"`
	Problems int    `json:"problems"`
	Tests    int    `json:"tests"`
	// Refused lists the rows that fit no shape.
	Refused []Refused `json:"refused,omitempty"`
	// Unread counts, by unread column or unread key of a test ("tests[].key"), the rows with a value in it.
	Unread map[string]int `json:"unread_columns,omitempty"`
	// Misspelt maps names in Unread to the known name they resemble, which was absent from a row.
	Misspelt map[string]string `json:"misspelt_columns,omitempty"`
	// Payload is the size of the stored tests in bytes.
	Payload int64 `json:"payload_bytes"`
	// Index is the SHA-256 of the stored problems, which detects damage.
	Index string `json:"index_sha256"`
}

// normalVersion must change whenever the normal form of any row changes.
const normalVersion = 1

// countVersion must change whenever other counts or refusals change, and when a further field is read: older stores are then rebuilt,
// while the copies that runs keep of them stay valid.
const countVersion = 11

// storeKey names the store of these files by all that affects the result: their content, their names and the options.
func storeKey(files []File, opt Options) string {
	h := sha256.New()
	fmt.Fprintf(h, "grpo normal form %d, counts %d\n", normalVersion, countVersion)
	for _, f := range files {
		fmt.Fprintf(h, "%q %q %s\n", f.Name, f.Collection, f.SHA256)
	}
	if opt.AnswerMatch != "" {
		fmt.Fprintf(h, "answers are matched by %s\n", opt.AnswerMatch)
	}
	if opt.KeepColumns {
		fmt.Fprintln(h, "with all columns")
	}
	return sum(h)[:32]
}

func sum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// hash computes the fingerprint of the file. It does so at every start, because sizes and dates do not prove the content.
func (f *File) hash(ctx context.Context) error {
	in, err := openfile.Open(f.Path)
	if err != nil {
		return badinput.Errorf("read %s: %w", f.Name, err)
	}
	defer in.Close()
	h := sha256.New()
	f.Bytes, err = io.CopyBuffer(h, readerFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return in.Read(p)
	}), make([]byte, 1<<20))
	if err != nil {
		return fmt.Errorf("read %s: %w", f.Name, err)
	}
	f.SHA256 = sum(h)
	return nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

var hexHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// CheckHash refuses a set that is not the expected one. expected is the fingerprint of the set, or that of
// its only source file, as sha256sum and 'grpo data fingerprint' print it.
func (m *Manifest) CheckHash(expected string) error {
	want := strings.ToLower(strings.TrimPrefix(strings.TrimSpace(expected), "sha256:"))
	if !hexHash.MatchString(want) {
		return badinput.Errorf("expected_dataset_hash: found %q, expected 64 hexadecimal digits as 'grpo data fingerprint' prints them",
			expected)
	}
	if want == m.SHA256 || len(m.Files) == 1 && want == m.Files[0].SHA256 {
		return nil
	}
	return badinput.Errorf("the data set has changed: its fingerprint is %s, expected_dataset_hash is %s; "+
		"take the old data, or set expected_dataset_hash to the new value", m.SHA256, want)
}

// Drift says in one line how the set differs from the one a run was started with, or "" if it does
// not. Files that moved but have the same content are no drift.
func (m *Manifest) Drift(then Manifest) string {
	if m.SHA256 == then.SHA256 {
		return ""
	}
	changes := []string{}
	if m.Version != then.Version {
		changes = append(changes, fmt.Sprintf("the normal form is version %d, was %d", m.Version, then.Version))
	}
	old := map[string]string{}
	for _, f := range then.Files {
		old[f.Name] = f.SHA256
	}
	for _, f := range m.Files {
		if was, ok := old[f.Name]; !ok {
			changes = append(changes, f.Name+" is new")
		} else if was != f.SHA256 {
			changes = append(changes, f.Name+" has changed")
		}
		delete(old, f.Name)
	}
	for _, f := range then.Files {
		if _, gone := old[f.Name]; gone {
			changes = append(changes, f.Name+" is gone")
		}
	}
	changes = append(changes, fmt.Sprintf("%d problems, were %d", m.Problems, then.Problems))
	return fmt.Sprintf("the data set is not the one this run was started with: fingerprint %.12s…, was %.12s…; %s",
		m.SHA256, then.SHA256, strings.Join(changes, ", "))
}
