package sampler

import "unsafe"

// corpus holds recent prompts and completions, from which tokens are drafted by n-gram lookup: it finds an earlier place of the last
// tokens of a sequence, and the tokens that followed there.
//
// Texts are stored one after the other in a ring buffer, with a separator after each. A sequence is added in pieces as it grows. Each
// piece repeats the last tokens of the one before, so that an n-gram across the boundary is found too.
type corpus struct {
	ring   []textToken // its length is a power of two
	places []uint32    // by the hash of an n-gram: where the token after its last occurrence is; the length is a power of two
	end    uint32      // the place that is written next; places count on, and index the ring modulo its length
	size   int         // length of the ring, which is allocated with the first text
}

// newCorpus makes a corpus of about so many tokens, within minCorpus and maxCorpus.
func newCorpus(tokens int) corpus {
	size := minCorpus
	for size < min(tokens, maxCorpus) {
		size *= 2
	}
	return corpus{size: size}
}

// bytes is the memory of the corpus.
func (c *corpus) bytes() int {
	return c.size * int(unsafe.Sizeof(textToken{})+slotsPerToken*unsafe.Sizeof(uint32(0)))
}

// textToken is a token of a text, with the salt of the client that the text belongs to.
type textToken struct {
	token int32
	salt  uint32
}

const (
	minCorpus     = 1 << 12 // tokens that a corpus holds
	maxCorpus     = 1 << 18
	slotsPerToken = 4 // slots of the hash table for each token, of which an n-gram of each length takes one
	separator     = -1

	longestGram = 8
)

// grams are the lengths of the n-grams that are looked up, the longest first.
var grams = [...]int{longestGram, 4, 2}

// add stores a text, of which the first `before` tokens are stored already. Only lookups with the same salt find it.
func (c *corpus) add(salt uint64, text []int32, before int) {
	if c.ring == nil {
		c.ring, c.places = make([]textToken, c.size), make([]uint32, slotsPerToken*c.size)
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
	c.ring[int(c.end)%c.size] = textToken{token, uint32(salt)}
	c.end++
}

// slot is the index in places of an n-gram.
func (c *corpus) slot(salt uint64, gram []int32) uint64 {
	const odd = 0x9E3779B97F4A7C15
	h := (salt + uint64(len(gram))) * odd // separates salts and lengths
	for _, token := range gram {
		h = (h ^ uint64(uint32(token))) * odd
		h ^= h >> 29
	}
	return h % uint64(len(c.places))
}

// follow appends drafts to a text: at most so many tokens that may come next. For each it appends to matches the length of the context,
// up to longestGram, that was the same where it was found: longer matches are more often right.
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

// find looks up the last tokens of a text, the longest n-gram first. It returns the place after their last occurrence, and the length
// of the match, 0 for none. Collisions of hashes, and texts that have been overwritten, are found by comparing tokens.
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

// same is the number of tokens, at most n, that a text ends with and that also precede a place.
func (c *corpus) same(place uint32, text []int32, n int) int {
	n = min(n, len(text))
	for k := range n {
		if c.at(place-1-uint32(k)) != text[len(text)-1-k] {
			return k
		}
	}
	return n
}
