package provenance

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/openfile"
)

// A sample of a weight file is its header and some blocks of its data, evenly spread. It is read in milliseconds, and
// models that were trained differently differ in nearly every block.
const (
	sampleBlocks = 64
	blockBytes   = 4 << 10
	mostHeader   = 100 << 20
)

// sample takes the fingerprint of a file: the whole file, or a sample if it has weights.
func sample(path string) (string, error) {
	f, err := openfile.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if !strings.HasSuffix(path, ".safetensors") {
		_, err := io.Copy(h, f)
		return hex.EncodeToString(h.Sum(nil)), err
	}
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	size := info.Size()
	fmt.Fprintf(h, "%d bytes\n", size)
	var length [8]byte
	if _, err := f.ReadAt(length[:], 0); err != nil && err != io.EOF {
		return "", err
	}
	header := min(8+int64(min(binary.LittleEndian.Uint64(length[:]), mostHeader)), size)
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, header)); err != nil {
		return "", err
	}
	rest := size - header
	if rest <= sampleBlocks*blockBytes {
		_, err := io.Copy(h, io.NewSectionReader(f, header, rest))
		return hex.EncodeToString(h.Sum(nil)), err
	}
	for i := range int64(sampleBlocks) {
		at := header + (rest-blockBytes)*i/(sampleBlocks-1)
		if _, err := io.Copy(h, io.NewSectionReader(f, at, blockBytes)); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// FullHash takes the SHA-256 of all the weights of the model in dir. It reads every byte.
func FullHash(ctx context.Context, dir string) (string, error) {
	paths, err := find(dir, []string{"*.safetensors"})
	if err != nil {
		return "", err
	}
	all := sha256.New()
	for _, path := range paths {
		sum, err := fileHash(ctx, path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(all, "%s %s\n", sum, filepath.Base(path))
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}

func fileHash(ctx context.Context, path string) (string, error) {
	f, err := openfile.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if n, err := io.CopyN(h, f, 4<<20); n == 0 || err != nil && err != io.EOF {
			if err == io.EOF {
				err = nil
			}
			return hex.EncodeToString(h.Sum(nil)), err
		}
	}
}

// WeightHash computes FullHash in the background.
type WeightHash struct {
	cancel context.CancelFunc
	done   chan struct{}
	full   string
	err    error
}

// HashWeights starts to hash all the weights in dir.
func HashWeights(dir string) *WeightHash {
	ctx, cancel := context.WithCancel(context.Background())
	w := &WeightHash{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.full, w.err = FullHash(ctx, dir)
	}()
	return w
}

// Done returns the result, if it is there.
func (w *WeightHash) Done() (full string, done bool, err error) {
	select {
	case <-w.done:
		return w.full, true, w.err
	default:
		return "", false, nil
	}
}

// Close abandons a hash that is not finished.
func (w *WeightHash) Close() error {
	w.cancel()
	<-w.done
	return nil
}
