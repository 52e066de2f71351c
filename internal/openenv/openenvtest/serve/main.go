// Command serve serves the game of openenvtest on a free port, and prints the address.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/seed-7879b91d/grpo/internal/openenv/openenvtest"
)

func main() {
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		fmt.Printf("http://%s\n", at.Addr())
		server := http.Server{Handler: &openenvtest.Server{Sessions: 3, Turns: 2}, ReadHeaderTimeout: time.Minute}
		err = server.Serve(at)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
