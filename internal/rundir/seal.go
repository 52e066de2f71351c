package rundir

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
)

// unsealed is the empty member of a state's JSON that the seal replaces.
const unsealed = `"seal": ""`

// Seal encodes a value as JSON, and sets its empty member "seal" to the SHA-256 of that text. Damaged JSON may still be
// valid; the seal detects it.
func Seal(v any) ([]byte, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	text = append(text, '\n')
	if bytes.Count(text, []byte(unsealed)) != 1 {
		return nil, fmt.Errorf("rundir: a sealed value needs one empty member %s", unsealed)
	}
	return bytes.Replace(text, []byte(unsealed), fmt.Appendf(nil, `"seal": "%x"`, sha256.Sum256(text)), 1), nil
}

// CheckSeal checks that a text is unchanged since it was sealed.
func CheckSeal(text []byte, seal string) error {
	rest := bytes.Replace(text, []byte(seal), nil, 1)
	if got := fmt.Sprintf("%x", sha256.Sum256(rest)); got != seal {
		return fmt.Errorf("without its seal its sha256 is %s, the seal says %q", got, seal)
	}
	return nil
}

// WriteState seals the state of a checkpoint and writes it.
func WriteState(dir string, state any) error {
	text, err := Seal(state)
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, StateFile), text)
}

// ReadState reads the state of a checkpoint, checking its seal and that its version is from oldest to newest.
func ReadState(dir string, state any, oldest, newest int) error {
	text, err := os.ReadFile(filepath.Join(dir, StateFile))
	if err != nil {
		return err
	}
	var is struct {
		Version int
		Seal    string
	}
	if err = json.Unmarshal(text, state); err == nil {
		err = json.Unmarshal(text, &is)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", StateFile, err)
	}
	if is.Version < oldest || is.Version > newest {
		return fmt.Errorf("version %d, expected %d: another release of grpo wrote it; use that one", is.Version, newest)
	}
	if err := CheckSeal(text, is.Seal); err != nil {
		return fmt.Errorf("%s is damaged: %w", StateFile, err)
	}
	return nil
}

// Checksums are the SHA-256 of all files below dir, by relative path.
func Checksums(dir string) (map[string]string, error) {
	sums := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			sums[filepath.ToSlash(name)], err = checksum(path)
		}
		return err
	})
	return sums, err
}

// Verify compares files below dir with their checksums, and names the first one that is missing or damaged.
func Verify(dir string, sums map[string]string) error {
	names := slices.Sorted(maps.Keys(sums))
	for _, name := range names {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("it has the sha256 of %s, which is outside of it", name)
		}
	}
	for _, name := range names {
		got, err := checksum(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if want := sums[name]; got != want {
			return fmt.Errorf("%s is damaged: its sha256 is %s, expected %s", name, got, want)
		}
	}
	return nil
}

func checksum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
