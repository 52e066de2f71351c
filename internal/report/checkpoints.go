package report

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/internal/look"
)

// checkpoint is a line of checkpoints.jsonl.
type checkpoint struct {
	Name  string `json:"name"`
	Step  int    `json:"batch"`
	Epoch int    `json:"epoch"`
	Path  string `json:"state_path"`

	There bool `json:"-"` // it has not been removed since
}

func (r *run) readCheckpoints(dir string) error {
	return r.each(dir, "checkpoints.jsonl", func(line []byte) bool {
		c := checkpoint{Step: -1}
		ok := understand(line, &c) && c.Step >= 0
		if ok {
			_, err := os.Stat(filepath.Join(dir, "checkpoints", filepath.Base(c.Name)))
			c.There = err == nil && c.Name != ""
			r.checkpoints = put(r.checkpoints, c, func(c checkpoint) int { return c.Step })
		}
		return ok
	})
}

// The most checkpoints that are listed, and how many of the last of them whether they are there or not.
const (
	mostCheckpoints = 40
	lastCheckpoints = 10
)

// listed are the last checkpoints and those before them that are still there, with a word about how many those are.
func (r *run) listed() (list []checkpoint, lead string) {
	there := 0
	for i, c := range r.checkpoints {
		if c.There {
			there++
		}
		if c.There || i >= len(r.checkpoints)-lastCheckpoints {
			c.Name, c.Path = look.Visible(c.Name), look.Visible(c.Path)
			list = append(list, c)
		}
	}
	lead = fmt.Sprintf("%s made, all still there", grouped(int64(len(r.checkpoints))))
	if there < len(r.checkpoints) {
		lead = fmt.Sprintf("%s made, %s still there", grouped(int64(len(r.checkpoints))), grouped(int64(there)))
	}
	return list[max(0, len(list)-mostCheckpoints):], lead
}
