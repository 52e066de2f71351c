package sampler_test

import (
	"context"
	"fmt"
	"log"
	"slices"

	"github.com/seed-7879b91d/grpo/kernels/device"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/sampler"
)

// small opens a model with random weights, in place of model.Open and a directory.
func small() (p *model.Policy, closeBackend func() error) {
	b, err := device.Open("cpu", 1)
	if err != nil {
		log.Fatal(err)
	}
	if p, err = model.Random(b, "tiny/1", model.Options{Frozen: true}); err != nil {
		log.Fatal(err)
	}
	return p, b.Close
}

// A completion depends on its key, and not on other requests.
func ExampleEngine_Sample() {
	p, closeBackend := small()
	defer closeBackend()
	e, err := sampler.New(p, sampler.Options{MaxSequences: 8, MaxLength: 64})
	if err != nil {
		log.Fatal(err)
	}
	request := sampler.Request{
		Prompt: []int32{1, 2, 3}, N: 4, Key: sampler.Key{Seed: 7},
		Params: sampler.Params{Temperature: 1, MaxTokens: 6},
	}
	four, err := e.Sample(context.Background(), []sampler.Request{request}, sampler.Events{})
	if err != nil {
		log.Fatal(err)
	}
	request.N = 1
	alone, err := e.Sample(context.Background(), []sampler.Request{request}, sampler.Events{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(four), four[0].Finish, slices.Equal(four[0].Tokens, alone[0].Tokens))
	// Output: 4 length true
}

// Requests are submitted at any time: one is observed token by token, one is cancelled.
func ExampleLive() {
	p, closeBackend := small()
	defer closeBackend()
	l, err := sampler.NewLive(p, sampler.Options{MaxSequences: 8, MaxLength: 64})
	if err != nil {
		log.Fatal(err)
	}
	request := sampler.Request{Prompt: []int32{1, 2, 3}, N: 1, Params: sampler.Params{Temperature: 1, MaxTokens: 6}}
	tokens := 0
	if _, err = l.Submit(request, sampler.Listener{
		Token: func(sampler.Token) { tokens++ },
		Done:  func(r sampler.Rollout) { fmt.Println(r.Finish, "after", tokens, "tokens") },
	}); err != nil {
		log.Fatal(err)
	}
	ticket, err := l.Submit(request, sampler.Listener{Done: func(r sampler.Rollout) { fmt.Println(r.Finish) }})
	if err != nil {
		log.Fatal(err)
	}
	ticket.Cancel()
	l.Close()                         // the sampler takes no more requests
	err = l.Run(context.Background()) // usually in a goroutine of its own
	if err != nil {
		log.Fatal(err)
	}
	// Unordered output:
	// cancelled
	// length after 6 tokens
}
