package gate

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// limitListener is a listener with a limit on connections. A connection is a stranger until the gate admits a request of it. When the
// limit is reached, the oldest stranger is closed, so that idle connections keep nobody out; if there is none, the new one is closed.
type limitListener struct {
	net.Listener
	most int

	mu        sync.Mutex // guards the following fields
	open      int
	strangers list.List // of *visitor, the oldest in front
}

// visitor is a connection that was accepted.
type visitor struct {
	net.Conn
	in       *limitListener
	stranger *list.Element // nil: not a stranger, or closed; guarded by in.mu
	once     sync.Once
}

func (c *limitListener) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if first := c.first(); first != nil {
			first.Close()
		}
		if v := c.enter(conn); v != nil {
			return v, nil
		}
		conn.Close() // the client sees that there is no room
	}
}

// first is the stranger to close; nil if there is room.
func (c *limitListener) first() *visitor {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open < c.most || c.strangers.Len() == 0 {
		return nil
	}
	return c.strangers.Front().Value.(*visitor)
}

func (c *limitListener) enter(conn net.Conn) *visitor {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open >= c.most {
		return nil
	}
	c.open++
	v := &visitor{Conn: conn, in: c}
	v.stranger = c.strangers.PushBack(v)
	return v
}

// known removes a connection from the strangers; the listener's lock is held.
func (v *visitor) known() {
	if v.stranger != nil {
		v.in.strangers.Remove(v.stranger)
		v.stranger = nil
	}
}

func (v *visitor) Close() error {
	v.once.Do(func() {
		v.in.mu.Lock()
		defer v.in.mu.Unlock()
		v.in.open--
		v.known()
	})
	return v.Conn.Close()
}

// visitorKey is the context key of a request's connection.
type visitorKey struct{}

func withVisitor(ctx context.Context, conn net.Conn) context.Context {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	return context.WithValue(ctx, visitorKey{}, conn)
}

// keepConnection keeps the connection of a request: it is no stranger any more.
func keepConnection(ctx context.Context) {
	if v, ok := ctx.Value(visitorKey{}).(*visitor); ok {
		v.in.mu.Lock()
		defer v.in.mu.Unlock()
		v.known()
	}
}
