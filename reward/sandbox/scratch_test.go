//go:build linux && (amd64 || arm64)

package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestScratchIsRemoved: the lower rungs leave nothing in TMPDIR, whatever programs have done there. Their directories have the prefix by
// which a later process finds those that a killed one has left.
func TestScratchIsRemoved(t *testing.T) {
	for _, rung := range []Rung{RungUID, RungLandlock, RungUnsafe} {
		t.Run(rung.String(), func(t *testing.T) {
			base := t.TempDir()
			for _, dir := range []string{base, filepath.Dir(base)} {
				if err := os.Chmod(dir, 0o777); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("TMPDIR", base)
			p := openPool(t, rung, 1)
			code := "import os\nos.mkdir('d', 0o300)\nopen('d/f', 'w').write(os.getcwd())\nprint(os.getcwd())"
			for range 2 {
				r := runTest(t, p, Program{Code: code}, Input{}, Limits{})
				if r.Status != OK || !strings.HasPrefix(string(r.Stdout), filepath.Join(base, "grpo-scratch-")) {
					t.Errorf("ended with %v in %q: %s", r.Status, r.Stdout, r.Stderr)
				}
				if _, err := os.Lstat(string(r.Stdout[:len(r.Stdout)-1])); err == nil {
					t.Errorf("%s is still there", r.Stdout)
				}
			}
			expectHonest(t, p)
			p.Close()
			if left, err := os.ReadDir(base); err != nil || len(left) > 0 {
				t.Errorf("left: %v %v", left, err)
			}
		})
	}
}
