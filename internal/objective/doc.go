// Package objective is what the papers about GRPO and its relatives differ in: how rewards are shaped, how they become
// advantages, and what is minimised. It is arithmetic on plain numbers; where they come from, it does not know.
//
// One step goes through it twice. Comparison turns the rewards of all groups into advantages. Then Loss gives, for one
// sequence after the other, the loss and its derivative by the log-probability of each token.
package objective
