// Package adapters lets clients load and unload adapters while a server runs, with the calls that vLLM has for it. Only
// adapters below one directory can be loaded.
package adapters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving"
	"github.com/seed-7879b91d/grpo/internal/serving/body"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// Options of a server.
type Options struct {
	Dir string // that adapters may be loaded from, as returned by Directory; "": no loading
	// Authorize returns why a request may neither load nor unload; nil: all may.
	Authorize func(r *http.Request) error
	// OnChange is called with the number of loaded adapters after each change.
	OnChange func(loaded int)
	// OnError is called with every request that is refused.
	OnError func(r *http.Request, err error)
}

// Server loads and unloads adapters.
type Server struct {
	Options
	host  *serving.Host
	names names

	mu     sync.Mutex
	loaded map[string]bool // loaded by requests; only these can be unloaded
}

// Directory is the absolute path of a directory for adapters, with links resolved.
func Directory(name string) (string, error) {
	info, err := os.Stat(name)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is a file", name)
	}
	if err != nil {
		return "", badinput.Errorf("%w; type a directory that has adapters below it", err)
	}
	return filepath.Abs(name)
}

// New makes a server for a host.
func New(host *serving.Host, o Options) *Server {
	return &Server{Options: o, host: host, loaded: map[string]bool{}}
}

// Register adds the routes to a server's.
func (s *Server) Register(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/load_lora_adapter", s.answered(s.load))
	mux.HandleFunc("POST /v1/unload_lora_adapter", s.answered(s.unload))
	mux.HandleFunc("DELETE /v1/models/{name...}", s.answered(s.remove))
}

func (s *Server) answered(call func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := error(nil)
		if s.Authorize != nil {
			err = s.Authorize(r)
		}
		if err == nil {
			err = call(w, r)
		}
		if err != nil {
			if s.OnError != nil {
				s.OnError(r, err)
			}
			refusal.Write(w, err)
		}
	}
}

// loadRequest is the body that vLLM's clients send.
type loadRequest struct {
	Name    string `json:"lora_name"`
	Path    string `json:"lora_path"`
	Inplace bool   `json:"load_inplace"`
	Base    string `json:"base_model_name"` // needed if there are several models
	ID      *int64 `json:"lora_int_id"`     // the ID in their engine; not used
}

func (s *Server) load(w http.ResponseWriter, r *http.Request) error {
	var a loadRequest
	if _, err := body.Read(r, &a); err != nil {
		return err
	}
	if a.Name == "" || a.Path == "" {
		return refusal.Field("lora_name", "found %q with lora_path %q, expected both", a.Name, a.Path)
	}
	if err := serving.CheckName(a.Name); err != nil {
		return misnamed(err)
	}
	dir, err := s.find(a.Path)
	if err != nil {
		return err
	}
	leave, err := s.names.take(r.Context(), a.Name)
	if err != nil {
		return err
	}
	defer leave()
	switch there := s.has(a.Name); {
	case there && !a.Inplace:
		return refusal.Field("lora_name", "%q is loaded already; unload it first, or send \"load_inplace\": true", a.Name)
	case there:
		if err = s.over(a.Name, a.Base); err == nil {
			err = s.host.ReplaceAdapter(a.Name, dir)
		}
	default:
		if err = s.host.LoadAdapter(a.Name, a.Base, dir); err == nil {
			s.note(a.Name, true)
		}
	}
	if err != nil {
		return explain(misnamed(err), dir, a.Path)
	}
	return say(w, "Success: LoRA adapter '%s' added successfully.", a.Name)
}

// over refuses to replace an adapter by one over another model; base "" means the same model.
func (s *Server) over(name, base string) error {
	now, err := s.host.Find(name)
	if err == nil && base != "" && base != now.Base {
		return refusal.Field("base_model_name", "found %q, but the base model of %q is %q; unload it first, or leave base_model_name out",
			refusal.Truncate(base, 200), name, now.Base)
	}
	return err
}

