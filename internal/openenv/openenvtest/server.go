// Package openenvtest is a server of OpenEnv's protocol with a small game: the reward of a message is its share of vowels.
package openenvtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

// Server is an http.Handler. Its fields are set before it serves.
type Server struct {
	Sessions int    // at a time; 0: no limit
	Plain    bool   // without WebSockets, with one session
	Seedless bool   // each session begins differently
	Turns    int    // of a game; 0: 3
	Schema   string // of an action; "": {"message": string}
	Token    string // that clients must send

	mu      sync.Mutex
	open    int
	opened  int
	most    int
	resets  int
	one     game
	Actions int // actions so far
}

// SessionCounts is the most sessions at a time, the number of sessions opened, and the number of open ones.
func (s *Server) SessionCounts() (most, opened, open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most, s.opened, s.open
}

// game is one session.
type game struct{ turn int }

type object = map[string]any

func (s *Server) reset(g *game, parameters object) object {
	s.mu.Lock()
	s.resets++
	theme := parameters["seed"]
	if s.Seedless || theme == nil {
		theme = s.resets
	}
	s.mu.Unlock()
	*g = game{}
	return object{"observation": object{"prompt": fmt.Sprintf("Say vowels about %.0f.", number(theme)), "messages": []any{}},
		"reward": nil, "done": false}
}

func number(v any) float64 {
	switch v := v.(type) {
	case float64:
		return v
	case int:
		return float64(v)
	}
	return -1
}

// step answers an action: a reply, an error if the action is invalid or the server is to fail, and whether the session is gone.
func (s *Server) step(g *game, action object) (reply object, invalid, broken string, gone bool) {
	text, ok := action["message"].(string)
	if !ok || len(action) != 1 {
		return nil, "message: expected a text and nothing else", "", false
	}
	s.mu.Lock()
	s.Actions++
	turns := s.Turns
	s.mu.Unlock()
	switch {
	case strings.Contains(text, "raise"):
		return nil, "", "division by zero", false
	case strings.Contains(text, "vanish"):
		return nil, "", "", true
	case turns == 0:
		turns = 3
	}
	vowels := 0
	for _, r := range text {
		if strings.ContainsRune("aeiou", r) {
			vowels++
		}
	}
	g.turn++
	share := float64(vowels) / float64(max(len(text), 1))
	return object{"observation": object{"reply": "so " + fmt.Sprint(vowels), "turn": g.turn, "note": nil}, "reward": share,
		"done": g.turn >= turns}, "", "", false
}

// ServeHTTP answers as such servers do.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.Token != "" && r.Header.Get("Authorization") != "Bearer "+s.Token {
		http.Error(w, "who are you", http.StatusForbidden)
		return
	}
	switch {
	case r.URL.Path == "/schema":
		schema := s.Schema
		if schema == "" {
			schema = `{"properties": {"metadata": {"type": "object"}, "message": {"type": "string"}}, "required": ["message"]}`
		}
		_, _ = fmt.Fprintf(w, `{"action": %s, "observation": {"properties": {"prompt": {}, "messages": {}, "reply": {}, "turn": {}, `+
			`"note": {}}}, "state": {}}`, schema)
	case r.URL.Path == "/ws" && !s.Plain:
		s.socket(w, r)
	case r.URL.Path == "/reset" || r.URL.Path == "/step":
		s.plainly(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (s *Server) plainly(w http.ResponseWriter, r *http.Request) {
	var asked object
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	var reply object
	if r.URL.Path == "/reset" {
		reply = s.reset(&s.one, asked)
	} else {
		action, _ := asked["action"].(object)
		var invalid, broken string
		if reply, invalid, broken, _ = s.step(&s.one, action); invalid != "" {
			http.Error(w, invalid, http.StatusUnprocessableEntity)
			return
		} else if reply == nil {
			http.Error(w, broken, http.StatusInternalServerError)
			return
		}
	}
	_ = json.NewEncoder(w).Encode(reply)
}

// enter counts a session, if there is room for it.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Sessions > 0 && s.open >= s.Sessions {
		return false
	}
	s.open++
	s.opened++
	s.most = max(s.most, s.open)
	return true
}

func (s *Server) socket(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close(websocket.StatusNormalClosure, "") }()
	say := func(kind string, data any) bool {
		return wsjson.Write(r.Context(), conn, object{"type": kind, "data": data}) == nil
	}
	if !s.enter() {
		say("error", object{"code": "CAPACITY_REACHED", "message": "no session is free"})
		return
	}
	defer func() {
		s.mu.Lock()
		s.open--
		s.mu.Unlock()
	}()
	var g game
	for {
		var asked struct {
			Type string
			Data object
		}
		if wsjson.Read(r.Context(), conn, &asked) != nil || asked.Type == "close" {
			return
		}
		told := false
		switch asked.Type {
		case "reset":
			told = say("observation", s.reset(&g, asked.Data))
		case "step":
			reply, invalid, broken, gone := s.step(&g, asked.Data)
			switch {
			case gone:
				_ = conn.CloseNow()
			case invalid != "":
				told = say("error", object{"code": "VALIDATION_ERROR", "message": "Invalid message", "errors": []string{invalid}})
			case broken != "":
				told = say("error", object{"code": "EXECUTION_ERROR", "message": broken})
			default:
				told = say("observation", reply)
			}
		default:
			told = say("error", object{"code": "UNKNOWN_TYPE", "message": asked.Type})
		}
		if !told {
			return
		}
	}
}
