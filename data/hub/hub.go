// Package hub downloads files of Hugging Face repositories into the standard cache
// ($HF_HOME/hub/datasets--owner--name/{blobs,refs,snapshots}), shared with every other tool that
// uses it. It knows nothing of what the files hold.
//
// It is written on net/http because the ready-made Go client does not do what large downloads over
// real networks need: it starts over after a broken transfer, refuses the Hub's redirects to its
// storage, never compares what arrived with the size and hash the Hub announced, and has neither
// retries nor an offline mode.
package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/cachedir"
	"github.com/seed-7879b91d/grpo/internal/notice"
)

// Client talks to one Hub and keeps one cache.
type Client struct {
	// Endpoint is the Hub, without a slash at the end.
	Endpoint string
	// Token is sent to the Endpoint, and to no other host; "" sends none.
	Token string
	// Cache is the folder that holds the folders of the repositories.
	Cache string
	// Offline answers from the cache alone.
	Offline bool

	user    *url.Userinfo // from the URL of the Endpoint; kept apart so that no message shows it
	notice  string        // a warning about the cache for its first use
	settled sync.Once     // a writable cache was chosen
	held    string        // the configured cache, if it can only be read; else ""

	stall time.Duration                                    // a transfer that sends nothing for this long is aborted
	sleep func(ctx context.Context, d time.Duration) error // waits between attempts
	free  func(dir string) (bytes int64, known bool)       // space left on the disk
	http  *http.Client
}

// New returns a client for the Hub at endpoint with the cache in the given folder.
func New(endpoint, token, cache string) *Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = 30 * time.Second
	var user *url.Userinfo
	if at, err := url.Parse(endpoint); err == nil && at.User != nil {
		user, at.User = at.User, nil
		endpoint = at.String()
	}
	return &Client{
		Endpoint: strings.TrimRight(endpoint, "/"), Token: token, Cache: cache, user: user,
		stall: time.Minute, sleep: sleep, free: free,
		http: &http.Client{Transport: transport, CheckRedirect: redirect},
	}
}

// FromEnv returns a client as the environment describes it: HF_ENDPOINT, HF_TOKEN or HUGGING_FACE_HUB_TOKEN (or the file
// HF_TOKEN_PATH, or $HF_HOME/token), HF_HUB_CACHE, HF_HOME, HF_HUB_OFFLINE.
func FromEnv() (*Client, error) {
	home, notice := os.Getenv("HF_HOME"), ""
	if cache, err := cachedir.User(); home == "" && err == nil {
		home = filepath.Join(cache, "huggingface")
	} else if home == "" {
		if home, notice, err = cachedir.Find("huggingface"); err != nil {
			return nil, badinput.Errorf("no folder for downloads: %w", err)
		}
	}
	token := strings.TrimSpace(orElse(os.Getenv("HF_TOKEN"), os.Getenv("HUGGING_FACE_HUB_TOKEN")))
	if token == "" {
		text, err := os.ReadFile(orElse(os.Getenv("HF_TOKEN_PATH"), filepath.Join(home, "token")))
		if err != nil && !os.IsNotExist(err) {
			return nil, badinput.Errorf("read the token: %w; or set HF_TOKEN", err)
		}
		token = strings.TrimSpace(string(text))
	}
	c := New(orElse(os.Getenv("HF_ENDPOINT"), "https://huggingface.co"), token,
		orElse(os.Getenv("HF_HUB_CACHE"), filepath.Join(home, "hub")))
	if os.Getenv("HF_HUB_CACHE") == "" {
		c.notice = notice
	}
	switch strings.ToUpper(os.Getenv("HF_HUB_OFFLINE")) {
	case "1", "ON", "YES", "TRUE":
		c.Offline = true
	}
	return c, nil
}

func orElse(s, or string) string {
	if s != "" {
		return s
	}
	return or
}

// Type is what a repository holds.
type Type string

const (
	Dataset Type = "dataset"
	Model   Type = "model"
)

// Repo names a repository. An empty Revision means "main".
type Repo struct {
	Type     Type
	ID       string // owner/name
	Revision string
}

func (r Repo) String() string {
	if r.Revision == "main" {
		return r.ID
	}
	return r.ID + "@" + r.Revision
}

// Snapshot is a repository at one commit.
type Snapshot struct {
	// Commit is the full hash that the revision stood for.
	Commit string
	// Files are the paths of all its files, in order.
	Files []string

	client *Client
	asked  *Client // the client it was made with, if client now uses another cache; nil: client
	repo   Repo
}

// String names the repository.
func (s *Snapshot) String() string { return s.repo.String() }

// Dir is the folder in which the downloaded files of the snapshot lie under their own names.
func (s *Snapshot) Dir() string {
	return filepath.Join(s.client.folder(s.repo), "snapshots", s.Commit)
}

func (c *Client) folder(r Repo) string {
	return filepath.Join(c.Cache, string(r.Type)+"s--"+strings.ReplaceAll(r.ID, "/", "--"))
}

