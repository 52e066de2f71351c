package sandbox

import (
	"context"
	"testing"
)

func TestOpen(t *testing.T) {
	p, err := Open(context.Background(), Options{Slots: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	t.Logf("%+v", p.Isolation())
}
