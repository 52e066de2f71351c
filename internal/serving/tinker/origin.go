package tinker

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/store"
)

// takeFingerprints takes the fingerprints of the bases, which are saved with every adapter.
func (s *Server) takeFingerprints() (err error) {
	s.prints = map[string]provenance.Part{}
	for name, b := range s.bases {
		if b.Dir == "" {
			continue
		}
		if s.prints[name], err = provenance.FingerprintModel(b.Dir); err != nil {
			return err
		}
	}
	return nil
}

// saveTo writes the model to a folder, with the optimizer's state if asked, and with the fingerprint of its base.
func (r *run) saveTo(dir string, state bool) error {
	if err := r.bench.Save(r.model, dir, r.s.bases[r.Base].Source, state); err != nil {
		return err
	}
	if print, known := r.s.prints[r.Base]; known {
		return provenance.WriteBase(dir, print)
	}
	return nil
}

// checkBase refuses a saved adapter if its base is another model now. Adapters of older releases have no fingerprint; that is
// logged once.
func (s *Server) checkBase(base, dir, name string) error {
	print, known := s.prints[base]
	if !known {
		return nil
	}
	was, known, err := provenance.BaseOf(dir)
	if err != nil {
		return err
	}
	if !known {
		if _, told := s.unsure.LoadOrStore(dir, true); !told {
			s.Log.Warn("the base weights that this was trained over are not recorded; save it again to record them", "of", name,
				"base", base)
		}
		return nil
	}
	if what := was.ChangeTo(print); what != "" {
		return badinput.Errorf("%s was trained on another model than %s is now: %s; use it on a server with the earlier model",
			name, base, what)
	}
	return nil
}

// storePaths matches folders of models in a text, and checkpoints in them.
var storePaths = regexp.MustCompile(`(s-[0-9a-f]+_train_[0-9]+)(/[A-Za-z_]+)?(/[0-9A-Za-z][^/\s:;,"]*)?`)

// clientError words an error for a client: models and checkpoints by the names that clients know, and without paths of this machine.
func (s *Server) clientError(err error) string {
	text := err.Error()
	runs := filepath.Join(s.Options.Store, "runs") + string(filepath.Separator)
	text = storePaths.ReplaceAllStringFunc(strings.ReplaceAll(text, runs, ""), func(found string) string {
		parts := append(strings.SplitN(found, "/", 3), "", "")
		id, kind, name := strings.ReplaceAll(parts[0], "_", ":"), parts[1], parts[2]
		if kind == store.Weights || kind == store.Sampler {
			return strings.TrimSuffix(store.Path(id, kind, name), "/")
		}
		return "model " + id
	})
	for name, b := range s.bases {
		if strings.ContainsRune(b.Dir, filepath.Separator) { // a relative name could be part of any word
			text = strings.ReplaceAll(strings.ReplaceAll(text, b.Dir+string(filepath.Separator), name+": "), b.Dir, name)
		}
	}
	return strings.ReplaceAll(text, s.Options.Store+string(filepath.Separator), "")
}
