package samples

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
)

// File is the file name of a saved index, in the run directory. It is hidden, so that it does not count as a foreign file, and may
// be removed.
const File = ".rollouts.index"

// sidecar is the header of that file: a line of JSON. The groups follow, in binary, and the SHA-256 of both.
type sidecar struct {
	Format   string   `json:"format"`
	Read     [2]int64 `json:"read"`
	Size     [2]int64 `json:"size"`
	Modified [2]int64 `json:"modified_ns"`
	Groups   [2]int   `json:"groups"`
	Problems []string `json:"problems"` // JSON strings, as in the record
	Faults   []Fault  `json:"faults"`
	Faulty   int      `json:"faulty"`
}

const format = "grpo rollouts.index 3" // 1 counted all tokens of conversations; 2 could take a part of a file for all of it

// save saves the index. If that fails, it is built again another time.
func (x *Index) save() {
	x.mu.Lock()
	head := sidecar{Format: format, Problems: make([]string, len(x.problems)), Faults: x.faults, Faulty: x.faulty}
	for quoted, n := range x.byName {
		head.Problems[n] = quoted
	}
	var groups [len(files)][]Group
	for i, p := range x.parts {
		groups[i] = p.groups
		head.Read[i], head.Size[i], head.Modified[i], head.Groups[i] = p.read, p.state.size, p.state.modified, len(p.groups)
	}
	read := x.read()
	x.mu.Unlock()
	text, err := json.Marshal(head)
	if err != nil {
		return
	}
	out := bytes.NewBuffer(append(text, '\n'))
	for _, part := range groups {
		if binary.Write(out, binary.LittleEndian, part) != nil {
			return
		}
	}
	sum := sha256.Sum256(out.Bytes())
	out.Write(sum[:])
	if atomicfile.ResultBytes(filepath.Join(x.dir, File), out.Bytes()) == nil {
		x.mu.Lock()
		x.kept = read
		x.mu.Unlock()
	}
}

// load loads a saved index if it is undamaged and matches the files.
func (x *Index) load() {
	text, err := os.ReadFile(filepath.Join(x.dir, File))
	if err != nil || len(text) < sha256.Size {
		return
	}
	text, seal := text[:len(text)-sha256.Size], text[len(text)-sha256.Size:]
	if sum := sha256.Sum256(text); !bytes.Equal(sum[:], seal) {
		return
	}
	line, rest, _ := bytes.Cut(text, []byte("\n"))
	var head sidecar
	if json.Unmarshal(line, &head) != nil || head.Format != format {
		return
	}
	parts, ok := head.parts(rest)
	if !ok {
		return
	}
	x.parts, x.faults, x.faulty = parts, head.Faults, head.Faulty
	for n, quoted := range head.Problems {
		x.problems = append(x.problems, named([]byte(quoted)))
		x.byName[quoted] = int32(n)
	}
	x.kept = x.read()
}

// parts decodes the groups, and checks that their references are valid.
func (s *sidecar) parts(text []byte) (parts [len(files)]part, ok bool) {
	size := binary.Size(Group{})
	for i := range parts {
		n := s.Groups[i]
		if n < 0 || n > mostGroups || n*size > len(text) {
			return parts, false
		}
		groups := make([]Group, n)
		used, err := binary.Decode(text[:n*size], binary.LittleEndian, groups)
		if err != nil || used != n*size {
			return parts, false
		}
		for _, g := range groups {
			if g.Problem < 0 || int(g.Problem) >= len(s.Problems) || int(g.File) != i || g.At < 0 || g.Size < 0 || g.Frame < 0 {
				return parts, false
			}
		}
		parts[i] = part{groups: groups, read: s.Read[i], state: state{s.Size[i], s.Modified[i]}}
		text = text[n*size:]
	}
	return parts, len(text) == 0
}
