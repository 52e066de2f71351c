package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/disk"
)

// download is the download of one file.
type download struct {
	client   *Client
	snapshot *Snapshot
	name     string
	link     string // its path by name, a link to the blob

	number, files int // it is number `number` of `files` files
	progress      func(Progress)

	address string
	etag    string // the name of the blob; for large files the SHA-256 of the content
	size    int64  // -1 if the Hub does not say
}

// failed wraps an error with the name of the file, and says whether another attempt resumes.
func (d *download) failed(err error) error {
	var t transient
	if err = fmt.Errorf("download %s of %s: %w", d.name, d.snapshot.repo, err); errors.As(err, &t) {
		return fmt.Errorf("%w; type the same command again to resume the download", err)
	}
	return err
}

// blob is the path of the content, under the name that the Hub gives it.
func (d *download) blob() string {
	return filepath.Join(d.client.folder(d.snapshot.repo), "blobs", d.etag)
}

// left is how many bytes are missing, as far as the Hub says.
func (d *download) left() int64 {
	if _, err := os.Stat(d.blob()); err == nil {
		return 0
	}
	left := max(d.size, 0)
	if part, err := os.Stat(d.blob() + unfinished); err == nil {
		left = max(left-part.Size(), 0)
	}
	return left
}

// unfinished is the suffix of an incomplete blob.
const unfinished = ".incomplete"

