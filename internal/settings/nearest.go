package settings

// Nearest is the known word with the fewest edits to word, or "" if none is near: more than one edit per three letters
// would be a wild guess.
func Nearest(word string, known []string) string {
	best, at := "", len(word)/3+1
	for _, k := range known {
		if d := EditDistance(word, k); d < at {
			best, at = k, d
		}
	}
	return best
}

// EditDistance is the edit distance between two words: letters left out, added, replaced, or swapped with the next.
func EditDistance(a, b string) int {
	n := make([][]int, len(a)+1)
	for i := range n {
		n[i] = make([]int, len(b)+1)
		for j := range n[i] {
			if i == 0 || j == 0 {
				n[i][j] = i + j
				continue
			}
			n[i][j] = min(n[i-1][j], n[i][j-1]) + 1
			cost := n[i-1][j-1]
			if a[i-1] != b[j-1] {
				cost++
			}
			n[i][j] = min(n[i][j], cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				n[i][j] = min(n[i][j], n[i-2][j-2]+1)
			}
		}
	}
	return n[len(a)][len(b)]
}
