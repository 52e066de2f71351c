// Package grammar computes which tokens may come next, so that a model writes a JSON document that fits
// a schema, a call of a tool, or a text that matches a pattern.
//
//	vocabulary, err := grammar.NewVocabulary(tokenizer, rows, ends) // once for a tokenizer
//	g, err := grammar.JSONSchema(vocabulary, schema)                // once for a schema: all that can be refused is refused here
//	s := g.Start()                                                  // once for a completion
//	s.Allow(mask); s.Accept(token); …; s.Complete()
//
// A grammar is a network of nodes with edges over bytes, in which an edge may also call a subnetwork
// and continue where that returns: a pushdown automaton, as JSON values nest. It is nondeterministic; a State follows
// all parses of the text so far ("readings"), each with a node and a stack of return nodes.
//
// The tokens of a vocabulary form a trie, and what may come at a node is found by walking the trie and the network
// together. Most of it does not depend on the stack: where a walk leaves the subnetwork that it began in,
// the tokens up to there are allowed whatever the stack, and the rest of the trie is walked again from the
// return node. So results are cached in a tree, by node and then by return nodes, and a mask is the
// union of a few of them.
//
// There are no dead ends. Nodes that cannot reach the end of their subnetwork are removed
// when a grammar is built, automata of patterns have no dead states, part of a character or an escape is only
// accepted if an allowed character begins so, and the vocabulary is required to have a token for every byte.
// From a depth of 256 on, only edges are allowed that lead to the end with the least nesting.
//
// schema.go documents which texts are generated, and what is refused.
//
// The package does not know about models, sampling or requests: a State is a sampler.Constraint because it has the
// methods of one.
package grammar
