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

// started is when what is embedded was last changed, as far as a browser is concerned.
var started = time.Now()

// lasting is how long a ticket is good for.
const lasting = 12 * time.Hour

// tickets are for who showed a key and opens something that a browser sends none with. They are good for as long as the
// process is there, at the most.
type tickets struct {
	secret []byte
	now    func() time.Time
}

func newTickets() tickets {
	secret := make([]byte, sha256.Size)
	rand.Read(secret)
	return tickets{secret, time.Now}
}

// issue makes a ticket: when it ends, and a seal on that.
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