func (d *download) run(ctx context.Context) error {
	blob := d.blob()
	for _, dir := range []string{filepath.Dir(blob), filepath.Dir(d.link)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	folder := d.client.folder(d.snapshot.repo)
	unlock, err := lock(ctx, filepath.Join(d.client.Cache, ".locks", filepath.Base(folder), d.etag+".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(blob); err != nil { // else another process was faster, or another commit has it too
		if err := d.fetch(ctx, blob); err != nil {
			return err
		}
	}
	return symlink(blob, d.link)
}

// head learns the hash and the size. The Hub announces them before it redirects to its storage, so
// that redirect is not followed.
func (d *download) head(ctx context.Context) error {
	s := d.snapshot
	prefix := ""
	if s.repo.Type != Model {
		prefix = string(s.repo.Type) + "s/"
	}
	var parts []string
	for _, part := range strings.Split(d.name, "/") {
		parts = append(parts, url.PathEscape(part))
	}
	d.address = fmt.Sprintf("%s/%s%s/resolve/%s/%s", d.client.Endpoint, prefix, s.repo.ID, s.Commit, strings.Join(parts, "/"))
	resp, err := d.client.do(ctx, http.MethodHead, d.address, nil)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode < 300 || resp.StatusCode >= 400 {
		if err := d.client.check(resp, s.repo, d.name); err != nil {
			return err
		}
	}
	etag := orElse(resp.Header.Get("X-Linked-Etag"), resp.Header.Get("ETag"))
	d.etag = strings.Trim(strings.TrimPrefix(etag, "W/"), `"`)
	if d.etag == "" || !filepath.IsLocal(d.etag) || strings.ContainsAny(d.etag, `/\`) {
		return fmt.Errorf("the Hub at %s named no usable ETag (%q)", d.client.Endpoint, etag)
	}
	d.size = resp.ContentLength
	if text := resp.Header.Get("X-Linked-Size"); text != "" {
		if d.size, err = strconv.ParseInt(text, 10, 64); err != nil {
			return fmt.Errorf("the Hub announced a size of %q", text)
		}
	} else if resp.StatusCode >= 300 {
		d.size = -1
	}
	return nil
}

// fetch downloads the content to blob.
func (d *download) fetch(ctx context.Context, blob string) error {
	part, err := os.OpenFile(blob+unfinished, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer part.Close()
	furthest, damaged := int64(0), 0
	err = d.client.retry(ctx, func() (moved bool, err error) {
		before, err := part.Seek(0, io.SeekEnd)
		if err != nil {
			return false, err
		}
		after := before
		furthest = max(furthest, before)
		if before != d.size || before == 0 {
			if after, err = d.transfer(ctx, part, before); err != nil {
				return after > furthest, err // the server may have started over
			}
		}
		if err := d.verify(part, after); err != nil {
			// What is there cannot be trusted: the next attempt starts over, and over a line that breaks it moves on again.
			furthest, err = 0, errors.Join(err, part.Truncate(0))
			if damaged++; damaged == attempts {
				err = fmt.Errorf("after %d attempts: %v", attempts, err)
			}
			return false, err
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	if err := part.Sync(); err != nil {
		return err
	}
	if err := os.Rename(part.Name(), blob); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(blob))
}

// transfer appends the content after offset, and returns the new size. A silent connection counts as
// broken.
func (d *download) transfer(ctx context.Context, part *os.File, offset int64) (int64, error) {
	ctx, silence, end := d.client.stallTimer(ctx)
	defer end()

	header := http.Header{}
	if offset > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	resp, err := d.client.do(ctx, http.MethodGet, d.address, header)
	if err != nil {
		return offset, stallError(ctx, err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return 0, transient{err: errors.Join(errors.New("the file on the Hub is shorter than the part downloaded"), part.Truncate(0))}
	case resp.StatusCode == http.StatusPartialContent &&
		strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", offset)):
	case resp.StatusCode == http.StatusOK: // the server does not resume
		offset = 0
	case resp.StatusCode < 300:
		return offset, fmt.Errorf("asked for bytes from %d, the answer is %s with Content-Range %q",
			offset, resp.Status, resp.Header.Get("Content-Range"))
	default:
		return offset, d.client.check(resp, d.snapshot.repo, d.name)
	}
	if err := part.Truncate(offset); err != nil {
		return offset, err
	}
	if _, err := part.Seek(offset, io.SeekStart); err != nil {
		return offset, err
	}
	return d.copy(ctx, part, offset, resp.Body, silence)
}

// copy copies the body to the file. Errors of the file are final, those of the body are transient.
func (d *download) copy(ctx context.Context, part *os.File, offset int64, body io.Reader, silence *time.Timer) (int64, error) {
	buf := make([]byte, 1<<20)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			silence.Reset(d.client.stall)
			if _, err := part.Write(buf[:n]); err != nil {
				return offset, err
			}
			offset += int64(n)
			if d.progress != nil {
				d.progress(Progress{File: d.snapshot.repo.ID + "/" + d.name, Number: d.number, Files: d.files, Done: offset, Total: d.size})
			}
		}
		if err == io.EOF {
			return offset, nil
		}
		if err != nil {
			return offset, stallError(ctx, transient{err: err})
		}
	}
}

var errStalled = errors.New("the transfer stalled")

func stallError(ctx context.Context, err error) error {
	if context.Cause(ctx) == errStalled {
		return transient{err: errStalled}
	}
	return err
}

// verify compares the content with what the Hub announced. A 64-digit ETag is the SHA-256 of the
// content, a 40-digit one its git blob id.
func (d *download) verify(part *os.File, size int64) error {
	if d.size >= 0 && size != d.size {
		return transient{err: fmt.Errorf("truncated: %d bytes arrived, %d were announced", size, d.size)}
	}
	var h hash.Hash
	switch len(d.etag) {
	case 2 * sha256.Size:
		h = sha256.New()
	case 2 * sha1.Size:
		h = sha1.New()
		fmt.Fprintf(h, "blob %d\x00", size)
	default:
		return nil
	}
	if _, err := io.Copy(h, io.NewSectionReader(part, 0, size)); err != nil {
		return err
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != d.etag {
		return transient{err: fmt.Errorf("damaged: the content hashes to %s, the Hub announced %s", sum, d.etag)}
	}
	return nil
}

// makeLink is the system's.
var makeLink = os.Symlink

// symlink points link to the blob by a relative path, so that the cache may be moved. A link that leads nowhere gives way. On a file
// system without links, such as one of Windows, the blob itself takes the place, as with the Hub's own library.
func symlink(blob, link string) error {
	target, err := filepath.Rel(filepath.Dir(link), blob)
	if err != nil {
		return err
	}
	err = makeLink(target, link)
	if errors.Is(err, os.ErrExist) {
		if _, err := os.Stat(link); err == nil {
			return nil // another process was faster
		}
		if err := os.Remove(link); err != nil {
			return err
		}
		err = makeLink(target, link)
	}
	if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) { // and not for want of room: other links lead to the blob
		return os.Rename(blob, link)
	}
	return err
}

// lock keeps other processes from downloading the same blob; the kernel frees it when we die.
func lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for !disk.Lock(f) {
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			f.Close()
			return nil, err
		}
	}
	return func() { f.Close() }, nil
}
