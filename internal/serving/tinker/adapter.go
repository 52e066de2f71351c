package tinker

import (
	"cmp"
	"fmt"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/multilora"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/store"
	"github.com/seed-7879b91d/grpo/lora"
)

// adapter returns the adapter of a sampling session; nil for the bare base model.
func (s *Server) adapter(v *samplingSession) (*multilora.Adapter, error) {
	dims := s.bases[v.Base].Policy.LoRADims()
	load := func(dir string) (*lora.Adapter, error) {
		if err := s.checkBase(v.Base, dir, cmp.Or(v.Path, v.ID)); err != nil {
			return nil, err
		}
		return lora.Load(dir, dims)
	}
	switch {
	case v.Path != "":
		c, r, err := s.checkpoint(s.owner(v.Session), "model_path", v.Path)
		again := badinput.Errorf("%s was saved again since this sampling session was made; make another over it", v.Path)
		if err == nil && v.Seq != 0 && v.Seq != c.Seq {
			err = again
		}
		if err != nil {
			return nil, err
		}
		return &multilora.Adapter{ID: fmt.Sprintf("%s@%d", v.Path, c.Seq), Load: func() (a *lora.Adapter, err error) { // names can be reused
			err = r.WithCheckpoint(c.Kind, c.Name, func(now store.Checkpoint) (err error) {
				if now.Seq != c.Seq {
					return again
				}
				a, err = load(now.Dir)
				return err
			})
			return a, err
		}}, nil
	case v.Run != "":
		s.mu.Lock()
		r := s.runs[v.Run]
		s.mu.Unlock()
		if r == nil {
			return nil, badinput.Errorf("sampling_session_id: the model %.140q was unloaded or deleted", v.Run)
		}
		dir, err := r.UnnamedDir(v.Seq)
		if err != nil {
			return nil, err
		}
		return &multilora.Adapter{ID: v.ID, Load: func() (*lora.Adapter, error) { return load(dir) }}, nil
	}
	return nil, nil
}
