// Package precondition checks arguments of exported functions: a missing argument, or a number out of range, panics at once with its name,
// and not deep inside.
package precondition

import (
	"fmt"
	"reflect"
)

// expected describes arguments by the names that the module's functions give them.
var expected = map[string]string{
	"ctx":     "a context, such as context.Background()",
	"cfg":     "settings, such as those that configs.Load makes",
	"b":       "a backend, such as device.Open opens",
	"p":       "a policy, such as model.Open opens",
	"a":       "an adapter, such as lora.New makes",
	"l":       "a layout, such as lora.NewLayout makes",
	"served":  "an adapter that Serve has given",
	"s":       "a state, such as new(optim.State)",
	"each":    "a function that is called with every result",
	"open":    "a function that makes the text stream of a completion",
	"j":       "a judge, such as reward.Open makes",
	"problem": "a problem, such as package dataset reads",
	"g":       "a grader, such as reward.Open makes",
	"f":       "a function",
	"tok":     "a tokenizer, such as tokenizer.Load reads",
	"room":    "a function that makes a slice of so many numbers",
}

// NotNil panics if an argument of a function is nil. Each argument follows its name.
func NotNil(function string, arguments ...any) {
	for i := 0; i+1 < len(arguments); i += 2 {
		if missing(arguments[i+1]) {
			name := arguments[i].(string)
			panic(fmt.Sprintf("%s: the argument %s is nil, expected %s", function, name, expected[name]))
		}
	}
}

// InRange panics if a number is not within from and to.
func InRange(function, name string, n, from, to int) {
	if n < from || n > to {
		panic(fmt.Sprintf("%s: %s is %d, expected %d to %d", function, name, n, from, to))
	}
}

// missing reports whether an argument is nil, or an interface with a nil in it.
func missing(argument any) bool {
	if argument == nil {
		return true
	}
	v := reflect.ValueOf(argument)
	return (v.Kind() == reflect.Pointer || v.Kind() == reflect.Func) && v.IsNil()
}
