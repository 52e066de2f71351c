package grammar

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/grammar/automata"
)

// Part is an element of a grammar.
type Part interface {
	// build adds the part after a node, and returns the node behind it.
	build(b *builder, from int32) int32
}

type partFunc func(b *builder, from int32) int32

func (f partFunc) build(b *builder, from int32) int32 { return f(b, from) }

// Text is exactly this text.
func Text(text string) Part {
	return partFunc(func(b *builder, from int32) int32 {
		if !utf8.ValidString(text) {
			b.fail(badinput.Errorf("a text that must come is not UTF-8: %q", automata.Truncate(text)))
		}
		return b.text(from, text)
	})
}

// Mark is an added token of the tokenizer, such as <tool_call>, or its text if the tokenizer has no such token.
func Mark(content string) Part {
	return partFunc(func(b *builder, from int32) int32 {
		id, ok := b.voc.added[content]
		if !ok || slices.Contains(b.voc.ends, id) {
			return Text(content).build(b, from)
		}
		to := b.node()
		b.edge(from, edge{kind: tokenEdge, token: id, to: to})
		return to
	})
}

// Schema is a JSON value that fits a schema: see schema.go.
func Schema(schema json.RawMessage) Part {
	return partFunc(func(b *builder, from int32) int32 {
		to := b.node()
		b.call(from, b.schema(schema), to)
		return to
	})
}

// Pattern is a text that matches a regular expression from beginning to end.
func Pattern(pattern string) Part {
	return partFunc(func(b *builder, from int32) int32 {
		to := b.node()
		auto, err := automata.FullMatch(&b.budget, pattern)
		if err != nil {
			b.fail(err)
			return to
		}
		if auto == nil {
			b.fail(badinput.Errorf("the pattern %q matches no text", automata.Truncate(pattern)))
			return to
		}
		b.call(from, b.leaf(leaf{auto: auto, most: -1}), to)
		return to
	})
}

// Sequence is the parts one after the other.
func Sequence(parts ...Part) Part {
	return partFunc(func(b *builder, from int32) int32 {
		for _, p := range parts {
			from = p.build(b, from)
		}
		return from
	})
}

// Choice is one of the parts.
func Choice(parts ...Part) Part {
	return partFunc(func(b *builder, from int32) int32 {
		to := b.node()
		for _, p := range parts {
			begin := b.node()
			b.free(from, begin)
			b.free(p.build(b, begin), to)
		}
		return to
	})
}

// Repeat is a part, at least least and at most most times; most is -1 if there is no limit.
func Repeat(p Part, least, most int) Part {
	return partFunc(func(b *builder, from int32) int32 {
		to := b.node()
		if least == 0 {
			b.free(from, to)
		}
		for i := 0; b.err == nil && (most < 0 || i < most); i++ {
			begin := b.node()
			b.free(from, begin)
			from = p.build(b, begin)
			if i+1 >= least {
				b.free(from, to)
			}
			if most < 0 && i >= least {
				b.free(from, begin)
				break
			}
		}
		return to
	})
}

// Until is any text up to and including a mark, such as thoughts up to </think>. The mark is an added token if the tokenizer has
// it, or its text in other tokens: who parses the text sees no difference.
func Until(mark string) Part {
	return partFunc(func(b *builder, from int32) int32 {
		to := b.node()
		b.free(from, b.until(mark, to))
		return to
	})
}

// TextWith is any text in which each mark is followed by a part. It may end anywhere but within the part. So are optional
// calls of tools.
func TextWith(mark string, part Part) Part {
	return partFunc(func(b *builder, from int32) int32 {
		to, marked := b.node(), b.node()
		saying := b.until(mark, marked)
		b.free(from, saying)
		for n := int(saying); b.err == nil && n < len(b.nodes); n++ { // it may end unless the mark is complete
			b.free(int32(n), to)
		}
		b.free(part.build(b, marked), saying)
		return to
	})
}

// until adds nodes that read any text up to a mark (by Knuth-Morris-Pratt), then go to the node to. It returns the first node.
func (b *builder) until(mark string, to int32) int32 {
	id, added := b.voc.added[mark]
	added = added && !slices.Contains(b.voc.ends, id)
	if mark == "" {
		b.fail(badinput.Errorf("a mark is empty"))
	}
	nodes := make([]int32, len(mark), len(mark)+1) // by how much of the mark was read last
	for i := range nodes {
		nodes[i] = b.node()
	}
	nodes = append(nodes, to)
	for i := range mark {
		one := edge{to: -1} // a range of bytes that lead to the same node
		for c := range 256 {
			text := mark[:i] + string([]byte{byte(c)})
			for !strings.HasPrefix(mark, text) {
				text = text[1:]
			}
			if to := nodes[len(text)]; to != one.to {
				if c > 0 {
					b.edge(nodes[i], one)
				}
				one = edge{lo: byte(c), to: to}
			}
			one.hi = byte(c)
		}
		b.edge(nodes[i], one)
		b.edge(nodes[i], edge{kind: saidEdge, to: nodes[0]})
		if added {
			b.edge(nodes[i], edge{kind: tokenEdge, token: id, to: to})
		}
	}
	return nodes[0]
}

// Compile compiles a part. All errors of schemas and patterns are reported here.
func Compile(v *Vocabulary, p Part) (*Grammar, error) {
	b := newBuilder(v)
	start := b.node()
	end := p.build(b, start)
	if b.err == nil {
		b.free(end, b.final())
	}
	return newGrammar(b, start)
}

// JSONSchema compiles the grammar of a JSON value that fits a schema.
func JSONSchema(v *Vocabulary, schema json.RawMessage) (*Grammar, error) {
	return Compile(v, Schema(schema))
}

// Regex compiles the grammar of a text that matches a regular expression from beginning to end.
func Regex(v *Vocabulary, pattern string) (*Grammar, error) { return Compile(v, Pattern(pattern)) }
