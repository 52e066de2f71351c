package bundle

import (
	"archive/tar"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

func someFiles() []File {
	noise := make([]byte, 3000)
	for i := range noise {
		noise[i] = byte(i * i >> 3)
	}
	return []File{
		FromBytes("b/weights.bin", noise), FromBytes("a.txt", []byte("one\n")), FromBytes("b/none", nil), FromBytes("z.txt", []byte("two\n")),
	}
}

func packed(t *testing.T, files []File, keyFile string) (path string, content []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "run.tar.zst")
	if keyFile == "" {
		require.NoError(t, Write(path, files, nil))
	} else {
		key, err := SecretKey(keyFile)
		require.NoError(t, err)
		require.NoError(t, Write(path, files, key))
	}
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return path, content
}

func newKey(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	_, err := NewKey(path)
	require.NoError(t, err)
	return path
}

func check(content []byte) error {
	_, err := verify(bytes.NewReader(content), int64(len(content)))
	return err
}

func TestTheSameFilesGiveTheSameBytes(t *testing.T) {
	files := someFiles()
	path, one := packed(t, files, "")
	files[0], files[3] = files[3], files[0]
	_, two := packed(t, files, "")
	require.Equal(t, one, two)
	c, err := Verify(path)
	require.NoError(t, err)
	require.Equal(t, []string{"a.txt", "b/none", "b/weights.bin", "z.txt"}, c.Files)
	require.EqualValues(t, 3008, c.Bytes)
	require.Nil(t, c.Signer)

	z, err := zstd.NewReader(bytes.NewReader(one)) // an ordinary reader skips the frame at the end
	require.NoError(t, err)
	defer z.Close()
	names := []string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		names = append(names, h.Name)
	}
	require.Equal(t, []string{"grpo-run/SHA256SUMS", "grpo-run/a.txt", "grpo-run/b/none", "grpo-run/b/weights.bin", "grpo-run/z.txt"}, names)
}

// A flipped bit is found: in each kind of place of an archive, signed or not.
func TestAFlippedBitOfTheArchiveIsFound(t *testing.T) {
	_, content := packed(t, someFiles(), newKey(t))
	require.NoError(t, check(content))
	for bit := 0; bit < 8*len(content); {
		flipped := bytes.Clone(content)
		flipped[bit/8] ^= 1 << (bit % 8)
		err := check(flipped)
		require.Error(t, err, "bit %d of byte %d of %d", bit%8, bit/8, len(content))
		require.True(t, badinput.Is(err), "%v", err)
		if edge := 8 * 64; bit < edge || bit > 8*len(content)-edge {
			bit++ // skips the header bytes of frames
		} else {
			bit += 61
		}
	}
	for _, n := range []int{0, 1, len(content) / 2, len(content) - sealSize, len(content) - 1} {
		require.Error(t, check(content[:n]), "%d bytes", n)
	}
	require.Error(t, check(append(bytes.Clone(content), 0)))
	require.Error(t, check(append(bytes.Clone(content), content...)))
}

// entry is a file of a foreign archive.
type entry struct {
	name, content string
	change        func(h *tar.Header)
}

// archive packs entries unchanged, with a valid seal.
func archive(t *testing.T, entries []entry) []byte {
	t.Helper()
	var plain bytes.Buffer
	w := tar.NewWriter(&plain)
	for _, e := range entries {
		h := header(e.name, int64(len(e.content)))
		if e.change != nil {
			e.change(h)
		}
		require.NoError(t, w.WriteHeader(h))
		if h.Size > 0 {
			_, err := io.WriteString(w, e.content)
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	return sealed(t, plain.Bytes())
}

func sealed(t *testing.T, plain []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, zstd.WithWindowSize(window))
	require.NoError(t, err)
	_, err = z.Write(plain)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	h := sha256.New()
	h.Write(out.Bytes())
	return append(out.Bytes(), seal(h)...)
}

func sumsText(entries []entry) entry {
	e := entry{name: Sums}
	for _, f := range entries {
		e.content += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(f.content)), f.name)
	}
	return e
}

