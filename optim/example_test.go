package optim_test

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
	"github.com/seed-7879b91d/grpo/optim"
)

// Minimise x²/2, whose gradient is x.
func Example() {
	b := kerneltest.NewReference()
	params, _ := b.Alloc(kernels.F32, 1)
	grads, _ := b.Alloc(kernels.F32, 1)
	b.Upload(params, []float32{1})

	adam, err := optim.NewAdam(b, params, grads, optim.Defaults(), func(int) string { return "x" })
	if err != nil {
		fmt.Println(err)
		return
	}
	x := []float32{1}
	for range 4 {
		b.Copy(grads, params) // the gradients, usually from the model
		update, err := adam.Step(0.25)
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := b.Download(x, params); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("step %d: gradient norm %.3f, x is now %.3f\n", update.Step, update.GradNorm, x[0])
	}
	// Output:
	// step 1: gradient norm 1.000, x is now 0.750
	// step 2: gradient norm 0.750, x is now 0.503
	// step 3: gradient norm 0.503, x is now 0.265
	// step 4: gradient norm 0.265, x is now 0.043
}

func ExampleParseSchedule() {
	s, err := optim.ParseSchedule("cosine", 8, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	for step := 1; step <= 8; step++ {
		fmt.Printf("step %d: %.3f\n", step, s.Factor(step))
	}
	_, err = optim.ParseSchedule("linear", 0, 0)
	fmt.Println(err)
	// Output:
	// step 1: 0.500
	// step 2: 1.000
	// step 3: 0.950
	// step 4: 0.812
	// step 5: 0.611
	// step 6: 0.389
	// step 7: 0.188
	// step 8: 0.050
	// total_steps is 0: schedule "linear" needs a fixed number of steps to fall over; set total_steps
}
