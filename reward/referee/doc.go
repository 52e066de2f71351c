// Package referee has a model judge completions: it fills a template, sends the prompt to an OpenAI-compatible endpoint, and reads a
// score from the answer. It retries when the endpoint fails, caches answers, and stops at a budget.
//
// Not protected: a completion is part of the prompt, so it can address the judge model (prompt injection). The package knows neither
// problems nor what a score is worth.
package referee