// find is the path of the adapter that a client names: below the server's directory, and without leaving it.
func (s *Server) find(given string) (string, error) {
	if s.Dir == "" {
		return "", refusal.Errorf(http.StatusForbidden,
			"this server loads no adapters; start it with --adapters DIR, the directory that contains them")
	}
	outside := &refusal.Error{Status: http.StatusForbidden, Param: "lora_path", Message: fmt.Sprintf(
		"lora_path: found %q, expected the directory of an adapter, relative to the directory of --adapters",
		refusal.Truncate(given, 200))}
	local := given
	if filepath.IsAbs(given) {
		rel, err := filepath.Rel(s.Dir, filepath.Clean(given))
		if err != nil {
			return "", outside
		}
		local = rel
	}
	if !filepath.IsLocal(local) || strings.ContainsRune(local, 0) {
		return "", outside
	}
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	for _, name := range []string{"adapter_config.json", "adapter_model.safetensors"} {
		info, err := root.Stat(filepath.Join(local, name)) // a root follows no link out of its directory
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", &refusal.Error{Status: http.StatusNotFound, Param: "lora_path",
				Message: fmt.Sprintf("lora_path: there is no %s in %q%s", name, refusal.Truncate(given, 200), suggestAdapter(root, local))}
		case err != nil || !info.Mode().IsRegular():
			return "", outside
		}
	}
	return filepath.Join(s.Dir, local), nil
}

// suggestAdapter suggests the adapter of a run's last checkpoint, or of a checkpoint, if the client named that run or checkpoint.
func suggestAdapter(root *os.Root, local string) string {
	for _, pattern := range []string{"adapter", "checkpoints/step_*/adapter"} {
		if found, err := fs.Glob(root.FS(), path.Join(filepath.ToSlash(local), pattern)); err == nil && len(found) > 0 {
			return fmt.Sprintf("; there is one in %q", refusal.Truncate(found[len(found)-1], 200))
		}
	}
	return ""
}

func (s *Server) unload(w http.ResponseWriter, r *http.Request) error {
	var a loadRequest
	if _, err := body.Read(r, &a); err != nil {
		return err
	}
	if a.Name == "" {
		return refusal.Field("lora_name", "missing, expected the name of an adapter that a request loaded")
	}
	if err := s.drop(r.Context(), "lora_name", a.Name); err != nil {
		return err
	}
	return say(w, "Success: LoRA adapter '%s' removed successfully.", a.Name)
}

// remove is unload with OpenAI's call.
func (s *Server) remove(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if err := s.drop(r.Context(), "model", name); err != nil {
		return err
	}
	return body.Write(w, http.StatusOK, map[string]any{"id": name, "object": "model", "deleted": true})
}

// drop unloads an adapter, and waits until the requests that use it are done.
func (s *Server) drop(ctx context.Context, field, name string) error {
	leave, err := s.names.take(ctx, name)
	if err != nil {
		return err
	}
	defer leave()
	if !s.note(name, false) {
		if _, err := s.host.Find(refusal.Truncate(name, 200)); err != nil {
			return &refusal.Error{Status: http.StatusNotFound, Param: field, Code: "model_not_found", Message: err.Error()}
		}
		return &refusal.Error{Status: http.StatusForbidden, Param: field,
			Message: fmt.Sprintf("%s: %q was not loaded by a request, so no request can unload it", field, name)}
	}
	if err := s.host.UnloadAdapter(name); err != nil {
		return explain(err, "", "")
	}
	return nil
}

func (s *Server) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loaded[name]
}

// note records that an adapter was loaded or unloaded, and reports whether it was loaded before.
func (s *Server) note(name string, loaded bool) (was bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was = s.loaded[name]
	if delete(s.loaded, name); loaded {
		s.loaded[name] = true
	}
	if s.OnChange != nil {
		s.OnChange(len(s.loaded))
	}
	return was
}

// explain gives an error of the host a status, and replaces paths of this machine by those that the client sent.
func explain(err error, dir, path string) error {
	var missing *serving.NotFoundError
	var known *refusal.Error
	status := http.StatusBadRequest
	switch {
	case errors.As(err, &known):
		return err
	case errors.As(err, &missing):
		status = http.StatusNotFound
	case errors.Is(err, serving.ErrFull):
		status = http.StatusConflict
	case !badinput.Is(err):
		return err
	}
	text := err.Error()
	if dir != "" {
		text = strings.ReplaceAll(text, dir, path)
		text = strings.ReplaceAll(text, filepath.Dir(dir), filepath.Dir(path)) // the checkpoint that it is part of
	}
	return refusal.Errorf(status, "%s", text)
}

func say(w http.ResponseWriter, format string, args ...any) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err := io.WriteString(w, fmt.Sprintf(format, args...)+"\n")
	return err
}

// misnamed turns the error of a wrong name into a refusal for the client; other errors are returned unchanged.
func misnamed(err error) error {
	if e := (*serving.NameError)(nil); errors.As(err, &e) {
		return refusal.Field("lora_name", "%s; send another lora_name", e.Problem)
	}
	return err
}