var (
	repoID     = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9_][\w.-]*)?$`)
	commitHash = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// settle chooses a writable cache. If that is not the configured one, files of the configured one are still read.
func (c *Client) settle(ctx context.Context) (err error) {
	c.settled.Do(func() {
		cache, why, variable := "", "", "HF_HOME"
		if os.Getenv("HF_HUB_CACHE") != "" {
			variable = "HF_HUB_CACHE"
		}
		if cache, why, err = cachedir.OrTemp(c.Cache, filepath.Join("huggingface", "hub"), variable); err == nil && cache != c.Cache {
			c.held, c.Cache = c.Cache, cache
		}
		notice.Warn(ctx, orElse(why, c.notice))
	})
	return err
}

// Snapshot looks up the commit and the files of a repository. Offline it returns what the cache knows of the revision.
func (c *Client) Snapshot(ctx context.Context, repo Repo) (*Snapshot, error) {
	repo.Revision = orElse(repo.Revision, "main")
	if !repoID.MatchString(repo.ID) || strings.Contains(repo.Revision, "..") {
		return nil, badinput.Errorf("%q is not the name of a repository on the Hub (owner/name)", repo)
	}
	s := &Snapshot{client: c, repo: repo}
	if c.Offline {
		return s, s.fromCache()
	}
	if err := c.checkEndpoint(); err != nil {
		return nil, err
	}
	if err := c.settle(ctx); err != nil {
		return nil, badinput.Errorf("%w", err)
	}
	return s, s.fromHub(ctx)
}

func (s *Snapshot) listingPath() string {
	return filepath.Join(s.client.folder(s.repo), "listings", s.Commit+".json")
}

func (s *Snapshot) refPath() string {
	return filepath.Join(s.client.folder(s.repo), "refs", filepath.FromSlash(s.repo.Revision))
}

// fromHub asks the Hub for the commit and the files, and caches both for offline use.
func (s *Snapshot) fromHub(ctx context.Context) error {
	c := s.client
	address := fmt.Sprintf("%s/api/%ss/%s/revision/%s", c.Endpoint, s.repo.Type, s.repo.ID, url.PathEscape(s.repo.Revision))
	var answer struct {
		SHA      string `json:"sha"`
		Siblings []struct {
			Name string `json:"rfilename"`
		} `json:"siblings"`
	}
	err := c.retry(ctx, func() (bool, error) {
		text, err := c.read(ctx, address, s.repo)
		if err != nil {
			return false, err
		}
		if err := json.Unmarshal(text, &answer); err != nil {
			return false, fmt.Errorf("the Hub at %s did not answer with JSON: %w", c.Endpoint, err)
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("look up %s: %w", s.repo, err)
	}
	if !commitHash.MatchString(answer.SHA) {
		return fmt.Errorf("look up %s: the Hub at %s answered without a commit", s.repo, c.Endpoint)
	}
	s.Commit = answer.SHA
	for _, f := range answer.Siblings {
		name := path.Clean(f.Name)
		if name == "." || !filepath.IsLocal(filepath.FromSlash(name)) || strings.ContainsRune(name, 0) {
			return fmt.Errorf("%s holds a file named %q, which would lie outside the cache", s.repo, f.Name)
		}
		s.Files = append(s.Files, name)
	}
	slices.Sort(s.Files)
	s.Files = slices.Compact(s.Files)
	return s.note()
}

// note caches the listing, so that offline use knows which files are missing, and points the revision to the commit.
func (s *Snapshot) note() error {
	listing, err := json.Marshal(s.Files)
	if err != nil {
		return err
	}
	if err := writeFile(s.listingPath(), listing); err != nil {
		return err
	}
	if s.repo.Revision == s.Commit {
		return nil
	}
	return writeFile(s.refPath(), []byte(s.Commit))
}

func writeFile(name string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return atomicfile.WriteBytes(name, text)
}

// fromCache finds the commit and the files in the cache. Other tools write no listing; without one, the files are those that
// were downloaded.
func (s *Snapshot) fromCache() error {
	s.Commit = s.repo.Revision
	if !commitHash.MatchString(s.Commit) {
		text, err := os.ReadFile(s.refPath())
		if err != nil {
			return s.missing("")
		}
		s.Commit = strings.TrimSpace(string(text))
	}
	if !commitHash.MatchString(s.Commit) {
		return badinput.Errorf("%s: found %q, expected a commit; remove the file and fetch again", s.refPath(), s.Commit)
	}
	if text, err := os.ReadFile(s.listingPath()); err == nil {
		if err := json.Unmarshal(text, &s.Files); err != nil {
			return badinput.Errorf("%s: %w; remove the file and fetch again", s.listingPath(), err)
		}
		return nil
	}
	err := fs.WalkDir(os.DirFS(s.Dir()), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			s.Files = append(s.Files, name)
		}
		return err
	})
	if err != nil {
		return s.missing("")
	}
	return nil
}

// missing is the error for a file that the cache lacks, or with "" for the whole repository.
func (s *Snapshot) missing(file string) error {
	what := s.repo.String()
	if file != "" {
		what = file + " of " + what
	}
	return badinput.Errorf("%s is not in the cache %s, and HF_HUB_OFFLINE forbids the download; unset it and try again",
		what, s.client.Cache)
}
