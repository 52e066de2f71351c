package browser

import "strings"

// piece is a part of a text, marked if it differs from the other text.
type piece struct {
	Text  string
	Class string // "": the same in both; line: a line without a counterpart; mark: a difference within a line
	Title string
}

// mostCells limits the work of a diff; larger texts are marked as a whole.
const mostCells = 1 << 20

// differ marks the differences of two texts: by lines first, and then by the middles of lines that correspond.
func differ(a, b string) (left, right []piece) {
	la, lb := strings.SplitAfter(a, "\n"), strings.SplitAfter(b, "\n")
	from := 0
	for from < len(la) && from < len(lb) && la[from] == lb[from] {
		from++
	}
	end := 0
	for end < len(la)-from && end < len(lb)-from && la[len(la)-1-end] == lb[len(lb)-1-end] {
		end++
	}
	ma, mb := la[from:len(la)-end], lb[from:len(lb)-end]
	d := difference{left: same(la[:from]), right: same(lb[:from])}
	if int64(len(ma)+1)*int64(len(mb)+1) > mostCells {
		d.hunk(ma, mb)
	} else {
		d.walk(ma, mb)
	}
	return append(d.left, same(la[len(la)-end:])...), append(d.right, same(lb[len(lb)-end:])...)
}

func same(lines []string) []piece {
	if len(lines) == 0 {
		return nil
	}
	return []piece{{Text: strings.Join(lines, "")}}
}

type difference struct{ left, right []piece }

// walk follows a longest common subsequence of lines.
func (d *difference) walk(a, b []string) {
	length := make([][]int32, len(a)+1) // length of that of a[i:] and b[j:]
	for i := range length {
		length[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	i, j, fromA, fromB := 0, 0, 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			d.hunk(a[fromA:i], b[fromB:j])
			d.left, d.right = append(d.left, piece{Text: a[i]}), append(d.right, piece{Text: b[j]})
			i, j = i+1, j+1
			fromA, fromB = i, j
		case length[i+1][j] >= length[i][j+1]:
			i++
		default:
			j++
		}
	}
	d.hunk(a[fromA:], b[fromB:])
}

// hunk marks lines that replace each other.
func (d *difference) hunk(a, b []string) {
	if len(a) != len(b) {
		for _, line := range a {
			d.left = append(d.left, piece{Text: line, Class: "line"})
		}
		for _, line := range b {
			d.right = append(d.right, piece{Text: line, Class: "line"})
		}
		return
	}
	for i := range a {
		head, tail := common([]rune(a[i]), []rune(b[i]))
		d.left = append(d.left, inLine([]rune(a[i]), head, tail)...)
		d.right = append(d.right, inLine([]rune(b[i]), head, tail)...)
	}
}

// common is how many characters two lines share at their beginnings, and at their ends.
func common(a, b []rune) (head, tail int) {
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	return head, tail
}

func inLine(line []rune, head, tail int) (pieces []piece) {
	for _, p := range []piece{{Text: string(line[:head]), Class: "line"}, {Text: string(line[head : len(line)-tail]), Class: "line mark"},
		{Text: string(line[len(line)-tail:]), Class: "line"}} {
		if p.Text != "" {
			pieces = append(pieces, p)
		}
	}
	return pieces
}
