package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/destination"
	"github.com/seed-7879b91d/grpo/internal/serving"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
	"github.com/seed-7879b91d/grpo/internal/serving/sessions"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/store"
)

// checkSessions reads the configuration of sessions.
func (f *flags) checkSessions() (err error) {
	if f.store == "" && (f.storeBytes != 0 || f.keepSessions != 0) {
		return badinput.Errorf("--store-bytes and --keep-sessions need a store; type --store DIR, too")
	}
	if _, err := os.Stat(filepath.Join(f.store, "secret")); err != nil { // no store yet
		if err := (destination.Place{Flag: "--store", Path: f.store, IsDir: true}).Check(); err != nil {
			return err
		}
	}
	if f.store != "" {
		if err := store.Check(f.store); err != nil {
			return fmt.Errorf("--store: %w", err)
		}
	}
	if f.sessions == "" {
		return nil
	}
	if f.store == "" {
		return badinput.Errorf("--sessions needs a store; type --store DIR, too")
	}
	source := configs.Source{File: f.sessions}
	if presets := configs.Presets(); containsAll(strings.Split(f.sessions, ","), presets) {
		source = configs.Source{Preset: f.sessions}
	} else if _, err := os.Stat(f.sessions); errors.Is(err, fs.ErrNotExist) {
		return badinput.Errorf("--sessions: %q is neither a preset nor a file; type the path of a file, or one of %s", f.sessions,
			strings.Join(presets, ", "))
	}
	if f.base, err = configs.Load(source); err != nil {
		return fmt.Errorf("--sessions %s: %w", f.sessions, err)
	}
	return nil
}

func containsAll(words, known []string) bool {
	return !slices.ContainsFunc(words, func(word string) bool { return !slices.Contains(known, word) })
}

// extraRoutes are the routes besides OpenAI's.
func (f *flags) extraRoutes() []string {
	calls := []string{"POST /v1/load_lora_adapter", "POST /v1/unload_lora_adapter", "DELETE /v1/models/NAME"}
	if f.base != nil {
		calls = append(calls, "POST /v1/sessions", "those of a session below /v1/sessions/ID")
	}
	if f.store != "" {
		calls = append(calls, "Tinker's below /api/v1")
	}
	return calls
}

// noSessions answers if clients may not train.
func noSessions(w http.ResponseWriter, _ *http.Request) {
	refusal.Write(w, refusal.Errorf(http.StatusNotFound,
		"there are no training sessions here; start the server with --sessions tiny --store DIR (grpo serve --help)"))
}

// openSessions lets clients train with the trainer's steps.
func (f *flags) openSessions(host *serving.Host, mux *http.ServeMux, tinkerServer *tinker.Server, log *slog.Logger) (err error) {
	if f.base == nil {
		mux.HandleFunc("/v1/sessions", noSessions)
		mux.HandleFunc("/v1/sessions/", noSessions)
		return nil
	}
	f.trainers, err = sessions.New(sessions.Options{Store: f.store, Config: f.base, Host: host, Models: f.places, Log: log,
		MaxSessions: f.maxSessions, Owner: f.owner(), Retention: f.keepSessions, CheckSpace: tinkerServer.HasRoom})
	if err == nil {
		f.trainers.Register(mux)
	}
	return err
}
