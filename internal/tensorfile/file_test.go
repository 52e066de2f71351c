package tensorfile

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// raw is a file with a header and a number of bytes of data.
func raw(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func write(t testing.TB, path string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// refused requires an input error on one line that has all of wants.
func refused(t *testing.T, err error, wants ...string) {
	t.Helper()
	if err == nil || !badinput.Is(err) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 1000 {
		t.Errorf("got %v, expected an input error on one line", err)
		return
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected %q", err, want)
		}
	}
}

// twoTensors is the header of two good tensors.
const twoTensors = `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[2,2],"data_offsets":[8,16]}}`

// edit gives a file of two with another header.
func edit(old, new string) []byte {
	if !strings.Contains(twoTensors, old) {
		panic(old + " is not in the header")
	}
	return raw(strings.Replace(twoTensors, old, new, 1), 16)
}

var damage = map[string]struct {
	data []byte
	want string
}{
	"empty":       {nil, "the file has 0 bytes"},
	"seven bytes": {make([]byte, 7), "the file has 7 bytes"},
	"pointer":     {[]byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"), "it is a pointer of Git LFS"},
	"no header":   {make([]byte, 8), "does not start with {"},
	"huge header": {append(binary.LittleEndian.AppendUint64(nil, math.MaxUint64), "{}"...),
		"the header claims 18446744073709551615 bytes, at most 100000000"},
	"long header":       {raw(twoTensors, 16)[:50], "the header claims 111 bytes, the file holds 42"},
	"just over":         {append(binary.LittleEndian.AppendUint64(nil, 3), "{}"...), "the header claims 3 bytes, the file holds 2"},
	"truncated":         {raw(twoTensors, 15), `tensor "b": it ends at offset 16, the file holds 15`},
	"more data":         {append(raw(twoTensors, 16), 0), "the tensors end at offset 16, the file holds 17"},
	"not JSON":          {raw(`{"a": nothing}`, 0), "the header is not usable JSON"},
	"unfinished JSON":   {raw(`{"a": {"dtype"`, 0), "it ends too early"},
	"two values":        {raw(`{}{}`, 0), "text after the JSON value"},
	"list":              {raw(`[]`, 0), "does not start with {"},
	"null tensor":       {raw(`{"a":null}`, 0), "not a safetensors header"},
	"number for tensor": {raw(`{"a":5}`, 0), "not a safetensors header"},
	"deep":              {raw(`{"a":`+strings.Repeat("[", 9)+strings.Repeat("]", 9)+`}`, 0), "nests deeper than 8"},
	"long list": {raw(`{"a":{"dtype":"F32","shape":[`+strings.Repeat("1,", 64)+`1],"data_offsets":[0,4]}}`, 4),
		"more than 64 values"},
	"same name twice":  {edit(`"b":`, `"a":`), `"a" is there twice`},
	"same key twice":   {edit(`"shape":[2,2]`, `"dtype":"F32"`), `"dtype" is there twice`},
	"overlap":          {edit(`[8,16]`, `[4,12]`), `tensor "b": it starts at offset 4, inside "a" which ends at 8`},
	"overlap at start": {edit(`[8,16]`, `[0,8]`), `tensor "b": it starts at offset 0, inside "a" which ends at 8`},
	"gap inside":       {append(edit(`[8,16]`, `[9,17]`), 0), `tensor "b": it starts at offset 9, expected 8 where "a" ends`},
	"gap before":       {edit(`[0,8]`, `[1,8]`), `tensor "a": it starts at offset 1, expected 0 where the header ends`},
	"backwards":        {edit(`[8,16]`, `[16,8]`), `tensor "b": it ends at offset 8, before its start at 16`},
	"beyond":           {edit(`[8,16]`, `[8,18446744073709551615]`), `tensor "b": it ends at offset 18446744073709551615`},
	"negative":         {edit(`[8,16]`, `[-8,16]`), `tensor "b"`},
	"three offsets":    {edit(`[8,16]`, `[8,12,16]`), `tensor "b"`},
	"fraction":         {edit(`[2,2]`, `[2,2.0]`), `tensor "b"`},
	"shape":            {edit(`[2,2]`, `[2,3]`), `tensor "b": it has 8 bytes, which does not fit BF16 of shape [2 3]`},
	"dtype":            {edit(`"BF16"`, `"F32"`), `tensor "b": it has 8 bytes, which does not fit F32 of shape [2 2]`},
	"unknown dtype":    {edit(`"BF16"`, `"BF17"`), `tensor "b" is encoded as BF17, expected BF16, F16 or F32`},
	"eight bits":       {edit(`"BF16"`, `"F8_E4M3"`), `tensor "b" is encoded as F8_E4M3, expected BF16, F16 or F32`},
	"overflow":         {edit(`[2,2]`, `[4611686018427387904,4]`), `tensor "b": it has 8 bytes`},
	"overflow to zero": {edit(`"shape":[2,2],"data_offsets":[8,16]`, `"shape":[9223372036854775808,2],"data_offsets":[8,8]`),
		`tensor "b": it has 0 bytes`},
	"dimension too long": {edit(`"shape":[2,2],"data_offsets":[8,16]`, `"shape":[0,9223372036854775808],"data_offsets":[8,8]`),
		`tensor "b": it has 0 bytes`},
	"missing key": {edit(`"shape":[2,2],`, ``), `tensor "b"`},
	"metadata":    {raw(`{"__metadata__":{"step":5}}`, 0), "__metadata__"},
}

func TestOpenRefusesDamage(t *testing.T) {
	for name, c := range damage {
		t.Run(name, func(t *testing.T) {
			path := write(t, filepath.Join(t.TempDir(), "some.safetensors"), c.data)
			f, err := Open(path)
			if f != nil {
				t.Error("a file came with the error")
			}
			refused(t, err, path+": ", c.want)
		})
	}
	refused(t, second(Open(filepath.Join(t.TempDir(), "none"))), "none: there is no such file")
	refused(t, second(Open(t.TempDir())), "it is a folder, expected a file")
}

func second[T any](_ T, err error) error { return err }

// A claimed length allocates nothing until the file is long enough.
func TestRefusalAllocatesLittle(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "x"), append(binary.LittleEndian.AppendUint64(nil, maxHeader), '{'))
	// A list whose decoded values would need a hundred times its length.
	long := write(t, filepath.Join(t.TempDir(), "y"), raw(`{"a":[`+strings.Repeat("0,", 1<<20)+`0]}`, 0))
	for _, p := range []string{path, long} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Open(p)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; err == nil || used > 1<<20 {
			t.Errorf("%v allocated %d bytes", err, used)
		}
	}
}