func TestFilesThatAreNotAsListedAreNamed(t *testing.T) {
	honest := []entry{{name: "a", content: "first"}, {name: "b", content: "second"}, {name: "c", content: "third"}}
	sums := sumsText(honest)
	require.NoError(t, check(archive(t, append([]entry{sums}, honest...))))
	for i, e := range honest {
		for bit := range 8 * len(e.content) {
			changed := append([]entry{sums}, honest...)
			flipped := []byte(e.content)
			flipped[bit/8] ^= 1 << (bit % 8)
			changed[i+1].content = string(flipped)
			require.ErrorContains(t, check(archive(t, changed)), e.name+" was damaged or changed")
		}
	}
	link := func(h *tar.Header) { h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, "/etc/passwd", 0 }
	for says, files := range map[string][]entry{
		"b is missing, or":                     {sums, honest[0], honest[2]},
		"c is missing":                         {sums, honest[0], honest[1]},
		`"grpo-run/d" is in it, but not in`:    {sums, honest[0], honest[1], honest[2], {name: "d"}},
		`"grpo-run/c" is in it, but not`:       {sums, honest[0], honest[1], honest[2], honest[2]},
		`or "a" is there twice`:                {sums, honest[0], honest[0], honest[1], honest[2]},
		"it was added, or renamed":             {sums, honest[0], {name: "aa"}, honest[1], honest[2]},
		"SHA256SUMS should be":                 {honest[0], honest[1], honest[2]},
		"is no ordinary file":                  {sums, {name: "a", change: link}, honest[1], honest[2]},
		"line 1 is no checksum and name":       {{name: Sums, content: "00  a\n"}},
		"line 2 is no checksum and name":       {{name: Sums, content: sumsText(honest[:1]).content + "00  b\n"}},
		"SHA256SUMS is not in its":             {{name: Sums, content: strings.TrimSuffix(sums.content, "\n")}, honest[0], honest[1], honest[2]},
		"a is there twice, or out of order":    {sumsText([]entry{honest[0], honest[0]}), honest[0], honest[0]},
		"owner, mode or time":                  {sums, {name: "a", content: "first", change: func(h *tar.Header) { h.Mode = 0o4755 }}},
		"SHA256SUMS.sig has":                   {sums, {name: Signature, content: "x"}},
		"SHA256SUMS has 1570001 bytes":         {{name: Sums, content: string(make([]byte, mostSums+1))}},
		"SHA256SUMS is missing":                nil,
		"SHA256SUMS.sig is no signature of SH": {sums, {name: Signature, content: string(make([]byte, signatureSize))}},
	} {
		err := check(archive(t, files))
		require.ErrorContains(t, err, says)
		require.True(t, badinput.Is(err))
	}
}

func TestNamesThatLeadElsewhereAreRefused(t *testing.T) {
	for _, name := range []string{"../x", "a/../../x", "/etc/passwd", "a//b", "./a", "a/", `a\b`, "c:x", "a\x00", "a\nb", " a", "a ", "a.",
		"é", "SHA256SUMS", string(bytes.Repeat([]byte("a"), mostName+1)), ""} {
		require.Error(t, checkName(name), "%q", name)
		e := entry{name: name, content: "x"}
		require.Error(t, Write(filepath.Join(t.TempDir(), "x"), []File{FromBytes(name, nil)}, nil), "%q", name)
		_, err := parseSums([]byte(sumsText([]entry{e}).content))
		require.Error(t, err, "%q", name)
	}
	require.NoError(t, checkName("checkpoints/step_000012/adapter model (1).safetensors"))
}

// A few kilobytes that would unpack to gigabytes are refused soon, and sizes in headers are not trusted.
func TestBombsEnd(t *testing.T) {
	bomb := entry{name: "a", content: string(make([]byte, 66<<20))}
	err := check(archive(t, []entry{sumsText([]entry{bomb}), bomb}))
	require.ErrorContains(t, err, "unpacks to more than")

	var plain bytes.Buffer
	w := tar.NewWriter(&plain)
	require.NoError(t, w.WriteHeader(header(Sums, mostSize-1)))
	require.ErrorContains(t, check(sealed(t, plain.Bytes())), "expected at most")

	long := func(h *tar.Header) { h.Format, h.PAXRecords = tar.FormatPAX, map[string]string{"GRPO.x": "y"} }
	require.ErrorContains(t, check(archive(t, []entry{{name: Sums, change: long}})), "owner, mode or time")
}

func TestSignatures(t *testing.T) {
	key := newKey(t)
	path, _ := packed(t, someFiles(), key)
	c, err := Verify(path)
	require.NoError(t, err)
	public, err := PublicKey(key + PublicSuffix)
	require.NoError(t, err)
	require.True(t, public.Equal(c.Signer))
	fromSecret, err := PublicKey(key)
	require.NoError(t, err)
	require.True(t, public.Equal(fromSecret))

	info, err := os.Stat(key)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	_, err = NewKey(key)
	require.ErrorContains(t, err, "is there already")
	_, err = SecretKey(key + PublicSuffix)
	require.ErrorContains(t, err, "signing takes the secret one; type --key "+key)
	_, err = SecretKey(path)
	require.ErrorContains(t, err, "--new-key")
	_, err = PublicKey(filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "--new-key")

	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(other.Public())
	require.NoError(t, err)
	path = filepath.Join(t.TempDir(), "p256")
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o644))
	_, err = PublicKey(path)
	require.ErrorContains(t, err, "is no ed25519 key")
}

// A pair of keys is written as a whole or not at all: with only one of them, the same command would be refused the next time.
func TestHalfAPairOfKeysIsNotLeft(t *testing.T) {
	dir := t.TempDir()
	_, err := NewKey(filepath.Join(dir, strings.Repeat("k", 255-len(PublicSuffix)+1))) // the name of the public key is too long
	require.ErrorContains(t, err, "file name too long")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestAFileThatGrowsMeanwhileIsRefused(t *testing.T) {
	reads := 0
	grows := File{"log", func() (io.ReadCloser, error) {
		reads++
		return io.NopCloser(bytes.NewReader(make([]byte, 10*reads))), nil
	}}
	path := filepath.Join(t.TempDir(), "x")
	require.ErrorContains(t, Write(path, []File{grows}, nil), "log changed while it was packed")
	_, err := os.Stat(path)
	require.ErrorIs(t, err, os.ErrNotExist)
}
