package sessions

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/remote"
	"github.com/seed-7879b91d/grpo/internal/serving"
	"github.com/seed-7879b91d/grpo/internal/serving/body"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// save keeps the adapter of the last step, and serves it if the request gives a name.
func (s *Server) save(w http.ResponseWriter, r *http.Request, n *session) error {
	return n.handleKeep(w, r, "save", func(ctx context.Context, ask remote.SaveRequest) (remote.Saved, error) {
		if n.isFinished() {
			return remote.Saved{}, finished()
		}
		if err := s.room(); err != nil {
			return remote.Saved{}, err
		}
		return n.keep(ctx, ask.ServeAs)
	})
}

// finish keeps the adapter, and ends the training.
func (s *Server) finish(w http.ResponseWriter, r *http.Request, n *session) error {
	return n.handleKeep(w, r, "finish", func(ctx context.Context, ask remote.SaveRequest) (saved remote.Saved, err error) {
		if n.isFinished() { // the request was repeated
			now := n.stateNow()
			if ask.ServeAs != "" && ask.ServeAs != now.ServedAs {
				return saved, finished()
			}
			return n.saved(now.Saved[len(now.Saved)-1]), nil
		}
		if saved, err = n.keep(ctx, ask.ServeAs); err == nil {
			err = errors.Join(n.leave(), n.write(func(r *record) { r.Finished = true }))
		}
		return saved, err
	})
}

func (n *session) handleKeep(w http.ResponseWriter, r *http.Request, what string,
	keep func(context.Context, remote.SaveRequest) (remote.Saved, error)) error {
	var ask remote.SaveRequest
	text, err := body.Read(r, &ask)
	if err != nil {
		return err
	}
	if ask.ServeAs != "" {
		if err := serving.CheckName(ask.ServeAs); err != nil {
			return misnamed(err)
		}
	}
	key := fmt.Sprintf("%s %s after step %d", what, sumOf(text), n.stateNow().Steps)
	return n.do(w, r, key, "", func(ctx context.Context) ([]byte, error) {
		saved, err := keep(ctx, ask)
		if err != nil {
			return nil, err
		}
		return json.Marshal(saved)
	})
}

func (n *session) savedDir(step int) string {
	return filepath.Join(n.file(savedFolder), strconv.Itoa(step))
}

func (n *session) saved(step int) remote.Saved {
	n.mu.Lock()
	defer n.mu.Unlock()
	saved := remote.Saved{Step: step, Adapter: fmt.Sprintf("/v1/sessions/%s/saved/%d", n.ID, step)}
	if n.record.served() == step {
		saved.ServedAs = n.record.ServedAs
	}
	return saved
}

// served is the step whose adapter is served; the record has a saved one.
func (r *record) served() int {
	if r.Served != nil {
		return *r.Served
	}
	return r.Saved[len(r.Saved)-1]
}

// keep records that the adapter of a step was saved, and served if there is a name.
func (r *record) keep(step int, serveAs string) {
	if serveAs != "" {
		r.ServedAs, r.Served = serveAs, &step
	} else if r.ServedAs != "" {
		before := r.served()
		r.Served = &before
	}
	r.Saved = append(slices.DeleteFunc(slices.Clone(r.Saved), func(s int) bool { return s == step }), step)
}

// files are the files of an adapter.
var files = []string{"adapter_config.json", "adapter_model.safetensors"}

// keep copies the adapter of the last step into the folder of saved ones.
func (n *session) keep(ctx context.Context, serveAs string) (saved remote.Saved, err error) {
	t, err := n.open(ctx)
	if err != nil {
		return saved, err
	}
	checkpoint, err := t.Save(ctx)
	if err != nil {
		return saved, err
	}
	step, dir := t.StepsDone(), n.savedDir(t.StepsDone())
	if !slices.Contains(n.stateNow().Saved, step) {
		if err := os.RemoveAll(dir); err != nil { // left by a process that was killed
			return saved, err
		}
		if err := atomicfile.WriteDir(dir, func(unfinished string) error {
			for _, name := range files {
				text, err := os.ReadFile(filepath.Join(checkpoint, provenance.AdapterDir, name))
				if err == nil {
					err = atomicfile.WriteBytes(filepath.Join(unfinished, name), text)
				}
				if err != nil {
					return err
				}
			}
			return provenance.CopyBase(filepath.Join(checkpoint, provenance.AdapterDir), unfinished)
		}); err != nil {
			return saved, err
		}
	}
	if err := n.serve(serveAs, dir); err != nil {
		return saved, misnamed(err)
	}
	err = n.write(func(r *record) { r.keep(step, serveAs) })
	return n.saved(step), err
}

// serve serves an adapter by that name; the session's earlier name is removed.
func (n *session) serve(name, dir string) error {
	before := n.spoken
	switch {
	case name == "":
		return nil
	case name == before:
		return n.s.Host.ReplaceAdapter(name, dir)
	}
	if err := n.s.Host.LoadAdapter(name, n.Model, dir); err != nil {
		return err
	}
	if n.spoken = name; before == "" {
		return nil
	}
	return n.s.Host.UnloadAdapter(before)
}

// archive sends a saved adapter as a tar.
func (s *Server) archive(w http.ResponseWriter, r *http.Request, n *session) error {
	step, err := number(r.PathValue("step"))
	if err != nil {
		return err
	}
	if kept := n.stateNow().Saved; !slices.Contains(kept, step) {
		return refusal.Errorf(http.StatusNotFound, "step %d was not saved; %s", step, keptSteps(kept))
	}
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="adapter-%d.tar"`, step))
	if err := pack(w, n.savedDir(step)); err != nil {
		s.Log.Warn("an archive was not sent completely", "error", err)
		panic(http.ErrAbortHandler) // abort the connection, or what was sent would look complete
	}
	return nil
}

// keptSteps lists steps for messages.
func keptSteps(kept []int) string {
	if len(kept) == 0 {
		return "none is yet: POST …/save keeps the adapter of the last step"
	}
	var all []string
	for _, step := range slices.Sorted(slices.Values(kept)) {
		all = append(all, strconv.Itoa(step))
	}
	return "there are: " + strings.Join(all, ", ")
}

func pack(w io.Writer, dir string) error {
	out := tar.NewWriter(w)
	for _, name := range files {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err == nil {
			err = out.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: info.Size(), ModTime: info.ModTime()})
		}
		if err == nil {
			_, err = io.Copy(out, f)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return out.Close()
}

// delete ends a session and removes it.
func (s *Server) delete(w http.ResponseWriter, r *http.Request, n *session) error {
	s.mu.Lock()
	there := s.hide(n) // false: another request is removing it
	s.mu.Unlock()
	if !there {
		return unknownSession(n.ID)
	}
	n.end()
	last := &job{over: make(chan struct{})}
	n.mu.Lock()
	n.queue = append(n.queue, last)
	if !n.working {
		n.working = true
		s.work.Go(n.runJobs)
	}
	n.mu.Unlock()
	<-last.over // the jobs have ended
	err := n.leave()
	if n.spoken != "" {
		err = errors.Join(err, s.Host.UnloadAdapter(n.spoken))
	}
	s.forget(n)
	if err != nil {
		return err
	}
	return body.Write(w, http.StatusOK, map[string]any{"id": n.ID, "deleted": true})
}

// misnamed turns the error of a wrong name into a refusal for the client; other errors are returned unchanged.
func misnamed(err error) error {
	if e := (*serving.NameError)(nil); errors.As(err, &e) {
		return refusal.Field("serve_as", "%s; send another serve_as", e.Problem)
	}
	return err
}