func TestTensor(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "m"), append(raw(
		`{"__metadata__":{"format":"pt"},"b":{"dtype":"F16","shape":[2,1],"data_offsets":[4,8]},"a":{"dtype":"F32","shape":[],`+
			`"data_offsets":[0,4]},`+
			`"empty":{"dtype":"BF16","shape":[3,0],"data_offsets":[8,8]},"ids":{"dtype":"I64","shape":[1],"data_offsets":[8,16]}}`, 0),
		0, 0, 0xC0, 0x3F, 0, 0x3C, 0, 0xC0, 1, 2, 3, 4, 5, 6, 7, 8))
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := fmt.Sprint(f.Names(), f.Metadata(), f.Path() == path); got != "[a b empty ids] map[format:pt] true" {
		t.Errorf("got %s", got)
	}
	for name, want := range map[string]string{"a": "[] [1.5]", "b": "[2 1] [1 -2]", "empty": "[3 0] []"} {
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(x.Shape, Float32s(x)); got != want || x.Name != name || x.File != path || !f.Has(name) {
			t.Errorf("%s is %s, expected %s", name, got, want)
		}
		if err := CheckFinite(x); err != nil {
			t.Error(err)
		}
	}
	if _, err := f.Tensor("b", 2, 1); err != nil {
		t.Error(err)
	}
	refused(t, second(f.Tensor("b", 2)), path, `tensor "b" has shape [2 1], expected [2]`)
	refused(t, second(f.Tensor("c")), path, `tensor "c" is missing`)
	refused(t, second(f.Tensor("ids")), path, `tensor "ids" is encoded as I64, expected BF16, F16 or F32`)
}

// Released pages have the same numbers when read again, and the process has shrunk meanwhile.
func TestRelease(t *testing.T) {
	const n = 8 << 20
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i)
	}
	path := filepath.Join(t.TempDir(), "m")
	if err := Write(path, []Source{FromFloat32s("a", values[:5], 5), FromFloat32s("w", values, n), FromFloat32s("z", values[:7], 7)},
		nil); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := f.Tensor("w", n)
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckFinite(w); err != nil { // touches every page
		t.Fatal(err)
	}
	touched := resident(t, path)
	f.Release("w")
	f.Release("a")
	f.Release("not there")
	if released := resident(t, path); touched < 4*n || released > 1<<20 {
		t.Errorf("%d bytes of the mapping were resident, %d after the release, of %d", touched, released, 4*n)
	}
	for _, name := range []string{"a", "w", "z"} {
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(Float32s(x), values[:x.Len()]) {
			t.Errorf("%s has other numbers", name)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

// resident is the number of bytes of a mapped file that are in this process's memory.
func resident(t *testing.T, path string) int {
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skipf("this system does not tell what is resident: %v", err)
	}
	_, part, ok := strings.Cut(string(maps), path+"\n")
	if !ok {
		t.Fatalf("%s is not mapped", path)
	}
	_, part, _ = strings.Cut(part, "Rss:")
	var kb int
	if _, err := fmt.Sscan(part, &kb); err != nil {
		t.Fatal(err)
	}
	return kb << 10
}

// No file makes the reader panic; an accepted one can be read to the last number and written again.
func FuzzFile(f *testing.F) {
	f.Add(raw(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[2,2],"data_offsets":[8,16]}}`, 16))
	f.Add(raw(`{"__metadata__":{"format":"pt"},"x":{"dtype":"F16","shape":[],"data_offsets":[0,2]}}`, 2))
	f.Add(raw(`{"x":{"dtype":"I64","shape":[0,9],"data_offsets":[0,0]}}  `, 0))
	f.Add(raw(`{}`, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := newFile("fuzz", data, len(data))
		if err != nil {
			if !badinput.Is(err) {
				t.Fatalf("not an input error: %v", err)
			}
			return
		}
		var sources []Source
		total := 0
		for _, name := range file.Names() {
			x, err := file.Tensor(name)
			if err != nil {
				continue
			}
			n := 1
			for _, s := range x.Shape {
				n *= s
			}
			if n != x.Len() || len(Float32s(x)) != n {
				t.Fatalf("%q: shape %v, %d elements", name, x.Shape, x.Len())
			}
			_ = CheckFinite(x)
			file.Release(name)
			total += len(x.Bytes)
			sources = append(sources, FromTensor(x))
		}
		if total > len(data) {
			t.Fatalf("%d bytes of tensors in a file of %d", total, len(data))
		}
		head, err := encodeHeader(arrange(sources), file.Metadata())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newFile("again", head, len(head)+total); err != nil {
			t.Fatalf("written again: %v", err)
		}
	})
}
