package sampler

import "unsafe"

// corpus is what was said lately: prompts and completions, by which tokens are drafted. It finds where the last tokens of a
// sequence stood before, and what came after them there.
//
// Texts lie one behind the other in a ring, with a separator after each, a sequence in pieces as it grows. A piece repeats the
// tokens before it, so that what stands across two pieces is found in the later one.
type corpus struct {
	ring   []said   // a power of two
	places []uint32 // by the hash of some tokens: where in the ring the token after them stood last; a power of two
	end    uint32   // of the texts
	size   int      // tokens of the ring; it is made when there is a text
}

// newCorpus makes one of so many tokens, or as near to that as it may be.
func newCorpus(tokens int) corpus {
	size := fewestSaid
	for size < min(tokens, mostSaid) {
		size *= 2
	}
	return corpus{size: size}
}

// bytes is what it takes.
func (c *corpus) bytes() int {
	return c.size * int(unsafe.Sizeof(said{})+placesEach*unsafe.Sizeof(uint32(0)))
}

// said is a token of a text, and whose text that is.
type said struct {
	token int32
	salt  uint32
}

const (
	fewestSaid = 1 << 12 // tokens that a corpus has
	mostSaid   = 1 << 18
	placesEach = 4 // to a token, which is found behind three grams
	separator  = -1

	longestGram = 8
)

// grams are how many tokens are looked for, the longest first.
var grams = [...]int{longestGram, 4, 2}

// add takes in a text, of which the first so many tokens were there before. Nothing of it is found by who has another salt.
func (c *corpus) add(salt uint64, text []int32, before int) {
	if c.ring == nil {
		c.ring, c.places = make([]said, c.size), make([]uint32, placesEach*c.size)
		c.put(salt, separator)
	}
	text, before = text[max(before-longestGram, 0):], min(before, longestGram)
	if room := len(c.ring) / 2; len(text) > room {
		text, before = text[len(text)-room:], 0
	}
	for i, token := range text {
		if i >= before {
			for _, n := range grams {
				if n <= i {
					c.places[c.slot(salt, text[i-n:i])] = c.end
				}
			}
		}
		c.put(salt, token)
	}
	c.put(salt, separator)
}

func (c *corpus) put(salt uint64, token int32) {
	c.ring[int(c.end)%c.size] = said{token, uint32(salt)}
	c.end++
}

// slot is where in places some tokens belong.
func (c *corpus) slot(salt uint64, gram []int32) uint64 {
	const odd = 0x9E3779B97F4A7C15
	h := (salt + uint64(len(gram))) * odd // far from those of other salts and lengths
	for _, token := range gram {
		h = (h ^ uint64(uint32(token))) * odd
		h ^= h >> 29
	}
	return h % uint64(len(c.places))
}

// follow appends to a text what may come next, at most so many tokens, and to matches how many tokens before each, up to longestGram,
// were the same when it came after them.
func (c *corpus) follow(salt uint64, text []int32, matches []uint8, most int) ([]int32, []uint8) {
	for end := len(text) + most; c.ring != nil && len(text) < end; {
		place, n := c.find(salt, text)
		if n == 0 {
			break
		}
		for ; len(text) < end && c.at(place) != separator; place++ {
			text, matches = append(text, c.at(place)), append(matches, uint8(n))
			n = min(n+1, longestGram)
		}
	}
	return text, matches
}

func (c *corpus) at(place uint32) int32 { return c.ring[int(place)%c.size].token }

// find gives where the last tokens of a text stood before, as many of them as can be found, and how many these are. What other
// tokens of the same hash, or other texts since, have left there is seen by comparing.
func (c *corpus) find(salt uint64, text []int32) (place uint32, n int) {
	for _, n := range grams {
		if n > len(text) {
			continue
		}
		place := c.places[c.slot(salt, text[len(text)-n:])]
		if c.at(place) != separator && c.ring[int(place)%c.size].salt == uint32(salt) && c.same(place, text, n) == n {
			return place, c.same(place, text, longestGram)
		}
	}
	return 0, 0
}

// same is how many of the last tokens of a text, n at the most, stand before a place.
func (c *corpus) same(place uint32, text []int32, n int) int {
	n = min(n, len(text))
	for k := range n {
		if c.at(place-1-uint32(k)) != text[len(text)-1-k] {
			return k
		}
	}
	return n
}
