package report

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/internal/display"
)

// checkpoint is a line of checkpoints.jsonl.
type checkpoint struct {
	Name  string `json:"name"`
	Step  int    `json:"batch"`
	Epoch int    `json:"epoch"`
	Path  string `json:"state_path"`

	There bool `json:"-"` // it still exists
}

func (r *run) readCheckpoints(dir string) error {
	return r.eachLine(dir, "checkpoints.jsonl", func(line []byte) bool {
		c := checkpoint{Step: -1}
		ok := understand(line, &c) && c.Step >= 0
		if ok {
			_, err := os.Stat(filepath.Join(dir, "checkpoints", filepath.Base(c.Name)))
			c.There = err == nil && c.Name != ""
			r.checkpoints = appendStep(r.checkpoints, c, func(c checkpoint) int { return c.Step })
		}
		return ok
	})
}

// How many checkpoints are listed at most, and how many of the latest ones even if they were removed.
const (
	mostCheckpoints = 40
	lastCheckpoints = 10
)

// listed are the latest checkpoints, and earlier ones that still exist, with a note about the rest.
func (r *run) listed() (list []checkpoint, lead string) {
	there := 0
	for i, c := range r.checkpoints {
		if c.There {
			there++
		}
		if c.There || i >= len(r.checkpoints)-lastCheckpoints {
			c.Name, c.Path = display.Visible(c.Name), display.Visible(c.Path)
			list = append(list, c)
		}
	}
	lead = fmt.Sprintf("%s made, all still there", grouped(int64(len(r.checkpoints))))
	if there < len(r.checkpoints) {
		lead = fmt.Sprintf("%s made, %s still there", grouped(int64(len(r.checkpoints))), grouped(int64(there)))
	}
	return list[max(0, len(list)-mostCheckpoints):], lead
}
