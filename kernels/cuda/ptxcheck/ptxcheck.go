// Package ptxcheck analyses compiled kernels statically: it counts live registers, shared and local memory, calls, and loads by width in
// their PTX. Its tests hold the kernels of the GPU backend to limits.
package ptxcheck

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Kernel is the statistics of a kernel.
type Kernel struct {
	Name         string
	Version      string // of PTX
	Target       string // the least capable card
	Instructions int
	Live         int  // most 32-bit registers live at once: a card uses about as many, and a few for addresses
	Shared       int  // bytes per block, without dynamic memory
	Local        bool // whether it uses local memory of a thread
	Calls        bool
	Loads        map[int]int // of global memory, asynchronous copies included: their number by bytes
	Stores       map[int]int
}

var (
	header    = regexp.MustCompile(`(?m)^\.version\s+(\S+)\s+\.target\s+(\S+)\s+\.address_size\s+64\s*$`)
	comment   = regexp.MustCompile(`//[^\n]*`)
	entry     = regexp.MustCompile(`\.entry\s+(\w+)\s*\(`)
	shared    = regexp.MustCompile(`\.shared\s+\.align\s+\d+\s+\.b8\s+(\w+)\[(\d+)\]`)
	localOnes = regexp.MustCompile(`\.local\b|\.depot`)
	called    = regexp.MustCompile(`\.func\b|\bcall\b`)
	copied    = regexp.MustCompile(`cp\.async\.c\S+\s+\[[^\]]*\],\s*\[[^\]]*\],\s*(\d+)`)
	element   = regexp.MustCompile(`\.[a-z](\d+)$`)
)

// Parse reads a module.
func Parse(text string) ([]Kernel, error) {
	text = comment.ReplaceAllString(text, "")
	head := header.FindStringSubmatch(text)
	if head == nil {
		return nil, fmt.Errorf("no .version, .target and .address_size 64 at the start")
	}
	starts := entry.FindAllStringSubmatchIndex(text, -1)
	if len(starts) == 0 {
		return nil, fmt.Errorf("no kernel")
	}
	var all []Kernel
	sizes, err := sharedOf(text)
	if err != nil {
		return nil, err
	}
	for n, at := range starts {
		end := len(text)
		if n+1 < len(starts) {
			end = starts[n+1][0]
		}
		k := Kernel{Name: text[at[2]:at[3]], Version: head[1], Target: head[2], Loads: map[int]int{}, Stores: map[int]int{}}
		if err := k.read(text[at[0]:end], sizes); err != nil {
			return nil, fmt.Errorf("kernel %s: %w", k.Name, err)
		}
		k.Calls = k.Calls || strings.Contains(text, ".func")
		all = append(all, k)
	}
	return all, nil
}

// sharedOf are the sizes of variables in shared memory, which may be declared outside of the kernel that uses them.
func sharedOf(text string) (map[string]int, error) {
	sizes := map[string]int{}
	for _, found := range shared.FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(found[2])
		if err != nil {
			return nil, err
		}
		sizes[found[1]] = n
	}
	return sizes, nil
}

var word = regexp.MustCompile(`\w+`)

// read analyses the text from a kernel's name to the next kernel.
func (k *Kernel) read(text string, shared map[string]int) error {
	begin, end := strings.Index(text, "{"), strings.LastIndex(text, "}")
	if begin < 0 || end < begin {
		return fmt.Errorf("no body")
	}
	body := text[begin+1 : end]
	used := map[string]bool{}
	for _, name := range word.FindAllString(body, -1) {
		if !used[name] {
			used[name] = true
			k.Shared += shared[name]
		}
	}
	k.Local, k.Calls = localOnes.MatchString(body), called.MatchString(body)
	code, err := instructions(body)
	if err != nil {
		return err
	}
	k.Instructions, k.Live = len(code), maxLive(code)
	for _, i := range code {
		if bytes := width(i.op, "ld.global"); bytes > 0 {
			k.Loads[bytes]++
		}
		if bytes := width(i.op, "st.global"); bytes > 0 {
			k.Stores[bytes]++
		}
	}
	for _, copy := range copied.FindAllStringSubmatch(body, -1) {
		bytes, err := strconv.Atoi(copy[1])
		if err != nil {
			return err
		}
		k.Loads[bytes]++
	}
	return nil
}

// width is the bytes of an access; 0 for other instructions.
func width(op, access string) int {
	if !strings.HasPrefix(op, access+".") {
		return 0
	}
	bits, err := strconv.Atoi(element.FindStringSubmatch(op)[1])
	if err != nil {
		return 0
	}
	switch {
	case strings.Contains(op, ".v2."):
		bits *= 2
	case strings.Contains(op, ".v4."):
		bits *= 4
	}
	return bits / 8
}
