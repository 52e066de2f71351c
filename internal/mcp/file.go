package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/openfile"
)

// Server is a server of the file: a command that speaks on standard input and output, or a URL.
type Server struct {
	Name    string
	Command string
	Args    []string
	Env     map[string]string // variables for it, besides those inherited by all
	Dir     string            // working directory; "": that of this process
	URL     string
	Headers map[string]string
	Tools   []string // offered to the model; nil: all
	Isolate bool     // each conversation has its own session
}

// entry is a server as written in the file. The last line has keys that other programs use, and that are ignored here.
type entry struct {
	Type      string            `json:"type"`
	Transport string            `json:"transport"`
	Command   string            `json:"command"`
	Args      []string          `json:"args"`
	Env       map[string]string `json:"env"`
	Headers   map[string]string `json:"headers"`
	Cwd       string            `json:"cwd"`
	URL       string            `json:"url"`
	Tools     []string          `json:"tools"`
	Isolate   bool              `json:"isolate"`
	Disabled  bool              `json:"disabled"`

	Timeout, AutoApprove, AlwaysAllow, Trust, Description json.RawMessage
}

// Read reads a file in the form that programs with tools share: {"mcpServers": {"files": {"command": "npx", "args": […]}}}. In all of
// its texts ${NAME} stands for an environment variable. The servers are sorted by name.
func Read(path string) ([]Server, error) {
	text, err := openfile.Read(path)
	if err != nil {
		return nil, badinput.Errorf("mcp: %w; expected a file such as %s", err, example)
	}
	var file struct {
		MCPServers map[string]json.RawMessage `json:"mcpServers"`
		Servers    map[string]json.RawMessage `json:"servers"`
		Inputs     json.RawMessage            // used by an editor
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // the byte order mark that some editors write
	if err = decode(text, &file); err != nil {
		return nil, badinput.Errorf("mcp: %s: %w; expected %s", path, err, example)
	}
	all := file.MCPServers
	if all == nil {
		all = file.Servers
	}
	var servers []Server
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var e entry
		if err = decode(all[name], &e); err != nil {
			return nil, badinput.Errorf("mcp: %s: server %q: %w; expected %s", path, name, err, example)
		}
		if e.Disabled {
			continue
		}
		s, err := e.server(name)
		if err != nil {
			return nil, badinput.Errorf("mcp: %s: server %q: %w", path, name, err)
		}
		servers = append(servers, s)
	}
	if len(servers) == 0 && len(all) > 0 {
		return nil, badinput.Errorf(`mcp: %s: all of its servers are "disabled"; take that out of one`, path)
	}
	if len(servers) == 0 {
		return nil, badinput.Errorf("mcp: %s names no server; expected %s", path, example)
	}
	return servers, nil
}

// decode parses JSON, refusing unknown keys and anything after the value. Errors are worded for the author of the file.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		return jsonl.CheckEnd(text, d.InputOffset())
	}
	return errors.New(strings.TrimPrefix(jsonl.Explain(err).Error(), "json: "))
}

const example = `{"mcpServers": {"files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/data"]}}}`

// server converts an entry, with the variables substituted.
func (e entry) server(name string) (s Server, err error) {
	kind := e.Type
	if kind == "" {
		kind = e.Transport
	}
	switch {
	case e.Command == "" && e.URL == "":
		return s, fmt.Errorf(`found neither "command" nor "url", expected one of them`)
	case e.Command != "" && e.URL != "":
		return s, fmt.Errorf(`found "command" and "url", expected one of them`)
	case e.Command != "" && (kind != "" && kind != "stdio"):
		return s, fmt.Errorf(`type: found %q beside "command", expected "stdio"`, kind)
	case e.URL != "" && !slices.Contains([]string{"", "http", "streamable-http", "streamableHttp"}, kind):
		return s, fmt.Errorf(`type: found %q beside "url", expected "http"; servers that spoke "sse" have it at another path, such as /mcp`,
			kind)
	case e.Command != "" && len(e.Headers) > 0:
		return s, fmt.Errorf(`headers: a command has none; name variables of it in "env"`)
	case e.URL != "" && (len(e.Args) > 0 || len(e.Env) > 0 || e.Cwd != ""):
		return s, fmt.Errorf(`"args", "env" and "cwd" are for a "command"; a "url" has "headers"`)
	}
	s = Server{Name: name, Command: e.Command, Args: slices.Clone(e.Args), Env: maps.Clone(e.Env), Dir: e.Cwd, URL: e.URL,
		Headers: maps.Clone(e.Headers), Tools: e.Tools, Isolate: e.Isolate}
	if err = s.fill(); err != nil {
		return s, err
	}
	if s.Dir != "" {
		if info, err := os.Stat(s.Dir); err != nil || !info.IsDir() {
			return s, fmt.Errorf("cwd: found %q, which is no directory here", s.Dir)
		}
	}
	if s.URL != "" {
		u, err := url.Parse(s.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return s, fmt.Errorf(`url: found %q, expected one such as "https://host/mcp"`, e.URL)
		}
	}
	return s, nil
}

var variable = regexp.MustCompile(`\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}`)

// fill substitutes variables.
func (s *Server) fill() error {
	var missing string
	put := func(text string) string {
		return variable.ReplaceAllStringFunc(text, func(found string) string {
			m := variable.FindStringSubmatch(found)
			value, set := os.LookupEnv(m[1])
			switch {
			case set:
				return value
			case m[2] == "":
				missing = m[1]
			}
			return strings.TrimPrefix(m[2], ":-")
		})
	}
	s.Command, s.Dir, s.URL = put(s.Command), put(s.Dir), put(s.URL)
	for i := range s.Args {
		s.Args[i] = put(s.Args[i])
	}
	for _, texts := range []map[string]string{s.Env, s.Headers} {
		for key := range texts {
			texts[key] = put(texts[key])
		}
	}
	if missing != "" {
		return fmt.Errorf("the variable %s is not set; type export %s=…", missing, missing)
	}
	return nil
}

// inherited are the environment variables that every command inherits.
var inherited = []string{"HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}

// environment is the environment of a command: the inherited variables, and those of the file.
func (s *Server) environment() (env []string) {
	for _, name := range inherited {
		if value, set := os.LookupEnv(name); set && s.Env[name] == "" {
			env = append(env, name+"="+value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		env = append(env, name+"="+s.Env[name])
	}
	return env
}

// String is the command or the URL, without what may be secret.
func (s *Server) String() string {
	if s.URL == "" {
		return s.Command
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return "its address"
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// withoutSecrets is an error's text without what may be secret in the URL.
func (s *Server) withoutSecrets(err error) string {
	if u, wrong := url.Parse(s.URL); wrong == nil && u.RawQuery != "" {
		return strings.ReplaceAll(err.Error(), "?"+u.RawQuery, "")
	}
	return err.Error()
}
