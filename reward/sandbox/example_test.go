package sandbox_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// The program fails on the second of two inputs: that is a result, not an error.
func ExamplePool_Run() {
	ctx := context.Background()
	pool, err := sandbox.Open(ctx, sandbox.Options{Slots: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	double := sandbox.Program{Code: "print(2 * int(input()))"}
	inputs := []sandbox.Input{{Stdin: []byte("21\n")}, {Stdin: []byte("no number\n")}}
	err = pool.Run(ctx, "example", double, inputs, sandbox.Limits{CPU: 2 * time.Second}, func(i int, r sandbox.Result) bool {
		fmt.Printf("%d: %s %q\n", i, r.Status, r.Stdout)
		return true // go on with the next input
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	// Output:
	// 0: OK "42\n"
	// 1: RTE ""
}
