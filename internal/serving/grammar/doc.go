// Package grammar says which tokens may come next, so that what a model writes is a JSON document that fits
// a schema, a call of a tool, or a text that matches a pattern.
//
//	vocabulary, err := grammar.NewVocabulary(tokenizer, rows, ends) // once for a tokenizer
//	g, err := grammar.JSONSchema(vocabulary, schema)                // once for a schema: all that can be refused is refused here
//	s := g.Start()                                                  // once for a completion
//	s.Allow(mask); s.Accept(token); …; s.Complete()
//
// A grammar is a network of nodes with edges over bytes, in which an edge may also call another part of the network
// and go on where that returns: a pushdown automaton, as values of JSON nest. It is not deterministic; a State follows
// all readings of what has been written, each of them a node and a stack of nodes to return to.
//
// The tokens of a vocabulary form a trie, and what may come at a node is found by walking the trie and the network
// together. Most of it does not depend on the stack: where a walk leaves the part of the network that it began in,
// the tokens up to there are allowed in any case, and the rest of the trie is walked once more from the node that is
// returned to. So what is kept is a tree of results, by node and then by the nodes returned to, and a mask is the
// union of a few of them.
//
// Nothing ends in a place from which there is no way on. Nodes that cannot reach the end of their part are cut off
// when a grammar is built, automata of patterns have no dead states, half a character or half an escape is only
// taken where a character that is allowed begins so, and the vocabulary is required to have a token for every byte.
// From a depth of 256 on only edges are taken that lead to the end with the least nesting.
//
// What documents look like, and what is refused, is said in schema.go.
//
// The package does not know about models, draws or requests: a State is a sampler.Constraint because it has the
// methods of one.
package grammar
