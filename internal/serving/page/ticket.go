package page

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// lasting is how long a ticket is valid.
const lasting = 12 * time.Hour

// tickets are for requests that a browser sends without a key, after its user has shown one. They are signed with a key
// of this process, and end with it at the latest.
type tickets struct {
	secret []byte
	now    func() time.Time
}

func newTickets() tickets {
	secret := make([]byte, sha256.Size)
	rand.Read(secret)
	return tickets{secret, time.Now}
}

// issue makes a ticket: its expiry time, signed.
func (t *tickets) issue() string {
	end := strconv.FormatInt(t.now().Add(lasting).Unix(), 10)
	return end + "." + t.seal(end)
}

func (t *tickets) seal(end string) string {
	h := hmac.New(sha256.New, t.secret)
	h.Write([]byte(end))
	return hex.EncodeToString(h.Sum(nil))
}

func (t *tickets) valid(ticket string) bool {
	end, seal, _ := strings.Cut(ticket, ".")
	if !hmac.Equal([]byte(seal), []byte(t.seal(end))) {
		return false
	}
	at, err := strconv.ParseInt(end, 10, 64)
	return err == nil && t.now().Before(time.Unix(at, 0))
}
