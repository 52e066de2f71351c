// Package referee asks a model behind an endpoint that speaks as OpenAI's does what it thinks of a completion: a prompt out of a
// template, a number out of its answer. It asks again where the endpoint fails, asks nothing twice, and stops at a budget.
//
// What is not protected: a completion is part of the prompt, and may talk to the model that judges it. The package knows
// neither problems nor what a score is worth.
package referee
