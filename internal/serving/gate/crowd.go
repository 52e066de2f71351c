package gate

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// crowd is a listener that has so many connections at a time. Where there are more, the stranger among them who came first has to
// go: whoever opens connections and asks nothing keeps nobody out. If all are known, it is the one that comes who is turned away.
type crowd struct {
	net.Listener
	most int

	mu        sync.Mutex // guards what follows
	open      int
	strangers list.List // of *visitor, the one that came first in front
}

// visitor is a connection.
type visitor struct {
	net.Conn
	in       *crowd
	stranger *list.Element // nil: a request of it was let through, or it is closed; guarded by in.mu
	once     sync.Once
}

func (c *crowd) Accept() (net.Conn, error) {
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
		conn.Close() // whoever sent it learns that there is no room
	}
}

// first is the stranger who has to go, nil where there is room.
func (c *crowd) first() *visitor {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open < c.most || c.strangers.Len() == 0 {
		return nil
	}
	return c.strangers.Front().Value.(*visitor)
}

func (c *crowd) enter(conn net.Conn) *visitor {
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

// known makes a stranger one who may stay; the crowd's lock is held.
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

// visitorKey is the key of the connection that a request came by.
type visitorKey struct{}

func withVisitor(ctx context.Context, conn net.Conn) context.Context {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	return context.WithValue(ctx, visitorKey{}, conn)
}

// stays lets the connection of a request stay.
func stays(ctx context.Context) {
	if v, ok := ctx.Value(visitorKey{}).(*visitor); ok {
		v.in.mu.Lock()
		defer v.in.mu.Unlock()
		v.known()
	}
}
