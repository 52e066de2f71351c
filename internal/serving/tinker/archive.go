package tinker

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/store"
)

// archived are the files of an archive.
var archived = []string{"adapter_config.json", "adapter_model.safetensors"}

// valid is how long the URL of an archive is valid.
const valid = time.Hour

// ticket is the signed content of an archive's URL. Who has the URL needs no key.
type ticket struct {
	Run, Kind, Name string
	Seq             int64 // of the request that saved it, as a name may be saved again
	Until           int64 // in seconds
}

var errTicket = notFound(badinput.Errorf("this is no address of an archive, or it has expired; request another"))

func (s *Server) sign(payload string) string {
	mac := hmac.New(sha256.New, s.store.Secret)
	mac.Write([]byte(payload))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// archiveAddress redirects a client to the archive of a checkpoint.
func (s *Server) archiveAddress(w http.ResponseWriter, r *http.Request) {
	path := store.Path(r.PathValue("run"), r.PathValue("kind"), r.PathValue("name"))
	c, m, err := s.checkpoint(s.who(r), "path", path) // who may load it may have it
	if badinput.Is(err) {
		err = notFound(err)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	until := time.Now().Add(valid)
	text, _ := json.Marshal(ticket{m.ID, c.Kind, c.Name, c.Seq, until.Unix()}) // strings and numbers can always be encoded
	payload := base64.RawURLEncoding.EncodeToString(text)
	w.Header().Set("Location", mount(r)+prefix+"archives/"+payload+"."+s.sign(payload))
	w.Header().Set("Expires", until.UTC().Format(http.TimeFormat))
	w.WriteHeader(http.StatusFound)
}

// open finds the checkpoint of a ticket.
func (s *Server) open(token string) (c store.Checkpoint, err error) {
	payload, mac, _ := strings.Cut(token, ".")
	var t ticket
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil || !hmac.Equal([]byte(mac), []byte(s.sign(payload))) || json.Unmarshal(text, &t) != nil || time.Now().Unix() > t.Until {
		return c, errTicket
	}
	s.mu.Lock()
	m := s.runs[t.Run] // no check of the owner: the ticket was issued to them
	s.mu.Unlock()
	if m == nil {
		return c, errTicket
	}
	if c, err = m.Find(t.Kind, t.Name); err != nil || c.Seq != t.Seq {
		return c, errTicket
	}
	return c, nil
}

// archive sends the adapter of a checkpoint as a tar. It opens all files first, so that errors get a status.
func (s *Server) archive(w http.ResponseWriter, r *http.Request) {
	c, err := s.open(r.PathValue("token"))
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for _, name := range archived {
		if err != nil {
			break
		}
		var f *os.File
		if f, err = os.Open(filepath.Join(c.Dir, name)); err == nil {
			files = append(files, f)
		}
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-tar")
	if n := store.PackedSize(files); n > 0 {
		w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	}
	if err := store.Pack(w, files, c.Time); err != nil {
		s.Log.Warn("an archive was not sent completely", "error", err)
		panic(http.ErrAbortHandler) // abort the connection, or what was sent would look complete
	}
}
